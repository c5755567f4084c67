"""Rooms stay apart: who may import whom, read from the source and seen in a process."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "doctor"

ALLOWED: dict[str, set[str]] = {
    "probes": set(),
    "facts": set(),
    "matrix": {"facts", "errors", "resources"},
    "checks": {"facts", "matrix", "errors", "plan", "resources"},
    "plan": {"facts", "matrix", "checks", "errors", "resources", "report"},
    "report": {"facts", "checks", "plan", "matrix", "diagnose", "smoke", "fleet"},
    "recipes": {"errors"},
    "simulate": {"facts", "matrix", "errors", "probes"},
}
"""Package -> packages of ours it may import beside itself and the bare `doctor`. errors and resources are modules."""


def imports_of(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_packages_import_only_what_they_may(package: str) -> None:
    wrong = []
    for file in (ROOT / package).rglob("*.py"):
        for name in imports_of(file):
            parts = name.split(".")
            if (
                parts[0] == "doctor"
                and len(parts) > 1
                and parts[1] not in ALLOWED[package] | {package, "__version__"}
            ):
                wrong.append(f"{file.relative_to(ROOT)}: {name}")
    assert wrong == []


def test_probes_use_the_standard_library_only() -> None:
    allowed = sys.stdlib_module_names | {"tomllib", "doctor", "pynvml"}
    wrong = []
    for file in (ROOT / "probes").rglob("*.py"):
        for name in imports_of(file):
            if name.split(".")[0] not in allowed:
                wrong.append(f"{file.name}: {name}")
            if name.split(".")[0] == "pynvml" and file.parent.name != "children":
                wrong.append(f"{file.name}: {name}")
    assert wrong == []


def test_engines_are_imported_nowhere() -> None:
    for file in ROOT.rglob("*.py"):
        assert not {name.split(".")[0] for name in imports_of(file)} & {
            "vllm",
            "tensorrt_llm",
            "torch",
        }, file


HEAVY = (
    "textual",
    "rich",
    "ansible_runner",
    "docker",
    "httpx",
    "yaml",
    "ruamel",
    "pynvml",
    "resolvelib",
    "packaging",
)


@pytest.mark.parametrize(
    ("code", "forbidden"),
    [
        ("from doctor.cli.main import main; main(['--version'])", ("click", "msgspec", *HEAVY)),
        ("import doctor.engine", HEAVY),
        ("import doctor.cli.verbs.check, doctor.report.text, doctor.report.json_", HEAVY),
    ],
)
def test_heavy_imports_are_lazy(code: str, forbidden: tuple[str, ...]) -> None:
    script = f"{code}\nimport sys\nprint([m for m in {forbidden!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


NOT_FOR_A_HEALTHY_HOST = (
    "distro",
    "tomllib",
    "configparser",
    "logging",
    "socket",
    "difflib",
    "base64",
    "doctor.plan",
    "doctor.checks.areas.want",
)


def test_a_healthy_recorded_host_loads_nothing_for_faults_and_wishes(tmp_path: Path) -> None:
    from doctor.simulate.simulator import simulate

    host = simulate({"gpus": ["NVIDIA H100 80GB HBM3"], "driver": "580.95.05"}).write(
        tmp_path / "r"
    )
    code = f"from doctor.cli.main import run\nassert run(['check', '--from', {str(host)!r}]) == 0"
    subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True
    )  # fills the caches
    test_heavy_imports_are_lazy(code, (*HEAVY, *NOT_FOR_A_HEALTHY_HOST))


def test_no_file_is_too_long() -> None:
    long = {
        str(file.relative_to(ROOT)): lines
        for file in ROOT.rglob("*.py")
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > 420
    }
    assert long == {}


def test_checks_live_in_the_module_of_their_area() -> None:
    from doctor.checks.base import all_checks

    for id, check in all_checks().items():
        module = check.judge.__module__.rpartition(".")[2]
        assert module in (check.area, "yaml_rules") or module.startswith(f"{check.area}_"), id


def test_areas_of_facts_are_areas_of_probes() -> None:
    from doctor.facts.tree import AREAS
    from doctor.probes.registry import area_names

    assert set(area_names()) == set(AREAS)
