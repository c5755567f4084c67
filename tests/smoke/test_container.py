"""Rung container: the tiny image, what is missing for GPUs, and (e2e) a real Docker engine without GPUs."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.facts.areas.container import CdiSpec
from doctor.facts.model import Absent, Known
from doctor.smoke import tiny_image
from doctor.smoke.child_answer import BOOT, Answer, bundle, parsed
from doctor.smoke.container_limits import SHM_BYTES
from doctor.smoke.context import Context, StageFailed
from doctor.smoke.docker_engine import Refused, missing_for_gpus
from doctor.smoke.pipeline import climb
from doctor.smoke.stages import container as stage
from doctor.smoke.stages.container import STAGE
from tests.smoke.gpu_standin import docker_with_gpus
from tests.smoke.recorded_context import context, with_facts


@pytest.fixture
def ctx(tmp_path: Path) -> Iterator[Context]:
    made = context(tmp_path, "no-gpu")
    made.begin("container", 200)
    yield made
    assert made.resources.release(made.user) == []


class CpuEngine:
    name = "vllm-cpu"
    gpu = False


def test_a_remote_docker_is_not_this_host(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    result = STAGE.run(ctx)
    assert result.outcome == "skip"
    assert "tcp://192.0.2.1:2375" in result.message


def test_without_docker_it_does_not_apply(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with_facts(ctx, "container", docker_socket=Absent("/var/run/docker.sock"))
    assert STAGE.run(ctx).outcome == "skip"


def test_a_daemon_that_does_not_answer_is_a_failure(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(StageFailed) as raised:
        STAGE.run(ctx)
    assert raised.value.finding.id == "smoke.container-no-daemon"


def test_the_tiny_image_runs_alone(ctx: Context, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    tar = ctx.scratch / "image.tar"
    python = tiny_image.write(ctx, tar)
    assert tar.stat().st_size < 64 << 20
    root = tmp_path / "root"
    with tarfile.open(tar) as archive:
        assert not [entry.name for entry in archive if entry.name.startswith(("/", ".."))]
        # our own archive, whole; interpreters without filters take them for no more than a name
        archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
        archive.extractall(root)
    (root / "smoke" / "children.zip").write_bytes(bundle(ctx).read_bytes())
    (root / "dev" / "shm").mkdir(parents=True, exist_ok=True)
    argv = ["chroot", str(root), python, "-I", "-S", "-B", "-c", BOOT]
    argv += ["doctor.smoke.children.container_probe", "/smoke/children.zip", "gpus"]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    lines = parsed(ran.stdout)
    assert lines and lines[-1] == {"done": True}, ran.stderr
    answer = Answer(lines=tuple(lines), ended=True, rc=0, log="x")
    nvml = answer.step("nvml")
    assert nvml is not None and nvml["state"] == "failed"
    assert "libnvidia-ml.so.1: cannot open shared object file" in nvml["error"]


def test_what_is_missing_is_named(ctx: Context) -> None:
    missing, say, command = missing_for_gpus(ctx)
    assert any("nvidia-container-runtime-hook" in item for item in missing)
    assert any("/dev/nvidiactl" in item for item in missing)
    assert any("CDI" in item for item in missing)
    assert say and command


def test_refused_limits_have_names() -> None:
    assert Refused("error setting rlimit type 8: operation not permitted").limit == "memlock"
    assert Refused("could not select device driver").limit == ""


def answer(**found: object) -> Answer:
    lines = [{"step": "limits", "state": "ok", "shm": SHM_BYTES, "memlock": -1, "stack": 67108864}]
    lines[0] |= {"nofile": 1024, "uid": 65534, "nodes": [], "visible": "all"}
    lines += [{"step": step, **said} for step, said in found.items()]  # type: ignore[dict-item]
    return Answer(lines=tuple(lines), ended=True, rc=0, log="container-gpus.log")


def test_gpus_in_the_container_are_compared_with_the_hosts(tmp_path: Path) -> None:
    made = context(tmp_path)
    uuids = list(made.facts.nvml.gpus.value)
    whole = answer(nvml={"state": "ok", "uuids": uuids}, cuda={"state": "ok", "uuids": uuids})
    assert STAGE._gpus(made, whole, "--gpus all", []) == "2 of 2 GPUs to NVML and CUDA"
    for wrong, words in (
        (answer(nvml={"state": "ok", "uuids": uuids[:1]}), "nvml in the container has 1 of 2"),
        (
            answer(
                nvml={"state": "ok", "uuids": uuids},
                cuda={"state": "failed", "call": "cuInit", "error": "CUDA_ERROR_NO_DEVICE"},
            ),
            "cuda in the container: cuInit: CUDA_ERROR_NO_DEVICE",
        ),
        (answer(), "nvml in the container: no answer"),
    ):
        with pytest.raises(StageFailed, match=words):
            STAGE._gpus(made, wrong, "--gpus all", [])
    made.resources.release(made.user)


def test_a_smaller_shm_than_asked_is_a_failure(ctx: Context) -> None:
    small = answer()
    small.lines[0]["shm"] = 64 << 20
    with pytest.raises(StageFailed, match="shm is 67108864, not 1073741824"):
        STAGE._limits(ctx, small, [])


def test_where_neither_way_gives_gpus_both_reasons_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"gpus": "could not select device driver", "cdi": "unresolvable CDI devices"}

    def refuse(ctx: Context, docker: object, image: str, python: str, how: str) -> Answer:
        raise Refused(words[how])

    monkeypatch.setattr(stage, "run_probe", refuse)
    monkeypatch.setattr(stage, "why_no_cdi", lambda ctx, docker: None)
    made = context(tmp_path)
    with pytest.raises(StageFailed) as raised:
        STAGE._with_gpus(made, object(), "image", "python3", [], [])
    finding = raised.value.finding
    assert finding.id == "smoke.container-no-gpu-device"
    assert all(said in finding.message for said in words.values())
    assert "container-gpus" not in made.shared
    made.resources.release(made.user)


@pytest.fixture
def real_docker() -> None:
    try:
        answers = subprocess.run(["docker", "version"], capture_output=True, timeout=20).returncode
    except FileNotFoundError:
        answers = 1
    if answers != 0:
        pytest.skip("no Docker answers here")


def names(kind: str) -> set[str]:
    form = ["--format", "{{.ID}}"]
    argv = ["docker", "ps", "-a", *form] if kind == "ps" else ["docker", "images", *form]
    return set(subprocess.run(argv, capture_output=True, text=True).stdout.split())


@pytest.mark.e2e
def test_a_real_docker_without_gpus_says_exactly_what_is_missing(
    real_docker: None, tmp_path: Path
) -> None:
    before = names("ps"), names("images")
    climbed = climb([STAGE], context(tmp_path, "no-gpu"))
    (result,) = climbed.results
    assert result.outcome == "fail"
    finding = result.finding
    assert finding is not None and finding.id == "smoke.container-no-gpu-device"
    assert "could not select device driver" in finding.message
    assert "the NVIDIA Container Toolkit" in finding.message
    assert "/dev/nvidiactl" in finding.message
    assert finding.fix is not None and finding.fix.command
    assert climbed.left_behind == []
    assert (names("ps"), names("images")) == before


@pytest.mark.e2e
def test_a_real_docker_gives_the_memory_and_limits_that_were_asked(
    real_docker: None, ctx: Context
) -> None:
    ctx.engine = CpuEngine()  # type: ignore[assignment]
    before = names("ps"), names("images")
    result = STAGE.run(ctx)
    assert result.outcome == "pass"
    assert "shm 1024 MiB" in result.message
    assert {item.id for item in result.warnings} <= {"smoke.container-limits-refused"}
    assert ctx.resources.release(ctx.user) == []
    assert (names("ps"), names("images")) == before


@pytest.mark.e2e
def test_an_image_that_is_not_here_is_never_pulled(real_docker: None, tmp_path: Path) -> None:
    made = context(tmp_path, "no-gpu", image="vllm/vllm-openai:v0.27.1")
    climbed = climb([STAGE], made)
    finding = climbed.results[0].finding
    assert finding is not None and finding.id == "smoke.container-image-missing"
    assert finding.fix is not None
    assert finding.fix.command == "docker pull vllm/vllm-openai:v0.27.1"
    assert climbed.left_behind == []


@pytest.fixture
def gpu_docker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("no Docker answers here")
    folder = Path(tempfile.mkdtemp(prefix="smoke-docker-", dir="/tmp"))  # a socket's path is short
    with docker_with_gpus(folder) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.e2e
def test_gpus_reach_a_container_through_dockers_device_driver(
    gpu_docker: Path, tmp_path: Path
) -> None:
    """A real daemon with a device driver `nvidia` whose hook brings the stand-in's libraries."""
    made = context(tmp_path)
    climbed = climb([STAGE], made)
    (result,) = climbed.results
    assert result.outcome == "pass", (result, (gpu_docker / "dockerd.log").read_text()[-2000:])
    assert "--gpus all gives 2 of 2 GPUs to NVML and CUDA" in result.message
    assert climbed.left_behind == []
    assert names("ps") == names("images") == set()


