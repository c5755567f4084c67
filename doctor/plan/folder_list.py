"""What belongs in the folder of an air-gapped host, as a shell script that fetches it on a machine of the same release with a network.

apt and dnf there work out what the packages need beside themselves, so nothing is guessed here; names and versions are the plan's.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Known
from doctor.plan.folder import archive
from doctor.plan.pick import IMAGE
from doctor.plan.want import ImageWant
from doctor.report.plain import escape

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.plan.model import Plan, Step
    from doctor.plan.want import Want

HEAD = """\
#!/bin/sh
# For {host}: what `doctor --fix{wants} --offline DIR` takes from DIR, by the plan of {day}.
# Run this in an empty folder on a machine of the same release ({release}) that has a network. Then carry the folder to the host,
# and make it root's own there: chown -R root:root DIR && chmod -R go-w DIR
set -eu
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
save() {{ curl --fail --silent --show-error --location --create-dirs --output "$1" "$2"; }}
get() {{ save "${{1#*://}}" "$1"; }}          # host and path become folders
own() {{ [ -e "packages/${{1##*/}}" ] || save "packages/${{1##*/}}" "$1"; }}
pinned() {{ gpg --show-keys --with-colons "$1" | grep -q ":$2:"; }}
"""
APT = """
# packages, with what they need; those of the vendors beside their signed lists, those of the distribution in packages/
mkdir -p packages "$work/lists/partial" "$work/archives/partial"
cat > "$work/apt.conf" <<END
Dir::Etc::sourcelist "$work/sources.list";
Dir::State::lists "$work/lists";
Dir::Cache::archives "$work/archives";
Dir::State::status "$work/status";
Dir::Etc::preferences "$work/preferences";
APT::Sandbox::User "root";
END
: > "$work/status"
cat > "$work/preferences" <<END
{pin}
END
cat /etc/apt/sources.list > "$work/sources.list" 2>/dev/null || :
{repositories}
export APT_CONFIG="$work/apt.conf"
apt-get --quiet update
apt-get --quiet --print-uris --yes --no-install-recommends install {names} > "$work/said"
sed -n "s/^'\\([^']*\\)'.*/\\1/p" "$work/said" | while read -r url; do
  case $url in
    *developer.download.nvidia.com*|*nvidia.github.io*) get "$url" ;;
    *) own "$url" ;;
  esac
done
cd packages
if command -v apt-ftparchive > /dev/null; then apt-ftparchive packages .; else dpkg-scanpackages --multiversion .; fi > Packages
cd ..
"""
APT_REPOSITORY = """\
get {key}
pinned {key_file} {fingerprint}
for file in InRelease Release Release.gpg Packages Packages.gz; do get {url}/$file || :; done
gpg --dearmor < {key_file} > "$work/{name}.gpg"
echo "deb [signed-by=$work/{name}.gpg] {line}" >> "$work/sources.list"
"""
DNF = """
# packages, with what they need; those of the vendors beside their lists, those of the distribution in packages/
mkdir -p packages
{repositories}
{more}command -v createrepo_c > /dev/null || dnf --quiet --assumeyes install createrepo_c
dnf --quiet {options} download --resolve --alldeps --urls {names} > "$work/said"
grep '://' "$work/said" | while read -r url; do
  case $url in
    *developer.download.nvidia.com*|*nvidia.github.io*) get "$url" ;;
    *) own "$url" ;;
  esac
