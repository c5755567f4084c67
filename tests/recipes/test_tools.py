"""The tools that the recipes are for take them: cloud-init boots with one, Packer builds with one, Slurm drains by one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.recipes.fake import HOSTILE, FakeDoctor, made, report, scripts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
RUN = "20260101T000000-abcdef"
WANT = f"want={HOSTILE}"


def tool(name: str) -> str:
    """The tool's path."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def ran(*argv: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """A command and what it said."""
    return subprocess.run(
        [str(item) for item in argv], capture_output=True, text=True, check=False, timeout=240, **more
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(scripts()))
def test_shellcheck_has_nothing_to_say(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(scripts()[name] if scripts()[name].startswith("#!") else f"#!/bin/sh\n{scripts()[name]}")  # fmt: skip
    said = ran(tool("shellcheck"), "--severity=style", file)
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize("schedule", ["hourly", "*-*-* 03:00:00", "Mon..Fri *:0/15"])
def test_systemd_takes_the_units(schedule: str, tmp_path: Path) -> None:
    verify = tool("systemd-analyze")
    units = [tmp_path / "gpu-host-doctor.service", tmp_path / "gpu-host-doctor.timer"]
    units[0].write_text(made("systemd-service", "doctor=/usr/bin/true", WANT))
    units[1].write_text(made("systemd-timer", f"schedule={schedule}"))
    fleet = tmp_path / "gpu-host-doctor-fleet.service"
    fleet.write_text(made("systemd-fleet-service", "doctor=/usr/bin/true", WANT))
    said = ran(verify, "verify", *units, fleet)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    units[0].write_text(units[0].read_text().replace("SuccessExitStatus=1 3", "SuccessExitState=1 3"))  # fmt: skip
    assert "SuccessExitState" in ran(verify, "verify", *units).stderr


def test_cloud_init_knows_every_key(tmp_path: Path) -> None:
    command = tool("cloud-init")
    file = tmp_path / "user-data"
    file.write_text(made("cloud-init", WANT))
    said = ran(command, "schema", "--config-file", file)
    assert said.returncode == 0, said.stdout + said.stderr
    file.write_text(file.read_text().replace("permissions:", "permission:"))
    assert ran(command, "schema", "--config-file", file).returncode != 0


BOOTS = r"""
set -eu
for folder in etc usr/local opt var/lib var/log run; do
  mkdir -p "$1/upper/$folder" "$1/work/$folder"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$1/upper/$folder,workdir=$1/work/$folder" "/$folder"
done
rm -rf /var/lib/cloud /run/cloud-init /etc/cloud/cloud.cfg.d
mkdir -p /var/lib/cloud/seed/nocloud-net /etc/cloud/cloud.cfg.d
cp "$1/cloud.cfg" /etc/cloud/cloud.cfg
cp "$1/user-data" /var/lib/cloud/seed/nocloud-net/user-data
echo 'instance-id: i-1' >/var/lib/cloud/seed/nocloud-net/meta-data
for boot in 1 2 3; do
  rm -rf /run/cloud-init
  [ ! -f "$1/boot$boot" ] || sh "$1/boot$boot"
  for stage in 'init --local' init 'modules --mode=config' 'modules --mode=final'; do
    cloud-init $stage >>"$1/log" 2>&1 || true
  done
  cloud-init status | tee "$1/status$boot"
done
"""
CONFIG = """\
datasource_list: [NoCloud]
network: {config: disabled}
preserve_hostname: true
cloud_init_modules: [write-files]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-per-boot, scripts-user, final-message]
system_info: {distro: debian}
"""


@pytest.mark.parametrize(("code", "statuses"), [(0, "ddd"), (3, "edd"), (5, "dee")])
def test_cloud_init_boots_with_it_and_says_how_it_ended(
    code: int, statuses: str, tmp_path: Path
) -> None:
    """Code 5 is a reboot here: the first boot is fine, the later ones wait for the run, which ends with 5, then with 4."""
    tool("cloud-init")
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    doctor = FakeDoctor(tmp_path / "home")
    rebooting = [{"why": "a reboot was ordered", "rebooting": True}] if code == 5 else []
    doctor.ends(code, {"run": RUN, "stopped": rebooting})
    doctor.ends(5, {}, "runs")
    (tmp_path / "boot3").write_text(f"echo '[4, null]' >{doctor.home}/endsruns\n")
    (tmp_path / "cloud.cfg").write_text(CONFIG)
    (tmp_path / "user-data").write_text(made("cloud-init", f"home={doctor.home}", "wait=9", WANT))
    (tmp_path / "space").mkdir()
    script = f'mount -t tmpfs none {tmp_path}/space\ncp -r {tmp_path}/[!s]* {tmp_path}/space\nset -- {tmp_path}/space\n{BOOTS}\n'  # fmt: skip
    said = ran(tool("unshare"), "--mount", "bash", "-c", script, cwd="/")
    words = {"d": "status: done", "e": "status: error"}
    assert said.stdout.splitlines() == [words[each] for each in statuses], said.stderr
    fixing = ["--fix", "--format", "json", "-o", f"{doctor.home}/provision.json"]
    assert doctor.calls()[0] == [*fixing, "--want", HOSTILE, "--allow", "reboot"]
    waits = [call for call in doctor.calls() if call[0] == "runs"]
    assert len(waits) == (2 if code == 5 else 0)
    assert len(doctor.calls()) == 1 + len(waits), "provisioned once an instance"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(*argv: object, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A service of the test's own."""
    words = [str(item) for item in argv]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[list[str]]:
    """An sshd that lets this test's key in; -> Packer's variables."""
    server = tool("sshd")
    tool("sudo")
    if os.geteuid() != 0:
        pytest.skip("sshd takes root")
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "user"):
        ran("ssh-keygen", "-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-f", tmp_path / name)
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    port = free_port()
    config = tmp_path / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/authorized\n"
        "StrictModes no\nPermitRootLogin yes\nPubkeyAuthentication yes\nPasswordAuthentication no\nPidFile none\n"
        "PubkeyAcceptedAlgorithms +ssh-rsa\nUsePAM no\nSubsystem sftp internal-sftp\n"
    )
    with running(server, "-D", "-e", "-f", config):
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        said = {"host": "127.0.0.1", "port": port, "user": "root", "key": tmp_path / "user"}
        yield [word for key, value in said.items() for word in ("-var", f"{key}={value}")]