@pytest.mark.e2e
def test_a_gpu_that_the_container_lacks_is_named(gpu_docker: Path, tmp_path: Path) -> None:
    made = context(tmp_path)
    gpus = dict(made.facts.nvml.gpus.value)
    gpus["GPU-00000009-0000-4000-8000-000000000000"] = next(iter(gpus.values()))
    with_facts(made, "nvml", gpus=Known(gpus, "nvml"))
    climbed = climb([STAGE], made)
    finding = climbed.results[0].finding
    assert finding is not None and finding.id == "smoke.container-gpus"
    assert "nvml in the container has 2 of 3 GPUs; not GPU-00000009" in finding.message


@pytest.mark.e2e
def test_an_image_without_python_is_seen_through_nvidia_smi(
    gpu_docker: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for name in ("usr/bin", f"usr/lib/{platform.machine()}-linux-gnu"):
        (root / name).mkdir(parents=True)
    tar = subprocess.run(["tar", "-C", root, "-c", "."], capture_output=True, check=True).stdout
    subprocess.run(["docker", "import", "-", "bare:latest"], input=tar, check=True)
    made = context(tmp_path, image="bare:latest")
    climbed = climb([STAGE], made)
    (result,) = climbed.results
    assert result.outcome == "pass", result
    assert "it has no python3; --gpus all gives 2 of 2 GPUs to NVML" in result.message


@pytest.fixture(scope="module")
def newer_docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Docker that knows CDI, unpacked beside the system's."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None or shutil.which("cc") is None:
        pytest.skip("no Docker answers here")
    folder = Path(tempfile.mkdtemp(prefix="newer-docker-", dir="/tmp"))
    script = Path(__file__).with_name("newer_docker.sh")
    ran = subprocess.run([script, folder], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    yield folder / "root"
    shutil.rmtree(folder)


@pytest.fixture
def cdi_host(
    newer_docker: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """A daemon that reads a CDI specification; with the parameter `hook` it knows --gpus too."""
    folder = Path(tempfile.mkdtemp(prefix="smoke-docker-", dir="/tmp"))
    with docker_with_gpus(folder, hook=request.param == "hook", cdi=newer_docker) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


def on_cdi_host(tmp_path: Path) -> Context:
    made = context(tmp_path)
    with_facts(made, "container", cdi_specs=Known([CdiSpec(path="/etc/cdi/nvidia.json")], "cdi"))
    return made


@pytest.mark.e2e
@pytest.mark.parametrize("cdi_host", ["hook"], indirect=True)
def test_gpus_reach_a_container_by_gpus_and_by_cdi(cdi_host: Path, tmp_path: Path) -> None:
    """A real daemon that makes the device node and mounts the libraries of a real specification."""
    made = on_cdi_host(tmp_path)
    climbed = climb([STAGE], made)
    (result,) = climbed.results
    assert result.outcome == "pass", (result, (cdi_host / "dockerd.log").read_text()[-2000:])
    assert "--gpus all gives 2 of 2 GPUs to NVML and CUDA" in result.message
    assert "CDI device nvidia.com/gpu=all gives 2 of 2 GPUs to NVML and CUDA" in result.message
    assert not [item for item in result.warnings if "cdi" in item.id]
    seen = {item.via: item.value for item in result.evidence if item.fact.endswith(".nodes")}
    assert seen == {"container-gpus.log": [], "container-cdi.log": ["/dev/nvidia0"]}
    assert "container-gpus" not in made.shared
    assert climbed.left_behind == []
    assert names("ps") == names("images") == set()


@pytest.mark.e2e
@pytest.mark.parametrize("cdi_host", ["cdi alone"], indirect=True)
def test_a_host_with_cdi_alone_serves_by_cdi(cdi_host: Path, tmp_path: Path) -> None:
    made = on_cdi_host(tmp_path)
    climbed = climb([STAGE], made)
    (result,) = climbed.results
    assert result.outcome == "pass", result
    assert "CDI device nvidia.com/gpu=all gives 2 of 2 GPUs" in result.message
    (warning,) = [item for item in result.warnings if item.id == "smoke.container-gpus-option"]
    assert "could not select device driver" in warning.message
    assert made.shared["container-gpus"] == "cdi"  # the engine's own container is started so


@pytest.mark.e2e
@pytest.mark.parametrize("cdi_host", ["hook"], indirect=True)
def test_a_specification_without_the_device_warns(cdi_host: Path, tmp_path: Path) -> None:
    file = cdi_host / "cdi" / "nvidia.json"
    file.write_text(file.read_text().replace('"name": "all"', '"name": "0"'))
    climbed = climb([STAGE], on_cdi_host(tmp_path))
    (result,) = climbed.results
    assert result.outcome == "pass", result
    (warning,) = [item for item in result.warnings if item.id == "smoke.container-cdi"]
    assert "nvidia.com/gpu=all" in warning.message
    assert "unresolvable CDI devices" in warning.message
    assert result.message.endswith("; CDI does not work")


@pytest.mark.e2e
@pytest.mark.parametrize("cdi_host", ["cdi alone"], indirect=True)
def test_a_specification_of_a_library_that_is_gone_breaks_with_both_reasons(
    cdi_host: Path, tmp_path: Path
) -> None:
    file = cdi_host / "cdi" / "nvidia.json"
    file.write_text(file.read_text().replace("/libcuda.so.1", "/libcuda.so.580", 1))
    climbed = climb([STAGE], on_cdi_host(tmp_path))
    finding = climbed.results[0].finding
    assert finding is not None and finding.id == "smoke.container-no-gpu-device"
    assert "could not select device driver" in finding.message
    assert "CDI device nvidia.com/gpu=all: " in finding.message
    assert climbed.left_behind == []
