"""Driver packages for apt: Ubuntu's own, and NVIDIA's with and without a branch in their names."""

from driver import BLACKLIST, NODES, build, daemon, fabric, source, tools, unbuild
from parts import DEB_LIB, NOTE, START, STOP, libraries, script
from stub import Stub


def ubuntu_branch(repo, version, revision, tail):
    """The packages of one branch, as Ubuntu's archive and NVIDIA's repository up to 580 name them. tail: "" or -server."""
    branch = version.split(".")[0]
    full = version + revision
    x = branch + tail
    made = []

    def one(name, **more):
        made.append(Stub(name, full, repo, **more))

    files, links = libraries(version, DEB_LIB)
    one(
        "libnvidia-compute-" + x,
        files=files,
        links=links,
        after="ldconfig\n",
        after_remove="ldconfig\n",
        provides=["libnvidia-ml.so.1"],
    )
    one(
        "nvidia-firmware-%s-%s" % (x, version),
        files={"/lib/firmware/nvidia/%s/gsp_ga10x.bin" % version: NOTE},
    )
    one(
        "nvidia-kernel-common-" + x,
        files={"/lib/modprobe.d/nvidia-graphics-drivers.conf": BLACKLIST},
        depends=["nvidia-firmware-%s-%s" % (x, version)],
        after="update-initramfs -u -k all\n",
        after_remove="update-initramfs -u -k all\n",
    )
    one(
        "nvidia-utils-" + x,
        files=tools(version),
        depends=["libnvidia-compute-%s (= %s)" % (x, full)],
        provides=["nvidia-utils"],
    )
    one(
        "nvidia-compute-utils-" + x,
        files=daemon(version),
        depends=["libnvidia-compute-%s" % x],
        after=START % "nvidia-persistenced",
        before_remove=STOP % "nvidia-persistenced",
    )
    for flavor in ("open", "proprietary"):
        end = x + ("-open" if flavor == "open" else "")
        one(
            "nvidia-dkms-" + end,
            files=source(version, flavor),
            depends=["dkms", "nvidia-kernel-common-%s (= %s)" % (x, full)],
            after=build(version),
            before_remove=unbuild(version),
            conflicts=["nvidia-kernel-dkms-any"],
            provides=["nvidia-kernel-dkms-any"],
        )
        needs = [
            "libnvidia-compute-%s (= %s)" % (x, full),
            "nvidia-utils-%s (= %s)" % (x, full),
            "nvidia-compute-utils-%s (= %s)" % (x, full),
            "nvidia-dkms-%s (= %s)" % (end, full),
        ]
        one(
            "nvidia-driver-" + end,
            depends=needs,
            files={"/usr/share/doc/nvidia-driver-%s/README" % end: NOTE},
        )
    one("nvidia-fabricmanager-" + branch, files=fabric(version))
    return made


def before(name):
    """The same of the branches whose packages have the branch in their names: one goes when the other comes."""
    return [name + "-" + branch + tail for branch in ("570", "580") for tail in ("", "-server")]


def ubuntu_cuda(repo, version):
    """NVIDIA's repository: metapackages, and names without a branch from 590 on."""
    branch = int(version.split(".")[0])
    full = version + "-0ubuntu1"
    made = []
    if branch <= 580:
        made += ubuntu_branch(repo, version, "-0ubuntu1", "")
        driver = {
            "open": "nvidia-driver-%d-open" % branch,
            "proprietary": "nvidia-driver-%d" % branch,
        }
    else:
        files, links = libraries(version, DEB_LIB)
        made.append(
            Stub(
                "libnvidia-compute",
                full,
                repo,
                conflicts=before("libnvidia-compute"),
                files=files,
                links=links,
                after="ldconfig\n",
                after_remove="ldconfig\n",
            )
        )
        made.append(
            Stub(
                "nvidia-firmware",
                full,
                repo,
                files={"/lib/firmware/nvidia/%s/gsp_ga10x.bin" % version: NOTE},
            )
        )
        made.append(
            Stub(
                "nvidia-kernel-common",
                full,
                repo,
                conflicts=before("nvidia-kernel-common"),
                files={"/lib/modprobe.d/nvidia-graphics-drivers.conf": BLACKLIST},
                depends=["nvidia-firmware (= %s)" % full],
                after="update-initramfs -u -k all\n",
                after_remove="update-initramfs -u -k all\n",
            )
        )
        made.append(
            Stub(
                "nvidia-modprobe",
                full,
                repo,
                conflicts=before("nvidia-utils"),
                files={"/usr/bin/nvidia-modprobe": NODES},
            )
        )
        made.append(
            Stub(
                "nvidia-utils",
                full,
                repo,
                conflicts=before("nvidia-utils"),
                files={"/usr/bin/nvidia-smi": script("nvidia-smi")},
                depends=["libnvidia-compute (= %s)" % full],
            )
        )
        made.append(
            Stub(
                "nvidia-persistenced",
                full,
                repo,
                conflicts=before("nvidia-compute-utils"),
                files=daemon(version),
                depends=["libnvidia-compute (= %s)" % full],
                after=START % "nvidia-persistenced",
                before_remove=STOP % "nvidia-persistenced",
            )
        )
        driver = {"open": "nvidia-driver-open"}
        made.append(
            Stub(
                "nvidia-dkms-open",
                full,
                repo,
                files=source(version, "open"),
                depends=["dkms", "nvidia-kernel-common (= %s)" % full],
                after=build(version),
                before_remove=unbuild(version),
            )
        )
        needs = [
            "%s (= %s)" % (name, full)
            for name in (
                "libnvidia-compute",
                "nvidia-utils",
                "nvidia-persistenced",
                "nvidia-modprobe",
                "nvidia-dkms-open",
            )
        ]
        made.append(
            Stub(
                "nvidia-driver-open",
                full,
                repo,
                depends=needs,
                files={"/usr/share/doc/nvidia-driver-open/README": NOTE},
            )
        )
    made.append(
        Stub(
            "nvidia-fabricmanager",
            full,
            repo,
            files=fabric(version),
            conflicts=["nvidia-fabricmanager-%d" % branch],
        )
    )
    for flavor, name in driver.items():
        meta = "nvidia-open" if flavor == "open" else "cuda-drivers"
        made.append(Stub(meta, full, repo, depends=["%s (= %s)" % (name, full)]))
        made.append(
            Stub("%s-%d" % (meta, branch), full, repo, depends=["%s (= %s)" % (name, full)])
        )
    pin = "Package: *nvidia* *cuda-drivers*\nPin: version %d.*\nPin-Priority: 1001\n" % branch
    made.append(
        Stub(
            "nvidia-driver-pinning-%d" % branch,
            "1-1ubuntu1",
            repo,
            arch="all",
            files={
                "/etc/apt/preferences.d/nvidia-driver-pinning-%d" % branch: (pin.encode(), 0o644)
            },
        )
    )
    return made
