"""BaseOS, AppStream, extras and EPEL as far as a GPU host needs them."""

from distribution import gcc, nouveau, tables
from parts import KERNELS, NOTE, script
from stub import Stub


def rocky_base(tag, versions):
    """BaseOS, AppStream, EPEL and RPM Fusion as far as a GPU host needs them."""
    major = tag[2:]
    base = "dl.rockylinux.org/pub/rocky/%s/BaseOS/x86_64/os" % major
    apps = "dl.rockylinux.org/pub/rocky/%s/AppStream/x86_64/os" % major
    epel = "dl.fedoraproject.org/pub/epel/%s/Everything/x86_64" % major
    minor = "9.6" if major == "9" else "10.0"
    made = [
        Stub(
            "rocky-release",
            minor,
            base,
            release="1." + tag,
            arch="noarch",
            provides=[
                "system-release = " + minor,
                "system-release(releasever) = " + major,
                "redhat-release = " + minor,
                "base-module(platform:%s)" % tag,
            ],
            files={"/usr/share/rocky-release/README": NOTE},
        ),
        Stub(
            "bash",
            "5.1.8",
            base,
            release="9." + tag,
            arch="x86_64",
            provides=["/bin/sh", "/usr/bin/sh"],
            files={"/usr/share/doc/bash/README": NOTE},
        ),
        Stub(
            "systemd",
            "252",
            base,
            release="51." + tag,
            arch="x86_64",
            files={"/usr/share/doc/systemd-rpm/README": NOTE},
        ),
        Stub(
            "dracut",
            "057",
            base,
            release="87." + tag,
            arch="x86_64",
            files={"/usr/share/doc/dracut-rpm/README": NOTE},
        ),
        Stub(
            "grubby",
            "8.40",
            base,
            release="63." + tag,
            arch="x86_64",
            files={"/usr/share/doc/grubby-rpm/README": NOTE},
        ),
        Stub(
            "gcc",
            "11.5.0" if major == "9" else "14.2.1",
            apps,
            release="5." + tag,
            arch="x86_64",
            files=gcc("11.5.0" if major == "9" else "14.2.1"),
            depends=["make"],
        ),
        Stub(
            "make",
            "4.3",
            base,
            release="8." + tag,
            epoch="1",
            arch="x86_64",
            files={"/usr/bin/make": (b"#!/bin/sh\nexit 0\n", 0o755)},
        ),
        Stub(
            "dnf-plugins-core",
            "4.3.0",
            base,
            release="20." + tag,
            arch="noarch",
            files={"/usr/share/doc/dnf-plugins-core-rpm/README": NOTE},
        ),
        Stub(
            "python3-dnf-plugin-versionlock",
            "4.3.0",
            base,
            release="20." + tag,
            arch="noarch",
            files={
                "/etc/dnf/plugins/versionlock.conf": (
                    b"[main]\nenabled = 1\nlocklist = /etc/dnf/plugins/versionlock.list\n",
                    0o644,
                ),
                "/etc/dnf/plugins/versionlock.list": (b"", 0o644),
            },
            config=["/etc/dnf/plugins/versionlock.conf", "/etc/dnf/plugins/versionlock.list"],
            links={
                "/usr/lib/python3/dist-packages/dnf-plugins/versionlock.py": "/usr/lib/standin/versionlock.py"
            },
        ),
        Stub(
            "mokutil",
            "0.6.0",
            base,
            release="4." + tag,
            epoch="2",
            arch="x86_64",
            links={"/usr/bin/mokutil": "/usr/lib/standin/tool.py"},
        ),
        epel_release(epel, tag, epel),
        epel_release("dl.rockylinux.org/pub/rocky/%s/extras/x86_64/os" % major, tag, epel),
        Stub(
            "dkms",
            "3.2.2",
            epel,
            release="1." + tag,
            arch="noarch",
            depends=["gcc"],
            files={"/usr/sbin/dkms": script("dkms")},
        ),
        Stub(
            "xorg-x11-drv-nvidia-cuda-libs",
            versions["archive"][0],
            "download1.rpmfusion.org/nonfree/el/updates/%s/x86_64" % major,
            release="1." + tag,
            epoch="3",
            arch="x86_64",
            files={"/usr/share/doc/xorg-x11-drv-nvidia-cuda-libs/README": NOTE},
        ),
        Stub(
            "dnf-automatic",
            "4.14.0",
            base,
            release="25." + tag,
            arch="noarch",
            files={
                "/etc/dnf/automatic.conf": (
                    b"[commands]\nupgrade_type = default\napply_updates = yes\n",
                    0o644,
                ),
                "/usr/lib/systemd/system/dnf-automatic-install.timer": (
                    b"[Unit]\nDescription=dnf-automatic-install timer\n\n[Timer]\nOnCalendar=*-*-* 6:00\n\n[Install]\nWantedBy=timers.target\n",
                    0o644,
                ),
                "/usr/lib/systemd/system/dnf-automatic-install.service": (
                    b"[Service]\nType=oneshot\nExecStart=/bin/true\n",
                    0o644,
                ),
            },
            config=["/etc/dnf/automatic.conf"],
        ),
    ]
    for release in KERNELS[tag]:
        version, _, rest = release.partition("-")
        rel = rest.rpartition(".")[0]
        folder = "/lib/modules/" + release
        names = {"release": rel, "arch": "x86_64"}
        made.append(
            Stub(
                "kernel-core",
                version,
                base,
                files={"/boot/vmlinuz-" + release: NOTE, **tables(folder)},
                provides=[
                    "kernel-core-uname-r = " + release,
                    "kernel-uname-r = " + release,
                    "installonlypkg(kernel)",
                ],
                after="dracut -f --kver %s\ngrub2-mkconfig\n[ -x /usr/sbin/dkms ] && dkms autoinstall -k %s || true\n"
                % (release, release),
                after_remove="rm -f /boot/initramfs-%s.img\ngrub2-mkconfig || true\n" % release,
                **names,
            )
        )
        made.append(
            Stub(
                "kernel-modules",
                version,
                base,
                depends=["kernel-core = %s-%s" % (version, rel)],
                files={folder + "/kernel/drivers/gpu/drm/nouveau/nouveau.ko": nouveau(release)},
                provides=["installonlypkg(kernel-module)"],
                **names,
            )
        )
        made.append(
            Stub(
                "kernel-modules-core",
                version,
                base,
                depends=["kernel-core = %s-%s" % (version, rel)],
                files={folder + "/kernel/README": NOTE},
                provides=["installonlypkg(kernel-module)"],
                **names,
            )
        )
        made.append(
            Stub(
                "kernel-modules-extra",
                version,
                base,
                depends=["kernel-core = %s-%s" % (version, rel)],
                files={folder + "/kernel/extra/README": NOTE},
                provides=["installonlypkg(kernel-module)"],
                **names,
            )
        )
        made.append(
            Stub(
                "kernel",
                version,
                base,
                depends=[
                    "kernel-core = %s-%s" % (version, rel),
                    "kernel-modules = %s-%s" % (version, rel),
                ],
                provides=["installonlypkg(kernel)"],
                **names,
            )
        )
        made.append(
            Stub(
                "kernel-devel",
                version,
                apps,
                files={"/usr/src/kernels/%s/Makefile" % release: NOTE},
                links={folder + "/build": "/usr/src/kernels/" + release},
                provides=["kernel-devel-uname-r = " + release, "installonlypkg(kernel)"],
                after="[ -x /usr/sbin/dkms ] && dkms autoinstall -k %s || true\n" % release,
                **names,
            )
        )
        made.append(
            Stub(
                "kernel-devel-matched",
                version,
                apps,
                depends=[
                    "kernel-core = %s-%s" % (version, rel),
                    "kernel-devel = %s-%s" % (version, rel),
                ],
                **names,
            )
        )
        made.append(
            Stub(
                "kernel-headers",
                version,
                apps,
                files={"/usr/include/standin-kernel.h": NOTE},
                **names,
            )
        )
    return made


def epel_release(repo, tag, url):
    """EPEL's own repository file; Rocky's extras have the package too, so that `dnf install epel-release` works before EPEL is there."""
    major = tag[2:]
    key = "/etc/pki/rpm-gpg/RPM-GPG-KEY-EPEL-" + major
    body = (
        "[epel]\nname=Extra Packages for Enterprise Linux %s\nbaseurl=https://%s/\nenabled=1\ngpgcheck=1\ngpgkey=file://%s\n"
        % (major, url, key)
    )
    with open("/srv/keys/os.asc", "rb") as handle:
        data = handle.read()
    return Stub(
        "epel-release",
        major,
        repo,
        release="10." + tag,
        arch="noarch",
        files={"/etc/yum.repos.d/epel.repo": (body.encode(), 0o644), key: (data, 0o644)},
    )
