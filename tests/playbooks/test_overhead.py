"""What the doctor adds to Ansible: a run that has nothing to do, and the runner around each role, against bare ansible-playbook."""

from __future__ import annotations

import json

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins import faults, states
from tests.playbooks.standins.fixing import RUNS, fix

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
MOST = 1.3
TIMED = r"""
import json, pathlib, subprocess, sys, tempfile, time
from doctor.remedy.inventory import local
from doctor.remedy.runner import Asked, run_playbook
from doctor.remedy.workspace import Workspace
from doctor.resources import playbooks_dir

steps = json.load(sys.stdin)
playbooks, bin = playbooks_dir(), pathlib.Path(sys.prefix) / "bin"
folder = pathlib.Path(tempfile.mkdtemp())
hosts = local("localhost", folder / "remote")

def bare(step):
    values = folder / "values.json"
    values.write_text(json.dumps({**step["values"], "doctor_remedy": step["remedy"]}))
    argv = [bin / "ansible-playbook", "-i", folder / "hosts.json", "--diff", "-e", "@%s" % values, playbooks / "remedy.yml"]
    said = subprocess.run(list(map(str, argv)), cwd=playbooks, capture_output=True, text=True, check=True).stdout
    assert "changed=0" in said and "failed=0" in said, said

def ours(step):
    asked = Asked(ident="timed", playbooks=playbooks, playbook="remedy.yml", inventory=hosts, values={**step["values"], "doctor_remedy": step["remedy"]})
    result = run_playbook(asked, Workspace(folder / "workspace"))
    assert (result.status, result.changed) == ("ok", 0), result

def nothing():
    code = subprocess.run([str(bin / "doctor"), "--fix", "--no-smoke"], capture_output=True).returncode
    assert code in (0, 1), code

def seconds(work, *given):
    began = time.monotonic()
    work(*given)
    return time.monotonic() - began

(folder / "hosts.json").write_text(json.dumps(hosts))
best = {}
for number in range(4):
    # One after the other, so that whatever else this machine does slows down both.
    each = [(seconds(bare, step), seconds(ours, step)) for step in steps]
    took = {"bare": sum(one for one, _ in each), "runner": sum(other for _, other in each), "nothing": seconds(nothing)}
    best = {name: min(value, best.get(name, value)) for name, value in took.items()}
    if number and best["runner"] <= 1.2 * best["bare"]:
        break
print(json.dumps(best))
"""


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_the_doctor_costs_little_beside_the_roles_alone(
    start: Start, flavor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with start(flavor) as host:
        states.install_driver(host)
        faults.module_taken_out(host)
        done = fix(host, "--allow", "service,gpu")
        plan = json.loads(host.read(f"{RUNS}/{done.run}/plan.json"))
        assert "persistence" in {step["remedy"] for step in plan["steps"]}
        assert fix(host).data["steps"] == []
        steps = json.dumps([{"remedy": s["remedy"], "values": s["vars"]} for s in plan["steps"]])
        said = host.run(
            ["/opt/gpu-host-doctor/bin/python", "-I", "-c", TIMED], input=steps, timeout=600
        ).stdout
        took = json.loads(said)
        with capsys.disabled():
            print(
                f"\n{flavor}: bare {took['bare']:.2f} s, by the runner {took['runner']:.2f} s "
                f"({took['runner'] / took['bare']:.2f}x), nothing to do {took['nothing']:.2f} s ({took['nothing'] / took['bare']:.2f}x)"
            )
        assert took["nothing"] <= MOST * took["bare"], took
        assert took["runner"] <= MOST * took["bare"], took
