"""Ubuntu's archive: kernels, headers, dkms, gcc, Docker and unattended-upgrades."""

from distribution import gcc, nouveau, tables
from parts import KERNELS, NOTE, script, unit
from stub import Stub
from vendor import CONTAINERD, DOCKER, links_to


def ubuntu_archive(codename, number):
    """Kernels with headers, dkms, gcc, the archive's own driver, Docker and unattended-upgrades."""
    repo = "archive.ubuntu.com/ubuntu/" + codename
    made = []
    for release in KERNELS[codename]:
        version = release.rpartition("-")[0] + ".1"
        base = "/lib/modules/" + release
        made.append(
            Stub(
                "linux-image-" + release,
                version,
                repo,
                files={"/boot/vmlinuz-" + release: NOTE},
                depends=["linux-modules-" + release],
                after="update-initramfs -c -k %s\nupdate-grub\n%s"
                % (release, "[ -x /usr/sbin/dkms ] && dkms autoinstall -k %s || true\n" % release),
                after_remove='[ "$1" = upgrade ] || { update-initramfs -d -k %s; update-grub; }\n'
                % release,
            )
        )
        made.append(
            Stub(
                "linux-modules-" + release,
                version,
                repo,
                files={
                    **tables(base),
                    base + "/kernel/drivers/gpu/drm/nouveau/nouveau.ko": nouveau(release),
                },
                after_remove="rm -rf %s\n" % base,
            )
        )
        made.append(
            Stub(
                "linux-modules-extra-" + release,
                version,
                repo,
                files={base + "/kernel/extra/README": NOTE},
            )
        )
        made.append(
            Stub(
                "linux-headers-" + release,
                version,
                repo,
                files={"/usr/src/linux-headers-%s/Makefile" % release: NOTE},
                links={base + "/build": "/usr/src/linux-headers-" + release},
                after="[ -x /usr/sbin/dkms ] && dkms autoinstall -k %s || true\n" % release,
            )
        )
    for release in KERNELS[codename]:
        version = release.rpartition("-")[0].replace("-", ".")
        made.append(Stub("linux-image-generic", version, repo, depends=["linux-image-" + release]))
        made.append(
            Stub("linux-headers-generic", version, repo, depends=["linux-headers-" + release])
        )
        made.append(
            Stub(
                "linux-generic",
                version,
                repo,
                depends=[
                    "linux-image-generic (= %s)" % version,
                    "linux-headers-generic (= %s)" % version,
                ],
            )
        )
    made.append(
        Stub(
            "dkms",
            "3.0.11-1ubuntu13",
            repo,
            arch="all",
            depends=["gcc"],
            files={"/usr/sbin/dkms": script("dkms")},
        )
    )
    made.append(
        Stub(
            "gcc",
            "4:13.2.0-7ubuntu1",
            repo,
            files=gcc("13.3.0" if codename == "noble" else "11.4.0"),
            depends=["make"],
        )
    )
    other, spelt = (
        ("14", "14.2.0-4ubuntu2~24.04") if codename == "noble" else ("12", "12.3.0-1ubuntu1~22.04")
    )
    made.append(
        Stub("gcc-" + other, spelt, repo, files=gcc(spelt.partition("-")[0], "gcc-" + other))
    )
    made.append(
        Stub(
            "make", "4.3-4.1build2", repo, files={"/usr/bin/make": (b"#!/bin/sh\nexit 0\n", 0o755)}
        )
    )
    made.append(
        Stub(
            "mokutil", "0.6.0-2build3", repo, links={"/usr/bin/mokutil": "/usr/lib/standin/tool.py"}
        )
    )
    made.append(
        Stub(
            "unattended-upgrades",
            "2.9.1+nmu4ubuntu1",
            repo,
            arch="all",
            files={
                "/usr/bin/unattended-upgrade": (b"#!/bin/sh\nexit 0\n", 0o755),
                "/etc/apt/apt.conf.d/20auto-upgrades": (
                    b'APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "1";\n',
                    0o644,
                ),
                "/etc/apt/apt.conf.d/50unattended-upgrades": (
                    b'Unattended-Upgrade::Allowed-Origins {\n        "${distro_id}:${distro_codename}";\n        "${distro_id}:${distro_codename}-security";\n};\nUnattended-Upgrade::Package-Blacklist {\n};\n',
                    0o644,
                ),
            },
            config=[
                "/etc/apt/apt.conf.d/20auto-upgrades",
                "/etc/apt/apt.conf.d/50unattended-upgrades",
            ],
        )
    )
    made.append(
        Stub(
            "runc",
            "1.1.5-0ubuntu1",
            repo,
            links=links_to("/usr/bin", "runc"),
            conflicts=["containerd.io"],
        )
    )
    made.append(
        Stub(
            "containerd",
            CONTAINERD + "-0ubuntu1",
            repo,
            depends=["runc"],
            files={"/lib/systemd/system/containerd.service": unit("containerd.service")},
            links=links_to("/usr/bin", "containerd", "containerd-shim-runc-v2", "ctr"),
            after="systemctl daemon-reload || true\nsystemctl enable --now containerd || true\n",
            before_remove='case "$1" in remove) systemctl disable --now containerd || true;; esac\n',
            conflicts=["containerd.io"],
        )
    )
    made.append(
        Stub(
            "docker.io",
            DOCKER + "-0ubuntu1",
            repo,
            depends=["containerd"],
            files={
                "/lib/systemd/system/docker.service": unit("docker.service"),
                "/lib/systemd/system/docker.socket": unit("docker.socket"),
            },
            links=links_to("/usr/bin", "dockerd", "docker", "docker-proxy", "docker-init"),
            after="getent group docker >/dev/null || groupadd --system docker\nsystemctl daemon-reload || true\nsystemctl enable --now docker.socket docker.service || true\n",
            before_remove='case "$1" in remove) systemctl disable --now docker.service docker.socket || true;; esac\n',
            conflicts=["docker-ce"],
        )
    )
    return made, repo, number
