"""Each script is run, with a doctor that ends with every exit code: what the other system is told is what the code means."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.recipes.fake import HOSTILE, FakeDoctor, block, heredocs, made, report

CODES = (0, 1, 2, 3, 4, 5, 6, 70, 130)
RUN = "20260101T000000-abcdef"
BROKEN = report({"id": "driver.not-loaded", "say": "load 'it'; $(touch pwned)\n`touch pwned`"})
UNSEEN = report(
    None,
    [
        {"id": "cuda.no-device", "outcome": "unknown", "severity": "error", "blocked_by": "x", "message": "m"},
        {"id": "cuda.init-failed", "outcome": "unknown", "severity": "error", "blocked_by": None, "message": "timed out"},
    ],
)  # fmt: skip


@pytest.fixture
def doctor(tmp_path: Path) -> FakeDoctor:
    return FakeDoctor(tmp_path / "home")


def sh(script: str, folder: Path, *flags: str, path: str = "", **env: str) -> Any:
    file = folder / "script"
    file.write_text(script)
    words = {"PATH": f"{path}:/usr/bin:/bin" if path else "/usr/bin:/bin", **env}
    ran = subprocess.run(
        [*(flags or ("/bin/sh",)), str(file)],
        capture_output=True, text=True, cwd=folder, env=words, check=False, timeout=60,
    )  # fmt: skip
    assert not list(folder.glob("**/pwned"))
    return ran


def stub(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)
    return file


def provisioning(kind: str, doctor: FakeDoctor, *said: str) -> tuple[str, str]:
    """The script of the first boot and the one after a reboot."""
    said = (f"home={doctor.home}", "wait=9", *said)
    if kind == "packer":
        first, after, _ = heredocs(made("packer", *said))
        return first, after
    files = yaml.safe_load(made("cloud-init", *said))["write_files"]
    return files[0]["content"], files[1]["content"]


@pytest.mark.parametrize("kind", ["cloud-init", "packer"])
@pytest.mark.parametrize("code", CODES)
def test_provisioning_ends_like_the_fix(
    kind: str, code: int, doctor: FakeDoctor, tmp_path: Path
) -> None:
    script, after = provisioning(kind, doctor, f"want={HOSTILE}", "allow=gpu")
    stopped = [{"why": "containers run", "allow": "service"}]
    doctor.ends(code, {"run": RUN, "stopped": stopped if code == 5 else []})
    ran = sh(script, tmp_path)
    assert ran.returncode == code, ran.stderr
    assert doctor.calls() == [
        ["--fix", "--format", "json", "-o", f"{doctor.home}/provision.json", "--want", HOSTILE, "--allow", "gpu"]
    ]  # fmt: skip
    assert ("ready" in ran.stdout) == (code == 0)
    assert ("consent" in ran.stderr) == (code == 5)
    assert sh(after, tmp_path).returncode == 0
    assert len(doctor.calls()) == 1, "nothing goes on, so nothing is waited for"


@pytest.mark.parametrize("kind", ["cloud-init", "packer"])
def test_provisioning_waits_for_what_goes_on_after_a_reboot(
    kind: str, doctor: FakeDoctor, tmp_path: Path
) -> None:
    script, after = provisioning(kind, doctor)
    doctor.ends(5, {"run": RUN, "stopped": [{"why": "a reboot was ordered", "rebooting": True}]})
    ran = sh(script, tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert RUN in ran.stdout
    for code in (5, 4, 0):
        doctor.ends(code, {"run": RUN, "stopped": []}, "runs")
        if code == 0:
            sh(script, tmp_path)
        assert sh(after, tmp_path).returncode == code
        called = [
            "runs",
            "show",
            RUN,
            "--wait",
            "9",
            "--format",
            "json",
            "-o",
            f"{doctor.home}/provision.json",
        ]
        assert doctor.calls()[-1] == called
        assert (doctor.home / "goes-on").exists() == (code == 5)
    before = len(doctor.calls())
    assert sh(after, tmp_path).returncode == 0
    assert len(doctor.calls()) == before, "it is over"


def test_image_is_proved_by_a_fresh_look(doctor: FakeDoctor, tmp_path: Path) -> None:
    prove = heredocs(made("packer", f"home={doctor.home}"))[2]
    for code in (0, 1, 3):
        doctor.ends(code)
        assert sh(prove, tmp_path).returncode == code
    assert doctor.calls()[-1] == ["check"]


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    """Slurm's scontrol, which says the node's state and writes down what is asked of it."""
    tools = tmp_path / "tools"
    said = f'for word; do printf "%s|" "$word"; done >>{tmp_path}/asked; echo >>{tmp_path}/asked\n'
    stub(tools, "scontrol", said + f'case "$1 $2" in "show hostnames") echo "$3" ;; "show node") cat {tmp_path}/state ;; esac\n')  # fmt: skip
    stub(tools, "logger", f'printf "%s\\n" "$*" >>{tmp_path}/log\n')
    (tmp_path / "state").write_text("NodeName=gpu1 State=IDLE Partitions=p\n")
    return tools


def asked(folder: Path) -> list[list[str]]:
    if not (folder / "asked").exists():
        return []
    lines = (folder / "asked").read_text().splitlines()
    return [line.split("|")[:-1] for line in lines if line.startswith("update")]


REASONS = {
    1: "doctor: driver.not-loaded: load  it ;  (touch pwned)  touch pwned ",
    3: "doctor: cuda.init-failed: timed out",
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("unsure", ["drain", "leave"])
def test_prolog_keeps_jobs_off_and_says_why(
    code: int, unsure: str, doctor: FakeDoctor, slurm: Path, tmp_path: Path
) -> None:
    doctor.ends(code, {0: report(None), 1: BROKEN, 3: UNSEEN}.get(code, "no JSON"))
    script = made("slurm-prolog", f"doctor={doctor.command}", f"slurm={slurm}", f"unsure={unsure}", f"want={HOSTILE}")  # fmt: skip
    ran = sh(script, tmp_path, SLURMD_NODENAME="gpu1", SLURM_JOB_ID="7")
    bad = code == 1 or (code != 0 and unsure == "drain")
    assert ran.returncode == (1 if bad else 0), ran.stderr
    assert doctor.calls() == [["check", "--format", "json", "--want", HOSTILE]]
    reason = REASONS.get(code, f"doctor: no verdict, exit code {code}")
    drained = ["update", "NodeName=gpu1", "State=DRAIN", f"Reason={reason}"]
    assert asked(tmp_path) == ([drained] if bad else [])
    assert (tmp_path / "log").exists() == (code != 0)


@pytest.mark.parametrize("code", CODES)
def test_health_check_drains_once(
    code: int, doctor: FakeDoctor, slurm: Path, tmp_path: Path
) -> None:
    doctor.ends(code, {0: report(None), 1: BROKEN, 3: UNSEEN}.get(code, ""))
    script = made("slurm-healthcheck", f"doctor={doctor.command}", f"slurm={slurm}")
    assert sh(script, tmp_path, SLURMD_NODENAME="gpu1").returncode == 0
    reason = REASONS.get(code, f"doctor: no verdict, exit code {code}")
    wanted = [["update", "NodeName=gpu1", "State=DRAIN", f"Reason={reason}"]] if code else []
    assert asked(tmp_path) == wanted
    (tmp_path / "state").write_text("NodeName=gpu1 State=IDLE+DRAIN Reason=doctor: x\n")
    assert sh(script, tmp_path, SLURMD_NODENAME="gpu1").returncode == 0
    assert asked(tmp_path) == wanted, "a node that is drained is not drained again"


@pytest.mark.parametrize(
    ("state", "resume", "back"),
    [
        ("State=IDLE+DRAIN Reason=doctor: driver.not-loaded", "yes", True),
        ("State=IDLE+DRAIN Reason=doctor: driver.not-loaded", "no", False),
        ("State=IDLE+DRAIN Reason=bad fan, see the doctor: Alice", "yes", False),
        ("State=IDLE Reason=doctor: driver.not-loaded", "yes", False),
    ],
)
def test_only_what_the_doctor_drained_is_put_back(
    state: str, resume: str, back: bool, doctor: FakeDoctor, slurm: Path, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text(f"NodeName=gpu1 {state} [root@now]\n")
    doctor.ends(0, report(None))
    script = made("slurm-healthcheck", f"doctor={doctor.command}", f"slurm={slurm}", f"resume={resume}")  # fmt: skip
    assert sh(script, tmp_path, SLURMD_NODENAME="gpu1").returncode == 0
    assert asked(tmp_path) == ([["update", "NodeName=gpu1", "State=RESUME"]] if back else [])


def test_look_that_hangs_ends(doctor: FakeDoctor, slurm: Path, tmp_path: Path) -> None:
    doctor.command.write_text("#!/bin/sh\nexec sleep 60\n")
    script = made("slurm-prolog", f"doctor={doctor.command}", f"slurm={slurm}", "limit=1")
    started = time.monotonic()
    assert sh(script, tmp_path, SLURMD_NODENAME="gpu1").returncode == 1
    assert time.monotonic() - started < 20
    assert asked(tmp_path)[0][-1] == "Reason=doctor: no verdict, exit code 124"


@pytest.mark.parametrize("code", CODES)
def test_workflow_ends_like_the_check(code: int, doctor: FakeDoctor, tmp_path: Path) -> None:
    doctor.ends(code, "# the report")
    script = block(made("github-actions", f"doctor={doctor.command}", f"want={HOSTILE}"), "run")
    script = script.replace("${{ '${{' }}", "${{")  # as GitHub does
    summary = tmp_path / "summary"
    bash = ("/bin/bash", "--noprofile", "--norc", "-eo", "pipefail")
    ran = sh(script, tmp_path, *bash, GITHUB_STEP_SUMMARY=str(summary))
    assert ran.returncode == code, ran.stderr
    assert summary.read_text() == "# the report\n"
    assert doctor.calls() == [["check", "--format", "markdown", "--want", HOSTILE]]
    assert ran.stdout.startswith("::error title=gpu-host-doctor::") == (code != 0)


@pytest.mark.parametrize("code", CODES)
def test_gitlab_job_ends_like_the_check(code: int, doctor: FakeDoctor, tmp_path: Path) -> None:
    doctor.ends(code, "<testsuites/>")
    script = block(made("gitlab-ci", f"doctor={doctor.command}", f"want={HOSTILE}"), "script")
    ran = sh(script, tmp_path, "/bin/bash", "-eo", "pipefail")
    assert ran.returncode == code, ran.stderr
    assert (tmp_path / "gpu-host-doctor.xml").exists()
    assert doctor.calls()[0][-1] == HOSTILE


def pod(tmp_path: Path, *said: str) -> str:
    """The DaemonSet's script with its places moved; Kubernetes makes `$(` of `$$(`."""
    script = block(made("kubernetes-daemonset", "interval=99", *said), "args").replace("$$(", "$(")
    script = re.sub(r"/(probe|run/gpu-host-doctor|tmp|collector)/", f"{tmp_path}/", script)
    return script.replace("sleep 99", "exit 99")


