"""Repositories in the vendors' own forms: flat, pool and dists, rpm-md with module streams, and the loose files beside them."""

import pathlib
import re
import shutil

from sign import GPG, KEYS, MIRROR, NAMES, key_of, run
from stub import Stub


def ftparchive(folder, *options):
    return run("apt-ftparchive", *options, cwd=folder)


def sign_release(folder, key):
    uid = NAMES[key]
    run(
        *GPG,
        "--local-user",
        uid,
        "--clearsign",
        "--output",
        folder / "InRelease",
        folder / "Release",
    )
    run(
        *GPG,
        "--local-user",
        uid,
        "--armor",
        "--detach-sign",
        "--output",
        folder / "Release.gpg",
        folder / "Release",
    )


def flat(repo):
    """NVIDIA's form: packages and lists in one folder."""
    target = MIRROR / repo
    target.mkdir(parents=True, exist_ok=True)
    for path in (pathlib.Path("/srv/built") / repo).glob("*.deb"):
        shutil.copy(path, target)
    (target / "Packages").write_text(ftparchive(target, "packages", "."))
    run("gzip", "-kf9", target / "Packages")
    (target / "Release").write_text(
        ftparchive(
            target,
            "-o",
            "APT::FTPArchive::Release::Origin=NVIDIA",
            "-o",
            "APT::FTPArchive::Release::Label=NVIDIA CUDA",
            "release",
            ".",
        )
    )
    sign_release(target, "vendor")


def suites(repo, codename, component, names, key):
    """Debian's form: pool and dists."""
    target = MIRROR / repo.rpartition("/")[0]
    pool = target / "pool" / codename
    pool.mkdir(parents=True)
    for path in (pathlib.Path("/srv/built") / repo).glob("*.deb"):
        shutil.copy(path, pool)
    listed = run("apt-ftparchive", "packages", "pool/" + codename, cwd=target)
    for number, name in enumerate(names):
        dist = target / "dists" / name
        binary = dist / component / "binary-amd64"
        binary.mkdir(parents=True)
        (binary / "Packages").write_text("" if number else listed)
        run("gzip", "-kf9", binary / "Packages")
        for other in ("restricted", "universe", "multiverse") if component == "main" else ():
            (dist / other / "binary-amd64").mkdir(parents=True)
            (dist / other / "binary-amd64" / "Packages").write_text("")
        options = [
            "-o",
            "APT::FTPArchive::Release::Suite=" + name,
            "-o",
            "APT::FTPArchive::Release::Codename=" + codename,
            "-o",
            "APT::FTPArchive::Release::Architectures=amd64",
            "-o",
            "APT::FTPArchive::Release::Components="
            + " ".join(
                sorted(
                    {component}
                    | ({"restricted", "universe", "multiverse"} if component == "main" else set())
                )
            ),
            "-o",
            "APT::FTPArchive::Release::Origin=" + ("Ubuntu" if key == "os" else "Docker"),
            "-o",
            "APT::FTPArchive::Release::Label=" + ("Ubuntu" if key == "os" else "Docker CE"),
        ]
        (dist / "Release").write_text(ftparchive(dist, *options, "release", "."))
        sign_release(dist, key)


def rpms(repo):
    target = MIRROR / repo
    target.mkdir(parents=True, exist_ok=True)
    for path in (pathlib.Path("/srv/built") / repo).glob("*.rpm"):
        shutil.copy(path, target)
    key = key_of(repo)
    run(
        "rpmsign",
        "--addsign",
        "--define",
        "_gpg_name " + NAMES[key],
        "--define",
        "_gpg_path /srv/gnupg",
        "--define",
        "__gpg /usr/bin/gpg",
        "--define",
        "_dbpath /var/lib/rpm",
        *sorted(target.glob("*.rpm")),
    )
    run("createrepo_c", "--quiet", target)
    if "repos/rhel9/" in repo:
        streams = target / "modules.yaml"
        streams.write_text(modules(sorted(path.name for path in target.glob("*.rpm"))))
        run("modifyrepo_c", "--mdtype=modules", streams, target / "repodata")
    run(
        *GPG,
        "--local-user",
        NAMES[key],
        "--armor",
        "--detach-sign",
        "--output",
        target / "repodata/repomd.xml.asc",
        target / "repodata/repomd.xml",
    )


def modules(names):
    """nvidia-driver's streams: one that follows, and one for each branch."""
    branches = sorted(
        {found.group(1) for name in names if (found := re.match(r"nvidia-driver-(\d{3})\.", name))}
    )
    documents = []
    for branch in [None, *branches]:
        for kind in ("open", "dkms"):
            if kind == "dkms" and branch and int(branch) >= 620:
                continue
            stream = (
                {"open": "open-dkms", "dkms": "latest-dkms"}[kind]
                if branch is None
                else "%s-%s" % (branch, kind)
            )
            other = "kmod-nvidia-latest-dkms" if kind == "open" else "kmod-nvidia-open"
            kept = [
                name
                for name in names
                if re.search(r"^(kmod-)?nvidia|^cuda-drivers", name)
                and not name.startswith((other, "nvidia-fabricmanager"))
            ]
            kept = [
                name
                for name in kept
                if not (kind == "open" and name.startswith("cuda-drivers"))
                and not (kind == "dkms" and name.startswith("nvidia-open"))
            ]
            if branch:
                kept = [name for name in kept if re.search(r"-%s\.\d+" % branch, name)]
            lines = [
                "---",
                "document: modulemd",
                "version: 2",
                "data:",
                "  name: nvidia-driver",
                '  stream: "%s"' % stream,
                "  version: 20261101000000",
                "  context: standin0",
                "  arch: x86_64",
                "  summary: Nvidia driver",
                "  description: stand-in",
                "  license:",
                "    module: [MIT]",
                "  profiles:",
                "    default:",
                "      rpms: [%s]" % ("nvidia-open" if kind == "open" else "cuda-drivers"),
                "  artifacts:",
                "    rpms:",
            ]
            lines += ["    - " + nevra(name) for name in kept] + ["..."]
            documents.append("\n".join(lines))
    return "\n".join(documents) + "\n"


