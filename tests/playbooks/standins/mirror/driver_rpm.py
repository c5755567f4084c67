"""Driver packages for dnf: one name for all branches, modules by DKMS or built for one kernel."""

from driver import BLACKLIST, NODES, build, daemon, fabric, source, unbuild
from parts import KERNELS, NOTE, kernel_ko, libraries, script
from stub import Stub


def rpm_driver(repo, version, tag):
    """NVIDIA's repository for EL: one name for all branches, modules by DKMS or built for one kernel."""
    made = []
    release = "1." + tag
    full = "3:%s-%s" % (version, release)
    branch = int(version.split(".")[0])

    def one(name, **more):
        made.append(
            Stub(
                name,
                version,
                repo,
                release=more.pop("release", release),
                epoch="3",
                arch=more.pop("arch", "x86_64"),
                **more,
            )
        )

    files, links = libraries(version, "/usr/lib64")
    one(
        "nvidia-driver-cuda-libs",
        files=files,
        links=links,
        after="ldconfig\n",
        after_remove="ldconfig\n",
    )
    one("nvidia-driver-libs", depends=["nvidia-driver-cuda-libs = " + full])
    one(
        "nvidia-modprobe",
        files={"/usr/bin/nvidia-modprobe": NODES},
    )
    one("nvidia-persistenced", files=daemon(version, "/usr/lib/systemd/system"))
    one(
        "nvidia-kmod-common",
        arch="noarch",
        files={
            "/usr/lib/modprobe.d/nvidia.conf": BLACKLIST,
            "/usr/lib/firmware/nvidia/%s/gsp_ga10x.bin" % version: NOTE,
        },
        depends=["nvidia-kmod = " + full],
        after="grubby --update-kernel=ALL --args='rd.driver.blacklist=nouveau modprobe.blacklist=nouveau'\ndracut -f --regenerate-all\n",
        after_remove="[ $1 = 0 ] && grubby --update-kernel=ALL --remove-args='rd.driver.blacklist=nouveau modprobe.blacklist=nouveau'\ndracut -f --regenerate-all\n",
    )
    one(
        "nvidia-driver-cuda",
        files={"/usr/bin/nvidia-smi": script("nvidia-smi")},
        depends=[
            "nvidia-driver-cuda-libs = " + full,
            "nvidia-persistenced = " + full,
            "nvidia-modprobe = " + full,
        ],
    )
    one(
        "nvidia-driver",
        depends=["nvidia-driver-libs = " + full, "nvidia-kmod-common = " + full],
        files={"/usr/share/doc/nvidia-driver/README": NOTE},
    )
    kinds = [("kmod-nvidia-open-dkms", "open")] + (
        [("kmod-nvidia-latest-dkms", "proprietary")] if branch < 620 else []
    )
    for name, flavor in kinds:
        one(
            name,
            arch="noarch",
            files=source(version, flavor),
            depends=["dkms >= 3.1.8"],
            provides=["nvidia-kmod = " + full],
            conflicts=[other for other, _ in kinds if other != name],
            after=build(version),
            before_remove=unbuild(version),
        )
    for meta, kmod in (
        ("nvidia-open", "kmod-nvidia-open-dkms"),
        ("cuda-drivers", "kmod-nvidia-latest-dkms"),
    ):
        if kmod in [name for name, _ in kinds]:
            one(
                meta,
                arch="noarch",
                depends=[
                    "nvidia-driver = " + full,
                    "nvidia-driver-cuda = " + full,
                    "%s = %s" % (kmod, full),
                ],
            )
    first = KERNELS[tag][0]
    one(
        "kmod-nvidia-open",
        files={
            "/lib/modules/%s/extra/nvidia.ko" % first: (kernel_ko(version, "open", first), 0o644)
        },
        provides=["nvidia-kmod = " + full],
        depends=["kernel-core-uname-r = " + first],
        after="depmod -a %s || true\n" % first,
        after_remove="depmod -a %s || true\n" % first,
    )
    made.append(
        Stub(
            "nvidia-fabricmanager",
            version,
            repo,
            release="1",
            arch="x86_64",
            files=fabric(version, "/usr/lib/systemd/system"),
        )
    )
    return made
