"""Toolkits, NCCL, the container toolkit and Docker's own packages."""

from parts import DEB_LIB, NOTE, at, unit
from stub import Stub

OLD_TOOLKIT = "1.17.8"

ANCIENT_TOOLKIT = "1.5.1"
"""Of before cgroup v2, and of before nvidia-ctk and its package."""

DOCKER = "20.10.24"
"""What the engine inside the stand-ins really is."""

CONTAINERD = "1.6.20"

NCCL = "2.29.7"


def cuda(repo, arch):
    """Two toolkits, each with its compiler in a package of its own."""
    made = []
    for release in ("13.0", "13.5"):
        dashed = release.replace(".", "-")
        base = "/usr/local/cuda-" + release
        nvcc = (
            "#!/bin/sh\necho 'nvcc: NVIDIA (R) Cuda compiler driver'\necho 'Cuda compilation tools, release %s, V%s.90'\n"
            % (release, release)
        )
        libs = base + "/targets/x86_64-linux/lib"
        files = {
            base + "/version.json": (
                ('{"cuda": {"name": "CUDA SDK", "version": "%s.2"}}\n' % release).encode(),
                0o644,
            ),
            "%s/libcudart.so.%s.90" % (libs, release): NOTE,
            libs + "/stubs/libcuda.so": NOTE,
        }
        links = {
            libs + "/libcudart.so.13": "libcudart.so.%s.90" % release,
            base + "/lib64": "targets/x86_64-linux/lib",
        }
        made.append(
            Stub(
                "cuda-nvcc-" + dashed,
                release + ".90",
                repo,
                arch=arch,
                files={base + "/bin/nvcc": (nvcc.encode(), 0o755)},
                after="[ -e /usr/local/cuda ] || ln -sfn cuda-%s /usr/local/cuda\n" % release,
                after_remove="[ -e /usr/local/cuda/ ] || rm -f /usr/local/cuda\n",
            )
        )
        conf = "/etc/ld.so.conf.d/cuda-%s.conf" % dashed
        files[conf] = (("%s/lib64\n" % base).encode(), 0o644)
        made.append(
            Stub(
                "cuda-toolkit-" + dashed,
                release + ".2",
                repo,
                arch=arch,
                depends=["cuda-nvcc-" + dashed],
                files=files,
                links=links,
                after="ln -sfn cuda-%s /usr/local/cuda\nldconfig\n" % release,
                after_remove="[ -e /usr/local/cuda/ ] || rm -f /usr/local/cuda\nldconfig\n",
            )
        )
    return made


def deb_vendor(repo):
    made = cuda(repo, "amd64")
    for version in ("2.27.7", NCCL):
        made.append(
            Stub(
                "libnccl2",
                version + "-1+cuda13.0",
                repo,
                files={DEB_LIB + "/libnccl.so." + version: NOTE},
                links={DEB_LIB + "/libnccl.so.2": "libnccl.so." + version},
            )
        )
        made.append(
            Stub(
                "libnccl-dev",
                version + "-1+cuda13.0",
                repo,
                depends=["libnccl2 (= %s-1+cuda13.0)" % version],
                files={"/usr/include/nccl.h": NOTE},
            )
        )
    return made


def rpm_vendor(repo):
    made = cuda(repo, "x86_64")
    for version in ("2.27.7", NCCL):
        made.append(
            Stub(
                "libnccl",
                version,
                repo,
                release="1+cuda13.0",
                arch="x86_64",
                files={"/usr/lib64/libnccl.so." + version: NOTE},
                links={"/usr/lib64/libnccl.so.2": "libnccl.so." + version},
            )
        )
        made.append(
            Stub(
                "libnccl-devel",
                version,
                repo,
                release="1+cuda13.0",
                arch="x86_64",
                depends=["libnccl = %s-1+cuda13.0" % version],
                files={"/usr/include/nccl.h": NOTE},
            )
        )
    return made