def nevra(name):
    stem, version, release = name[: -len(".rpm")].rsplit("-", 2)
    return "%s-3:%s-%s" % (stem, version, release)


def loose(versions):
    """Key files, .repo files and the keyring package's like."""
    vendor, own = (KEYS / "vendor.asc").read_text(), (KEYS / "os.asc").read_text()
    nvidia = MIRROR / "developer.download.nvidia.com/compute/cuda/repos"
    for folder, name in (
        ("ubuntu2204", "3bf863cc.pub"),
        ("ubuntu2404", "3bf863cc.pub"),
        ("wsl-ubuntu", "3bf863cc.pub"),
        ("rhel9", "D42D0685.pub"),
        ("rhel10", "CDF6BA43.pub"),
    ):
        (nvidia / folder / "x86_64" / name).write_text(vendor)
        if folder.startswith("rhel"):
            url = "https://developer.download.nvidia.com/compute/cuda/repos/%s/x86_64" % folder
            (nvidia / folder / "x86_64" / ("cuda-%s.repo" % folder)).write_text(
                "[cuda-%s-x86_64]\nname=cuda-%s-x86_64\nbaseurl=%s\nenabled=1\ngpgcheck=1\ngpgkey=%s/%s\n"
                % (folder, folder, url, url, name)
            )
    github = MIRROR / "nvidia.github.io/libnvidia-container"
    (github / "gpgkey").write_text(vendor)
    (github / "stable/deb/nvidia-container-toolkit.list").write_text(
        "deb https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /\n"
    )
    (github / "stable/rpm/nvidia-container-toolkit.repo").write_text(
        "[nvidia-container-toolkit]\nname=nvidia-container-toolkit\nbaseurl=https://nvidia.github.io/libnvidia-container/stable/rpm/$basearch\nrepo_gpgcheck=1\ngpgcheck=0\nenabled=1\ngpgkey=https://nvidia.github.io/libnvidia-container/gpgkey\nsslverify=1\n"
    )
    docker = MIRROR / "download.docker.com/linux"
    for name in ("ubuntu", "rhel", "centos", "rocky"):
        (docker / name / "gpg").write_text(vendor)
        if name != "ubuntu":
            (docker / name / "docker-ce.repo").write_text(
                "[docker-ce-stable]\nname=Docker CE Stable - $basearch\nbaseurl=https://download.docker.com/linux/%s/$releasever/$basearch/stable\nenabled=1\ngpgcheck=1\ngpgkey=https://download.docker.com/linux/%s/gpg\n"
                % (name, name)
            )
    fedora = MIRROR / "dl.fedoraproject.org/pub/epel"
    rocky = MIRROR / "dl.rockylinux.org/pub/rocky"
    for major in ("9", "10"):
        (fedora / ("RPM-GPG-KEY-EPEL-" + major)).write_text(own)
        (rocky / ("RPM-GPG-KEY-Rocky-" + major)).write_text(own)
        shutil.copy(
            next((rocky / major / "extras/x86_64/os").glob("epel-release-*.rpm")),
            fedora / ("epel-release-latest-%s.noarch.rpm" % major),
        )


def keyrings():
    """NVIDIA's cuda-keyring, one for each release."""
    made = []
    for folder in ("ubuntu2204", "ubuntu2404", "wsl-ubuntu"):
        url = "developer.download.nvidia.com/compute/cuda/repos/%s/x86_64" % folder
        line = "deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] https://%s/ /\n" % url
        made.append(
            Stub(
                "cuda-keyring",
                "1.1-1",
                url,
                arch="all",
                files={
                    "/usr/share/keyrings/cuda-archive-keyring.gpg": (
                        (KEYS / "vendor.gpg").read_bytes(),
                        0o644,
                    ),
                    "/etc/apt/sources.list.d/cuda-%s-x86_64.list" % folder: (line.encode(), 0o644),
                    "/etc/apt/preferences.d/cuda-repository-pin-600": (
                        b"Package: nsight-compute\nPin: origin *ubuntu.com*\nPin-Priority: -1\n\nPackage: nsight-systems\nPin: origin *ubuntu.com*\nPin-Priority: -1\n\nPackage: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n",
                        0o644,
                    ),
                },
                config=[
                    "/etc/apt/sources.list.d/cuda-%s-x86_64.list" % folder,
                    "/etc/apt/preferences.d/cuda-repository-pin-600",
                ],
            )
        )
    return made