@pytest.mark.parametrize("code", CODES)
def test_node_is_ready_only_when_healthy(code: int, doctor: FakeDoctor, tmp_path: Path) -> None:
    doctor.ends(code, "the report")
    tools = str(doctor.home / "bin")
    stub(doctor.home / "bin", "nsenter", "echo '{}'\n")
    stub(doctor.home / "bin", "python3", "exit 0\n")
    (tmp_path / "healthy").touch()
    ran = sh(pod(tmp_path, f"want={HOSTILE}"), tmp_path, path=tools)
    assert ran.returncode == (99 if code in (0, 1, 3) else code), ran.stderr
    assert (tmp_path / "healthy").exists() == (code not in (1, 3))
    assert (tmp_path / "gpu-host-doctor.prom").exists() == (code in (0, 1, 3))
    facts = str(tmp_path / "facts.json")
    assert doctor.calls()[0] == ["check", "--from", facts, "--want", HOSTILE]


def test_metrics_that_cannot_be_written_end_the_pod(doctor: FakeDoctor, tmp_path: Path) -> None:
    stub(doctor.home / "bin", "nsenter", "echo '{}'\n")
    stub(doctor.home / "bin", "python3", "exit 0\n")
    stub(doctor.home / "bin", "doctor", 'case "$*" in *prometheus*) exit 70 ;; esac\n')
    assert sh(pod(tmp_path), tmp_path, path=str(doctor.home / "bin")).returncode == 70


