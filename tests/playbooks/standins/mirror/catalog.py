"""Every stub package of the mirror, named and versioned like the real one. Versions of drivers come from the matrix."""

from driver_deb import ubuntu_branch, ubuntu_cuda
from driver_rpm import rpm_driver
from rocky import rocky_base
from ubuntu import ubuntu_archive
from vendor import ancient_toolkit, deb_vendor, engine, rpm_vendor, toolkit


def everything(versions):
    """All stubs. versions: {"drivers": [oldest first], "archive": [drivers in Ubuntu's own archive], "toolkit": [newest]}."""
    made = []
    for codename, number, key in (
        ("jammy", "22.04", "ubuntu2204"),
        ("noble", "24.04", "ubuntu2404"),
    ):
        stubs, repo, _ = ubuntu_archive(codename, number)
        made += stubs
        for version in versions["archive"]:
            for tail in ("", "-server"):
                made += [
                    s
                    for s in ubuntu_branch(repo, version, "-0ubuntu0.%s.1" % number, tail)
                    if tail == "" or s.name != "nvidia-fabricmanager-" + version.split(".")[0]
                ]
        vendor = "developer.download.nvidia.com/compute/cuda/repos/%s/x86_64" % key
        for version in versions["drivers"]:
            made += ubuntu_cuda(vendor, version)
        made += deb_vendor(vendor)
        made += engine("download.docker.com/linux/ubuntu/" + codename, "deb", ubuntu=number)
    wsl = "developer.download.nvidia.com/compute/cuda/repos/wsl-ubuntu/x86_64"
    made += deb_vendor(wsl)
    (newest,) = versions["toolkit"]
    made += toolkit("nvidia.github.io/libnvidia-container/stable/deb/amd64", "deb", newest)
    made += ancient_toolkit("nvidia.github.io/libnvidia-container/stable/deb/amd64", "deb")
    for tag in ("el9", "el10"):
        made += rocky_base(tag, versions)
        vendor = "developer.download.nvidia.com/compute/cuda/repos/rhel%s/x86_64" % tag[2:]
        for version in versions["drivers"]:
            made += rpm_driver(vendor, version, tag)
        made += rpm_vendor(vendor)
        for name in ("rhel", "centos", "rocky"):
            made += engine(
                "download.docker.com/linux/%s/%s/x86_64/stable" % (name, tag[2:]), "rpm", tag=tag
            )
    made += toolkit("nvidia.github.io/libnvidia-container/stable/rpm/x86_64", "rpm", newest)
    made += ancient_toolkit("nvidia.github.io/libnvidia-container/stable/rpm/x86_64", "rpm")
    return made