def test_packer_asks_for_what_only_the_user_knows(tmp_path: Path) -> None:
    file = tmp_path / "gpu-host.pkr.hcl"
    file.write_text(made("packer", WANT))
    assert ran(tool("packer"), "validate", "-syntax-only", file).returncode == 0
    said = ran(tool("packer"), "validate", file)
    assert said.returncode != 0
    for name in ("host", "user", "key"):
        assert f'Unset variable "{name}"' in said.stdout + said.stderr


@pytest.mark.parametrize(
    ("fix", "runs", "check", "built"),
    [
        (0, None, 0, True),
        (1, None, 0, False),
        (5, None, 0, False),
        (5, 0, 0, True),
        (5, 4, 0, False),
        (5, 0, 3, False),
    ],
)
def test_packer_builds_only_what_is_proved(
    fix: int, runs: int | None, check: int, built: bool, machine: list[str], tmp_path: Path
) -> None:
    """`runs`: how the run ended that went on after a reboot; None: there was no reboot."""
    doctor = FakeDoctor(tmp_path / "home")
    rebooting = [] if runs is None else [{"why": "a reboot was ordered", "rebooting": True}]
    doctor.ends(fix, {"run": RUN, "stopped": rebooting})
    doctor.ends(runs or 0, {}, "runs")
    doctor.ends(check, "", "check")
    file = tmp_path / "gpu-host.pkr.hcl"
    file.write_text(made("packer", f"home={doctor.home}", "pause=0", "wait=20", WANT))
    home = {**os.environ, "HOME": str(tmp_path), "CHECKPOINT_DISABLE": "1"}
    said = ran(tool("packer"), "build", "-color=false", *machine, file, env=home)
    assert (said.returncode == 0) == built, said.stdout + said.stderr
    words = ["service", "gpu", "reboot"]
    fixing = ["--fix", "--format", "json", "-o", f"{doctor.home}/provision.json", "--want", HOSTILE]
    assert doctor.calls()[0] == [*fixing, *(x for word in words for x in ("--allow", word))]
    if built:
        assert doctor.calls()[-1] == ["check"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Slurm's controller and one node, with the recipes as its health check and prolog."""
    controller, daemon, munged = tool("slurmctld"), tool("slurmd"), tool("munged")
    if os.geteuid() != 0:
        pytest.skip("slurmd takes root")
    doctor = FakeDoctor(tmp_path / "home")
    tools = tmp_path / "tools"
    tools.mkdir()
    conf = tmp_path / "slurm.conf"
    (tools / "scontrol").write_text(f'#!/bin/sh\nSLURM_CONF={conf} exec {tool("scontrol")} "$@"\n')
    (tools / "scontrol").chmod(0o755)
    for name, more in (("healthcheck", ["resume=yes"]), ("prolog", [])):
        file = tmp_path / name
        file.write_text(made(f"slurm-{name}", f"doctor={doctor.command}", f"slurm={tools}", *more))
        file.chmod(0o755)
    for name in ("state", "spool"):
        (tmp_path / name).mkdir()
    conf.write_text(CLUSTER.format(folder=tmp_path, host=socket.gethostname().partition(".")[0], ports=(free_port(), free_port())))  # fmt: skip
    key = tmp_path / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    env = {**os.environ, "SLURM_CONF": str(conf)}
    files = [f"--{name}={tmp_path}/munge.{name}" for name in ("socket", "pid-file", "seed-file")]
    with ExitStack() as stack:
        for argv in (
            (munged, "--foreground", "--force", f"--key-file={key}", f"--log-file={tmp_path}/munge.log", *files),
            (controller, "-D", "-f", conf),
            (daemon, "-D", "-f", conf, "-N", "gpu1"),
        ):  # fmt: skip
            stack.enter_context(running(*argv, env=env))
            time.sleep(0.5)
        yield {"doctor": doctor, "env": env, "conf": conf}


CLUSTER = """\
ClusterName=doctor
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
HealthCheckProgram={folder}/healthcheck
HealthCheckInterval=1
HealthCheckNodeState=ANY
Prolog={folder}/prolog
NodeName=gpu1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=p Nodes=gpu1 Default=YES State=UP
"""


def node(cluster: dict[str, Any]) -> str:
    """What Slurm says of the node."""
    return ran(tool("scontrol"), "show", "node", "gpu1", "--oneliner", env=cluster["env"]).stdout


def wait_for(cluster: dict[str, Any], words: str) -> str:
    for _ in range(120):
        said = node(cluster)
        if words in said:
            return said
        time.sleep(0.25)
    return said


def test_slurm_drains_by_the_health_check_and_takes_back(cluster: dict[str, Any]) -> None:
    doctor = cluster["doctor"]
    doctor.ends(0, report(None))
    assert "State=IDLE" in wait_for(cluster, "State=IDLE ")
    doctor.ends(1, report({"id": "driver.not-loaded", "say": "load it"}))
    said = wait_for(cluster, "DRAIN")
    assert "State=IDLE+DRAIN" in said
    assert "Reason=doctor: driver.not-loaded: load it [root@" in said
    doctor.ends(0, report(None))
    assert "DRAIN" not in wait_for(cluster, "State=IDLE ")


def test_slurm_starts_no_job_where_the_prolog_finds_a_fault(cluster: dict[str, Any]) -> None:
    doctor, env = cluster["doctor"], cluster["env"]
    cluster["conf"].write_text(cluster["conf"].read_text().replace("HealthCheckInterval=1", "HealthCheckInterval=0"))  # fmt: skip
    doctor.ends(0, report(None))
    wait_for(cluster, "State=IDLE ")
    ran(tool("scontrol"), "reconfigure", env=env)
    time.sleep(2)
    job = ("srun", "--immediate=30", "--nodes=1", "--time=1", "echo", "started")
    said = ran(*job, env=env)
    assert said.stdout == "started\n", said.stderr
    doctor.ends(3, report(None))
    said = ran(*job, env=env)
    assert said.returncode != 0
    assert "started" not in said.stdout
    assert "Reason=doctor: no verdict, exit code 3 [root@" in wait_for(cluster, "DRAIN")


def test_daemonset_reaches_the_host_from_its_pod(tmp_path: Path) -> None:
    """With the real nsenter: from namespaces of its own into those of the process that is 1 there."""
    from tests.recipes.test_codes import pod, stub

    enter = tool("nsenter")
    stub(tmp_path / "tools", "nsenter", f'exec {enter} "$@"\n')
    stub(tmp_path / "tools", "python3", f'exec {sys.executable} "$@"\n')
    stub(tmp_path / "tools", "doctor", f'exec {sys.executable} -m doctor "$@"\n')
    file = tmp_path / "pod"
    file.write_text(pod(tmp_path))
    inner = f"unshare --mount --uts --ipc --cgroup env PATH={tmp_path}/tools:/usr/bin:/bin /bin/sh {file}; exit $?"
    said = ran(
        tool("unshare"), "--pid", "--fork", "--mount-proc", "sh", "-c", inner,
        cwd=tmp_path,
    )  # fmt: skip
    assert said.returncode == 99, said.stderr
    assert (tmp_path / "gpu-host-doctor.prom").exists()