done
createrepo_c --quiet packages
"""
DNF_REPOSITORY = """\
get {key}
pinned {key_file} {fingerprint}
get {url}/repodata/repomd.xml
get {url}/repodata/repomd.xml.asc || :
sed -n 's/.*<location href="\\([^"]*\\)".*/\\1/p' {folder}/repodata/repomd.xml | while read -r file; do get {url}/"$file"; done
"""
NAMES = (
    "nvidia_driver_before",
    "nvidia_driver_packages",
    "fabric_manager_packages",
    "fabric_manager_subnet_packages",
    "persistence_packages",
    "container_engine_packages",
    "container_toolkit_packages",
    "cuda_toolkit_packages",
    "nccl_packages",
    "kernel_headers_compiler",
    "engine_env_python_packages",
)
"""Variables of roles that hold names of packages."""
EPEL = "epel-release"
"""Brings a repository from which others of the packages come."""
VERSIONS = {
    "nvidia_driver_packages": "nvidia_driver_version",
    "fabric_manager_packages": "fabric_manager_version",
    "persistence_packages": "persistence_version",
    "container_toolkit_packages": "container_toolkit_version",
    "nccl_packages": "nccl_version",
}


def script(plan: Plan, facts: Facts, wants: Sequence[Want]) -> str:
    """The script. A plan with nothing to do needs nothing."""
    manager = facts.packages.manager
    deb = isinstance(manager, Known) and manager.value == "apt"
    steps = [step for step in plan.steps if step.remedy is not None]
    parts = [
        HEAD.format(
            host=escape(plan.host.name) or "this host",
            wants=escape("".join(f" --want {shlex.quote(spec)}" for spec in plan.want)),
            day=plan.judged_as_of,
            release=escape(plan.host.distribution) or "see doctor check",
        )
    ]
    names = list(dict.fromkeys(_names(steps, deb)))
    if names:
        parts.append(_packages(steps, names, deb))
    for step in steps:
        if "engine_env_requirements" in step.vars:
            parts.append(_wheels(step.vars))
    parts += _images(wants)
    if len(parts) == 1:
        parts.append("\n# nothing: the plan has no step that takes anything from anywhere\n")
    return "".join(parts)


def _names(steps: Sequence[Step], deb: bool) -> Iterator[str]:
    for step in steps:
        if step.remedy == "kernel_headers":
            prefix = "linux-headers-" if deb else "kernel-devel-"
            yield from (prefix + release for release in step.vars["kernel_headers_releases"])
            yield from () if deb else ("kernel-headers",)
        if step.remedy == "driver_lock" and not deb:
            yield "python3-dnf-plugin-versionlock"
        for key in NAMES:
            version = str(step.vars.get(VERSIONS.get(key, ""), ""))
            for name in step.vars.get(key, []):
                yield name + _exact(version, deb)


def _exact(version: str, deb: bool) -> str:
    if not version:
        return ""
    tail = "" if "-" in version else "-*"
    return f"={version}{tail}" if deb else f"-{version}"


def _packages(steps: Sequence[Step], names: Sequence[str], deb: bool) -> str:
    repositories, options = [], []
    for step in steps:
        told = step.vars
        for name, url, key, pin in (
            ("cuda", "nvidia_repo_url", "nvidia_repo_key", "nvidia_repo_fingerprint"),
            (
                "toolkit",
                "container_toolkit_repository",
                "container_toolkit_key",
                "container_toolkit_key_fingerprint",
            ),
        ):
            if url not in told:
                continue
            if not told.get(pin):
                repositories.append(
                    f"# the key of {told[url]} has no fingerprint that can be cited"
                )
                continue
            repositories.append(_repository(name, told[url], told[key], told[pin], deb))
            options.append(f"--repofrompath={name},{_arch(told[url])}")
            options.append(f"--setopt={name}.module_hotfixes=1 --setopt={name}.gpgcheck=0")
    text = "".join(repositories).rstrip()
    quoted = " ".join(shlex.quote(name) for name in names)
    if deb:
        return APT.format(repositories=text, names=quoted, pin=_pin(steps))
    more = (
        f"rpm --quiet -q {EPEL} || dnf --quiet --assumeyes install {EPEL}\n"
        if EPEL in names
        else ""
    )
    return DNF.format(repositories=text, options=" ".join(options), names=quoted, more=more)


def _pin(steps: Sequence[Step]) -> str:
    """As the role does: apt would take the newest of what the driver's packages need."""
    for step in steps:
        version = step.vars.get("nvidia_driver_version")
        if version:
            names = "Package: *nvidia* cuda-drivers* libcuda1"
            return f"{names}\nPin: version {version}-*\nPin-Priority: 1001"
    return ""


def _arch(url: str) -> str:
    return url.replace("$basearch", "x86_64").replace("$(ARCH)", "amd64")


def _repository(name: str, url: str, key: str, fingerprint: str, deb: bool) -> str:
    plain = _arch(url).removesuffix(" /").rstrip("/")
    form = APT_REPOSITORY if deb else DNF_REPOSITORY
    return form.format(
        name=name,
        url=shlex.quote(plain),
        line=plain + " /",
        folder=shlex.quote(plain.partition("://")[2]),
        key=shlex.quote(key),
        key_file=shlex.quote(key.partition("://")[2]),
        fingerprint=fingerprint,
    )


def _wheels(told: dict[str, Any]) -> str:
    python = str(told.get("engine_env_python", "/usr/bin/python3")).rpartition("/")[2]
    first, *others = told.get("engine_env_indexes", ["https://pypi.org/simple"])
    line = [python, "-m", "pip", "download", "--only-binary=:all:", "--dest", "wheels"]
    line += ["--index-url", first, *(f"--extra-index-url={item}" for item in others)]
    line += told["engine_env_requirements"]
    return f"\n# wheels, for the Python that the host will use\n{shlex.join(line)}\n"


def _images(wants: Sequence[Want]) -> list[str]:
    refs = [want.ref for want in wants if isinstance(want, ImageWant)]
    found = []
    for ref in refs:
        name = shlex.quote(f"images/{archive(ref)}")
        found.append(
            f"\n# {IMAGE}\nmkdir -p images\ndocker pull {shlex.quote(ref)}\n"
            f"docker save --output {name} {shlex.quote(ref)}\n"
        )
    return found