def toolkit(repo, kind, newest):
    """The container toolkit's four packages, which must be of one version."""
    made = []
    arch = "amd64" if kind == "deb" else "x86_64"
    folder = "/lib/systemd/system" if kind == "deb" else "/usr/lib/systemd/system"
    for version in (OLD_TOOLKIT, newest):
        full = version + "-1"
        same = "%s (= " + full + ")" if kind == "deb" else "%s = " + full
        spelt = full if kind == "deb" else version
        units = {
            folder + "/nvidia-cdi-refresh.service": unit("nvidia-cdi-refresh.service"),
            folder + "/nvidia-cdi-refresh.path": unit("nvidia-cdi-refresh.path"),
        }
        made.append(
            Stub(
                "libnvidia-container1",
                spelt,
                repo,
                arch=arch,
                files={"/usr/share/doc/libnvidia-container1/README": NOTE},
            )
        )
        made.append(
            Stub(
                "libnvidia-container-tools",
                spelt,
                repo,
                arch=arch,
                depends=[same % "libnvidia-container1"],
                files={
                    "/usr/bin/nvidia-container-cli": (
                        (
                            "#!/bin/sh\necho cli-version: %s\necho lib-version: %s\n"
                            % (version, version)
                        ).encode(),
                        0o755,
                    )
                },
            )
        )
        made.append(
            Stub(
                "nvidia-container-toolkit-base",
                spelt,
                repo,
                arch=arch,
                files={
                    "/usr/bin/nvidia-ctk": at("nvidia-ctk", version),
                    "/usr/bin/nvidia-container-runtime": at("nvidia-container-runtime", version),
                    "/usr/bin/nvidia-cdi-hook": (b"#!/bin/sh\nexit 0\n", 0o755),
                    **(units if version == newest else {}),
                },
                after="[ -e /etc/nvidia-container-runtime/config.toml ] || nvidia-ctk config --in-place\nsystemctl daemon-reload || true\n"
                + (
                    "systemctl enable --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service || true\n"
                    if version == newest
                    else ""
                ),
                before_remove='[ "$1" = upgrade ] || [ "$1" = 1 ] || systemctl disable --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service || true\n',
                after_remove='[ "$1" != purge ] || rm -rf /etc/nvidia-container-runtime\n',
            )
        )
        made.append(
            Stub(
                "nvidia-container-toolkit",
                spelt,
                repo,
                arch=arch,
                depends=[
                    same % "nvidia-container-toolkit-base",
                    same % "libnvidia-container-tools",
                    same % "libnvidia-container1",
                ],
                files={"/usr/bin/nvidia-container-runtime-hook": (b"#!/bin/sh\nexit 0\n", 0o755)},
            )
        )
    return made


def ancient_toolkit(repo, kind):
    """Three packages that know no cgroup v2."""
    arch = "amd64" if kind == "deb" else "x86_64"
    spelt = ANCIENT_TOOLKIT + ("-1" if kind == "deb" else "")
    rows = (
        ("libnvidia-container1", [], "/usr/share/doc/libnvidia-container1/README"),
        ("libnvidia-container-tools", ["libnvidia-container1"], "/usr/bin/nvidia-container-cli"),
        (
            "nvidia-container-toolkit",
            ["libnvidia-container-tools"],
            "/usr/bin/nvidia-container-toolkit",
        ),
    )
    body = ("#!/bin/sh\necho version: %s\n" % ANCIENT_TOOLKIT).encode()
    return [
        Stub(name, spelt, repo, arch=arch, depends=needs, files={path: (body, 0o755)})
        for name, needs, path in rows
    ]


def links_to(folder, *names):
    return {"%s/%s" % (folder, name): "/usr/lib/standin/docker/" + name for name in names}


def engine(repo, kind, ubuntu=None, tag=None):
    """Docker's own packages: links to the real engine that the image carries."""
    folder = "/lib/systemd/system" if kind == "deb" else "/usr/lib/systemd/system"
    arch = "amd64" if kind == "deb" else "x86_64"
    units = {
        folder + "/docker.service": unit("docker.service"),
        folder + "/docker.socket": unit("docker.socket"),
    }
    group = "getent group docker >/dev/null || groupadd --system docker\nsystemctl daemon-reload || true\n"
    start = group + (
        "systemctl enable --now docker.socket docker.service || true\n" if kind == "deb" else ""
    )
    if kind == "deb":
        spelt, conta = "5:%s~3-0~ubuntu.%s~x" % (DOCKER, ubuntu), CONTAINERD + "-1"
        more = {}
    else:
        spelt, conta, more = DOCKER, CONTAINERD, {"release": "3." + tag}
    stop = 'case "$1" in remove|0) systemctl disable --now docker.service docker.socket || true;; esac\n'
    return [
        Stub(
            "docker-ce",
            spelt,
            repo,
            arch=arch,
            epoch="" if kind == "deb" else "3",
            depends=["docker-ce-cli", "containerd.io"],
            files=units,
            links=links_to("/usr/bin", "dockerd", "docker-proxy", "docker-init"),
            after=start,
            before_remove=stop,
            conflicts=["docker.io"],
            **more,
        ),
        Stub(
            "docker-ce-cli",
            spelt,
            repo,
            arch=arch,
            epoch="" if kind == "deb" else "1",
            links=links_to("/usr/bin", "docker"),
            **more,
        ),
        Stub(
            "docker-buildx-plugin",
            "0.29.1-1" if kind == "deb" else "0.29.1",
            repo,
            arch=arch,
            files={"/usr/share/doc/docker-buildx-plugin/README": NOTE},
        ),
        Stub(
            "docker-compose-plugin",
            "2.40.0-1" if kind == "deb" else "2.40.0",
            repo,
            arch=arch,
            files={"/usr/share/doc/docker-compose-plugin/README": NOTE},
        ),
        Stub(
            "containerd.io",
            conta,
            repo,
            arch=arch,
            files={
                folder + "/containerd.service": unit("containerd.service"),
                "/etc/containerd/config.toml": (b'disabled_plugins = ["cri"]\n', 0o644),
            },
            config=["/etc/containerd/config.toml"],
            links=links_to("/usr/bin", "containerd", "containerd-shim-runc-v2", "ctr", "runc"),
            after="systemctl daemon-reload || true\n"
            + ("systemctl enable --now containerd || true\n" if kind == "deb" else ""),
            before_remove='case "$1" in remove|0) systemctl disable --now containerd || true;; esac\n',
            conflicts=["containerd", "runc"] if kind == "deb" else [],
        ),
    ]
