"""What a role says that it touches is what it touches: copies are made of no more than undo could need."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from doctor.plan.remedy import Remedy, remedies

DRIVER = (
    "nvidia-driver-580-server-open nvidia-open nvidia-open-580 nvidia-driver-cuda kmod-nvidia-open-dkms nvidia-dkms-580-open "
    "nvidia-kernel-source-580-open nvidia-kernel-common-580 nvidia-firmware-580 nvidia-utils-580 nvidia-compute-utils-580-server "
    "nvidia-modprobe nvidia-persistenced libnvidia-compute-580 libnvidia-cfg1-580 libnvidia-common-580 libnvidia-decode-580 "
    "libnvidia-ml libnvidia-gl-580 libnvidia-nscq-580 linux-modules-nvidia-580-server-open-generic linux-objects-nvidia-580-server "
    "xserver-xorg-video-nvidia-580 nvidia-kmod-common nvidia-driver-libs nvidia-driver-cuda-libs nvidia-settings cuda-drivers "
    "cuda-drivers-580 nvidia-fabricmanager dkms"
).split()
ENGINE = "python3.12 python3.12-minimal python3.12-venv libpython3.12-stdlib libpython3.12-minimal python3-venv python3.11".split()
TOOLKIT = "cuda-toolkit-13-0 cuda-nvcc-13-0 cuda-cudart-13-0 libcublas-13-0 libnpp-13-0 libnvjitlink-13-0 nsight-compute-2025.3.0".split()
CONTAINER = "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1".split()
OTHERS = (
    "python3 python3-apt python3-dnf python3-yaml libpython3-stdlib python3-minimal libc6 systemd docker-ce openssh-server nvidia-dcgm "
    "nvidia-mig-parted libcurl4 libcups2 libcue2 libnvme1 libnvme-mi1 libcurl-openssl libcunit1 gcc-defaults-doc cpp-httplib cppcheck "
    "make-guile nvtop kernel kernel-core linux-image-generic datacenter-gpu-manager-4-core cuda-keyring"
).split()
OWN = {"container_engine": {"docker-ce"}, "container_toolkit": set(CONTAINER)}
"""Of all these what a role does mean."""


def matched(role: Remedy, names: list[str]) -> set[str]:
    globs = role.touches.packages
    return {name for name in names if any(fnmatchcase(name, glob) for glob in globs)}


@pytest.mark.parametrize(
    ("role", "own"),
    [
        ("nvidia_driver", DRIVER),
        ("wsl", [name for name in DRIVER if name not in ("dkms", "nvidia-driver-cuda")]),
        ("engine_env", ENGINE),
        ("cuda_toolkit", TOOLKIT),
        ("container_toolkit", CONTAINER),
    ],
)
def test_a_role_saves_its_own_packages(role: str, own: list[str]) -> None:
    assert set(own) - matched(remedies()[role], own) == set()


@pytest.mark.parametrize("role", sorted(remedies()))
def test_and_no_others(role: str) -> None:
    found = remedies()[role]
    assert matched(found, [*OTHERS, *CONTAINER]) == OWN.get(role, set())
    assert all(glob.strip("*?") for glob in found.touches.packages)


@pytest.mark.parametrize("role", sorted(remedies()))
def test_no_role_copies_a_large_folder(role: str) -> None:
    wide = ("/", "/opt", "/opt/*", "/usr", "/usr/*", "/usr/lib", "/usr/lib64", "/var", "/var/lib")
    paths = remedies()[role].touches.paths
    assert not set(paths) & set(wide)
    assert not [path for path in paths if path.startswith("/opt")]
    assert not [path for path in paths if fnmatchcase("/usr/local/cuda-13.0", path)]