def test_probe_that_does_not_run_ends_the_pod(doctor: FakeDoctor, tmp_path: Path) -> None:
    stub(doctor.home / "bin", "nsenter", 'echo \'{"error": "too old"}\'; exit 2\n')
    stub(doctor.home / "bin", "python3", "exit 0\n")
    ran = sh(pod(tmp_path), tmp_path, path=str(doctor.home / "bin"))
    assert (ran.returncode, doctor.calls()) == (2, [])
    assert "too old" in ran.stderr


def test_node_is_judged_by_the_real_probe(tmp_path: Path) -> None:
    """All but nsenter is real: the zipapp is built, runs, and what it saw is judged."""
    stub(tmp_path / "tools", "nsenter", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    stub(tmp_path / "tools", "python3", f'exec {sys.executable} "$@"\n')
    stub(tmp_path / "tools", "doctor", f'exec {sys.executable} -m doctor "$@"\n')
    ran = sh(pod(tmp_path), tmp_path, path=str(tmp_path / "tools"))
    assert ran.returncode == 99, ran.stderr
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["facts"]["host"]
    metrics = (tmp_path / "gpu-host-doctor.prom").read_text()
    code = re.search(r"^doctor_exit_code\{.*\} (\d)", metrics, re.MULTILINE)
    assert code is not None
    assert (tmp_path / "healthy").exists() == (code[1] == "0")
