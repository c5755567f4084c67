"""Simulated hosts of many kinds, for tests that hold over all of them."""

from __future__ import annotations

from typing import Any

from tests.cases.reading import reports
from tests.checks.harness import BASES, cases, description_of

OTHERS: dict[str, dict[str, Any]] = {
    "debian-12": {"distro": "debian-12", "gpus": ["NVIDIA L4"]},
    "rocky-10": {"distro": "rocky-10", "gpus": ["NVIDIA H200"]},
    "fedora": {"distro": "fedora-42", "gpus": ["NVIDIA GeForce RTX 5090"]},
    "opensuse": {"distro": "opensuse", "gpus": ["NVIDIA GeForce RTX 4090"]},
    "centos-7": {"distro": "centos-7", "gpus": ["Tesla V100-PCIE-16GB"], "cgroup": "v1"},
    "amazon": {"distro": "amzn-2023", "platform": "vm", "gpus": ["NVIDIA A10G"]},
    "jetson": {
        "platform": "jetson",
        "distro": "ubuntu-22.04",
        "machine": "aarch64",
        "l4t": "36.4.3",
        "gpus": ["Orin"],
    },
    "gb200": {
        "distro": "ubuntu-24.04",
        "machine": "aarch64",
        "gpus": [{"name": "NVIDIA GB200", "count": 4}],
    },
    "podman": {
        "distro": "rocky-9.6",
        "gpus": ["NVIDIA L40S"],
        "containers": {"podman": "5.4.0", "toolkit": "1.19.1", "cdi": {"version": "0.7.0"}},
        "selinux": {"mode": "enforcing"},
    },
    "rootless": {
        "distro": "ubuntu-24.04",
        "gpus": ["NVIDIA L40S"],
        "containers": {"docker": "28.5.1", "toolkit": "1.19.1", "rootless": True},
        "root": False,
    },
    "mig": {
        "distro": "ubuntu-22.04",
        "gpus": [{"name": "NVIDIA A100 80GB PCIe", "mig": "2"}],
    },
}


def hosts() -> dict[str, dict[str, Any]]:
    """Descriptions by name: the bases, other distributions and platforms, the reports and their twins."""
    found = {**BASES, **OTHERS}
    for id, report in reports().items():
        found[id] = report.description
        found[f"{id} twin"] = report.twin()
        for number, description in enumerate(report.mutated()):
            found[f"{id} mutation {number}"] = description
    return found


def hosts_of_checks() -> dict[str, dict[str, Any]]:
    """Descriptions of the pairs that make checks count."""
    found = {}
    for name, case in cases():
        found[f"{name} fails"] = description_of(case.base, case.fails)
        found[f"{name} passes"] = description_of(case.base, case.passes)
    return found
