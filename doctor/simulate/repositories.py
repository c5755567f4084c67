"""Repository files of a simulated host: the distribution's own, and the third-party ones that are named or needed."""

from __future__ import annotations

from doctor.facts.distribution import parse
from doctor.simulate.host import Host

CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
TOOLKIT = "https://nvidia.github.io/libnvidia-container/stable"
KEYRINGS = {
    "cuda": "/usr/share/keyrings/cuda-archive-keyring.gpg",
    "nvidia-container-toolkit": "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg",
    "docker": "/usr/share/keyrings/docker.gpg",
}


def named(host: Host) -> list[str]:
    """Third-party repositories: as the description names them, else those that the packages come from."""
    if host.d.repos is not None:
        return host.d.repos
    found = []
    if host.driver.package and host.driver.origin == "cuda-repo":
        found.append("cuda")
        if host.family == "rhel" and host.distro_id not in ("fedora", "amzn"):
            found += ["epel", "crb"]
    if host.d.containers.toolkit not in (None, "none"):
        found.append("nvidia-container-toolkit")
    if host.d.containers.docker not in (None, "none") and host.d.containers.origin in (
        None,
        "apt",
        "dnf",
    ):
        found.append("docker")
    return found


def repositories_of(host: Host) -> dict[str, str]:
    """path -> text of every repository and preferences file."""
    return _apt(host) if host.family == "debian" else _dnf(host)


def cuda_folder(host: Host, name: str) -> str:
    """The folder of NVIDIA's repository: what the name says after cuda-, else this release's own."""
    said = name.removeprefix("cuda").removeprefix("-").removesuffix("-x86_64")
    return said or (
        "wsl-ubuntu" if host.d.platform == "wsl2" else parse(host.os_release).repository
    )


def _options(text: str) -> tuple[str, dict[str, str]]:
    name, *rest = text.split()
    return name, dict(item.split("=", 1) for item in rest if "=" in item)


def _apt(host: Host) -> dict[str, str]:
    code = parse(host.os_release).codename or "stable"
    mirror = (
        "http://archive.ubuntu.com/ubuntu"
        if host.distro_id == "ubuntu"
        else "http://deb.debian.org/debian"
    )
    parts = (
        "main restricted universe multiverse"
        if host.distro_id == "ubuntu"
        else "main contrib non-free non-free-firmware"
    )
    own = "".join(
        f"deb {mirror} {suite} {parts}\n" for suite in (code, f"{code}-updates", f"{code}-security")
    )
    files = {"/etc/apt/sources.list": own}
    for text in named(host):
        if text.startswith("deb "):
            files[f"/etc/apt/sources.list.d/extra-{len(files)}.list"] = text + "\n"
            continue
        name, options = _options(text)
        kind = "cuda" if name.startswith("cuda") else name
        if kind in KEYRINGS:
            options.setdefault("signed-by", KEYRINGS[kind])
        if options.get("signed-by") == "none":
            del options["signed-by"]
        head = " ".join(f"{key}={value}" for key, value in options.items())
        marks = f"[{head}] " if head else ""
        if kind == "cuda":
            folder = cuda_folder(host, name)
            files[f"/etc/apt/sources.list.d/cuda-{folder}-x86_64.list"] = (
                f"deb {marks}{CUDA}/{folder}/x86_64/ /\n"
            )
            files["/etc/apt/preferences.d/cuda-repository-pin-600"] = (
                "Package: nsight-compute\nPin: origin *ubuntu.com*\nPin-Priority: -1\n\n"
                "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
            )
        elif kind == "nvidia-container-toolkit":
            files["/etc/apt/sources.list.d/nvidia-container-toolkit.list"] = (
                f"deb {marks}{TOOLKIT}/deb/$(ARCH) /\n"
            )
        elif kind in ("libnvidia-container", "nvidia-docker", "nvidia-container-runtime"):
            files[f"/etc/apt/sources.list.d/{kind}.list"] = f"deb {marks}{TOOLKIT}/deb/$(ARCH) /\n"
        elif kind == "docker":
            files["/etc/apt/sources.list.d/docker.list"] = (
                f"deb {marks}https://download.docker.com/linux/{host.distro_id} {code} stable\n"
            )
        else:
            url = name if "//" in name else f"https://packages.example.com/{name}"
            files[f"/etc/apt/sources.list.d/extra-{len(files)}.list"] = (
                f"deb {marks}{url} {code} main\n"
            )
    return files


def apt_lists(host: Host) -> list[str]:
    """The package lists that apt fetched last."""
    root = "/var/lib/apt/lists/"
    code = parse(host.os_release).codename or "stable"
    site = "archive.ubuntu.com_ubuntu" if host.distro_id == "ubuntu" else "deb.debian.org_debian"
    found = [f"{root}{site}_dists_{code}-updates_main_binary-amd64_Packages"]
    for text in named(host):
        if text.startswith("cuda"):
            folder = cuda_folder(host, text.split()[0])
            found.append(
                f"{root}developer.download.nvidia.com_compute_cuda_repos_{folder}_x86%5f64_Packages"
            )
    return sorted(found)


def _dnf(host: Host) -> dict[str, str]:
    major = host.distro_version.partition(".")[0]
    own = (
        {"baseos": "BaseOS", "appstream": "AppStream"}
        if host.distro_id not in ("fedora", "amzn")
        else {host.distro_id: "os"}
    )
    text = "".join(
        f"[{ident}]\nname={name}\nmirrorlist=https://mirrors.example.org/{host.distro_id}/{major}/{name}\n"
        f"gpgcheck=1\nenabled=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-{host.distro_id}\n\n"
        for ident, name in own.items()
    )
    files = {f"/etc/yum.repos.d/{host.distro_id}.repo": text}
    for item in named(host):
        name, options = _options(item)
        ident, url = _dnf_address(host, name, major)
        options = {"enabled": "1", "gpgcheck": "1", "gpgkey": f"{url}D42D0685.pub", **options}
        lines = [f"{key}={value}" for key, value in options.items() if value != "none"]
        files[f"/etc/yum.repos.d/{ident}.repo"] = (
            f"[{ident}]\nname={ident}\nbaseurl={url}\n" + "\n".join(lines) + "\n"
        )
    return files


def _dnf_address(host: Host, name: str, major: str) -> tuple[str, str]:
    if name.startswith("cuda"):
        folder = cuda_folder(host, name)
        return f"cuda-{folder}-x86_64", f"{CUDA}/{folder}/x86_64/"
    known = {
        "epel": f"https://dl.fedoraproject.org/pub/epel/{major}/Everything/x86_64/",
        "crb": f"https://mirrors.example.org/{host.distro_id}/{major}/CRB/",
        "nvidia-container-toolkit": f"{TOOLKIT}/rpm/x86_64/",
        "docker": f"https://download.docker.com/linux/centos/{major}/x86_64/stable/",
        "rpmfusion": f"https://download1.rpmfusion.org/nonfree/el/updates/{major}/x86_64/",
        "negativo17": f"https://negativo17.org/repos/nvidia/epel-{major}/x86_64/",
    }
    key = name.partition("-")[0] if name.startswith("rpmfusion") else name
    return name.replace("/", "-"), known.get(
        key, name if "//" in name else f"https://packages.example.com/{name}/"
    )
