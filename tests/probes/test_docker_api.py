"""What Docker answers, and what it does not, becomes facts; secrets are never kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.probes.areas import container
from doctor.probes.reading import docker_api
from doctor.probes.recordings.recorded import RecordedSource
from doctor.simulate.writer import RecordingWriter

SOCKET = docker_api.SOCKET
INFO: dict[str, Any] = {
    "Runtimes": {"runc": {"path": "runc"}, "nvidia": {"path": "nvidia-container-runtime"}},
    "DefaultRuntime": "runc",
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "DockerRootDir": "/var/lib/docker",
    "Driver": "overlay2",
    "LiveRestoreEnabled": False,
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
    "OperatingSystem": "Ubuntu 24.04.3 LTS",
}
INSPECTED: dict[str, Any] = {
    "Id": "198ba7d11b58af083cdd2abec31790266b23aa1d2ebe18e5667fe057f2c388a2",
    "Name": "/llm",
    "State": {"Pid": 4321},
    "Config": {
        "Image": "vllm/vllm-openai:v0.24.0",
        "Env": ["VLLM_API_KEY=planted-1", "HF_TOKEN=planted-2", "NCCL_DEBUG=INFO", "EMPTY="],
        "Cmd": ["--model", "m", "--api-key", "planted-3", "--hf-token=planted-4"],
        "Entrypoint": ["vllm", "serve"],
        "User": "",
    },
    "HostConfig": {
        "ShmSize": 67108864,
        "IpcMode": "private",
        "NetworkMode": "bridge",
        "Runtime": "runc",
        "Privileged": False,
        "CapAdd": ["CAP_SYS_NICE"],
        "CapDrop": None,
        "SecurityOpt": ["no-new-privileges:true"],
        "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
        "DeviceRequests": [
            {"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}
        ],
    },
    "NetworkSettings": {
        "Ports": {"8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8000"}], "9/tcp": None}
    },
}


def source(folder: Path, answers: dict[str, Any] | None = None) -> RecordedSource:
    out = RecordingWriter()
    for target, body in (answers or {}).items():
        if isinstance(body, dict) and set(body) == {"error"}:
            out.http[f"unix://{SOCKET} GET {target}"] = body
        else:
            out.get(SOCKET, target, body)
    return RecordedSource(str(out.write(folder / "rec")))


def test_inspect_becomes_a_running_container() -> None:
    found = docker_api.container(INSPECTED)
    assert found["gpus"] is True
    assert found["gpu_ids"] == ["all"]
    assert found["ulimits"] == {"memlock": [-1, -1]}
    assert found["capabilities_added"] == ["SYS_NICE"]
    assert found["no_new_privileges"] is True
    assert found["ports"] == ["0.0.0.0:8000->8000/tcp"]
    assert found["pid"] == 4321
    assert found["env"] == {"NCCL_DEBUG": "INFO", "VLLM_API_KEY": "(set)"}


def test_no_secret_is_kept() -> None:
    assert "planted" not in json.dumps(docker_api.container(INSPECTED))


@pytest.mark.parametrize(
    ("host", "env", "wanted"),
    [
        ({"DeviceRequests": None, "Runtime": "runc"}, {}, (False, False, [])),
        (
            {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]},
            {},
            (True, True, ["0"]),
        ),
        (
            {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["amd.com/gpu=0"]}]},
            {},
            (False, False, []),
        ),
        (
            {"DeviceRequests": [{"Driver": "nvidia", "Count": 2, "DeviceIDs": None}]},
            {},
            (True, False, ["count:2"]),
        ),
        ({"Runtime": "nvidia"}, {"NVIDIA_VISIBLE_DEVICES": "0,1"}, (True, False, ["0", "1"])),
        ({"Runtime": "nvidia"}, {"NVIDIA_VISIBLE_DEVICES": "void"}, (False, False, [])),
        ({"Runtime": "runc"}, {"NVIDIA_VISIBLE_DEVICES": "all"}, (False, False, [])),
        (
            {"Devices": [{"PathOnHost": "/dev/nvidia3"}, {"PathOnHost": "/dev/nvidiactl"}]},
            {},
            (True, False, ["3"]),
        ),
    ],
)
def test_each_way_to_ask_for_gpus(
    host: dict[str, Any], env: dict[str, str], wanted: tuple[bool, bool, list[str]]
) -> None:
    assert docker_api.gpu_request(host, env) == wanted


def test_an_older_docker_that_lacks_a_key_has_it_not(tmp_path: Path) -> None:
    facts = docker_api.info_facts(source(tmp_path, {"/info": INFO}).http(SOCKET, "/info"))
    assert facts["docker_cdi_dirs"].state == "absent"
    assert facts["docker_runtimes"].value == ["nvidia", "runc"]
    assert facts["docker_rootless"].value is False
    assert facts["docker_seccomp_sysnice"].value is False


@pytest.mark.parametrize(
    "body", [[], "text", {"Runtimes": None}, {"Runtimes": 3, "CgroupDriver": 7}]
)
def test_a_malformed_answer_is_unknown(tmp_path: Path, body: Any) -> None:
    facts = docker_api.info_facts(source(tmp_path, {"/info": body}).http(SOCKET, "/info"))
    assert facts["docker_runtimes"].state == "unknown"


@pytest.mark.parametrize(
    ("error", "state", "value"),
    [
        ("denied", "known", "denied"),
        ("the socket is there but nothing listens", "known", "refused"),
        ("no answer in time", "unknown", None),
        ("absent", "absent", None),
    ],
)
def test_state_of_the_socket(tmp_path: Path, error: str, state: str, value: str | None) -> None:
    answers = {target: {"error": error} for target in ("/version", "/info")}
    facts = container.probe(source(tmp_path, answers))
    assert facts["docker_socket"].state == state
    assert facts["docker_socket"].value == value
    expected = "absent" if error.startswith(("the socket", "absent")) else "unknown"
    assert facts["docker_runtimes"].state == expected


def test_a_sleeping_docker_is_not_woken(tmp_path: Path) -> None:
    class Asked(RecordedSource):
        asked: list[str] = []

        def _http(self, socket_path: str, target: str) -> dict[str, Any]:
            self.asked.append(target)
            return {"error": "absent"}

    out = RecordingWriter()
    out.folder("/run/systemd/system")
    out.node(SOCKET, "", kind="socket")
    out.link(
        "/etc/systemd/system/sockets.target.wants/docker.socket",
        "/usr/lib/systemd/system/docker.socket",
    )
    asked = Asked(str(out.write(tmp_path / "rec")))
    facts = container.probe(asked)
    assert asked.asked == []
    assert facts["docker_socket"].value == "asleep"
    assert facts["docker_version"].state == "absent"


def test_a_pid_of_another_program_is_no_running_docker(tmp_path: Path) -> None:
    out = RecordingWriter()
    out.folder("/run/systemd/system")
    out.link("/etc/systemd/system/sockets.target.wants/docker.socket", "x")
    out.file("/var/run/docker.pid", "77\n")
    out.file("/proc/77/comm", "bash\n")
    assert docker_api.asleep(RecordedSource(str(out.write(tmp_path / "rec"))), SOCKET)


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [
        ("tcp://10.0.0.7:2376", SOCKET),
        ("ssh://ops@build", SOCKET),
        ("unix:///run/user/1000/docker.sock", "/run/user/1000/docker.sock"),
        ("unix:///home/u/.docker/desktop/docker.sock", "/home/u/.docker/desktop/docker.sock"),
        ("unix:///tmp/other.sock", SOCKET),
        ("unix:///run/user/1/../../docker.sock", SOCKET),
    ],
)
def test_an_endpoint_elsewhere_is_not_asked(tmp_path: Path, endpoint: str, path: str) -> None:
    from doctor.probes.fact import known

    assert docker_api.socket_path(source(tmp_path), known(endpoint, "$DOCKER_HOST")) == path


def test_the_context_of_the_configuration_is_the_endpoint(tmp_path: Path) -> None:
    import hashlib

    out = RecordingWriter()
    out.process["env"] = {"HOME": "/home/u"}
    name = hashlib.sha256(b"far").hexdigest()
    out.file("/home/u/.docker/config.json", '{"currentContext": "far", "auths": {}}')
    out.file(
        f"/home/u/.docker/contexts/meta/{name}/meta.json",
        '{"Name": "far", "Endpoints": {"docker": {"Host": "ssh://ops@build"}}}',
    )
    facts = container.probe(RecordedSource(str(out.write(tmp_path / "rec"))))
    assert facts["docker_host"].value == "ssh://ops@build"


def test_under_sudo_the_callers_endpoint_is_not_guessed(tmp_path: Path) -> None:
    out = RecordingWriter()
    out.process.update(sudo=True, env={"HOME": "/root"})
    facts = container.probe(RecordedSource(str(out.write(tmp_path / "rec"))))
    assert facts["docker_host"].state == "unknown"


def test_images_are_inspected_only_when_they_look_like_nvidias(tmp_path: Path) -> None:
    answers = {
        "/images/json": [
            {"Id": "sha256:1", "RepoTags": ["alpine:3"], "Labels": None},
            {
                "Id": "sha256:2",
                "RepoTags": None,
                "Labels": {"maintainer": "NVIDIA CORPORATION"},
                "Size": 5,
            },
        ],
        "/images/sha256:2/json": {"Config": {"Env": ["NVIDIA_REQUIRE_CUDA=cuda>=12.8", "X=1"]}},
    }
    fact = docker_api.images(source(tmp_path, answers), SOCKET)
    assert [item["ref"] for item in fact.value] == ["sha256:2"]
    assert fact.value[0]["env"] == {"NVIDIA_REQUIRE_CUDA": "cuda>=12.8"}
    assert docker_api.images_unseen(source(tmp_path / "b", answers), SOCKET).value == 0


def test_every_image_is_called_by_all_its_names(tmp_path: Path) -> None:
    answers = {
        "/images/json": [
            {"RepoTags": ["a/b:1", "c:2"], "RepoDigests": ["a/b@sha256:1"]},
            {"RepoTags": ["<none>:<none>"], "RepoDigests": None},
        ]
    }
    fact = docker_api.image_names(source(tmp_path, answers), SOCKET)
    assert fact.value == ["a/b:1", "a/b@sha256:1", "c:2"]


def test_a_shell_line_hides_its_secrets_too() -> None:
    line = "exec vllm serve m --api-key planted-5 --port 8000 --hf-token=planted-6"
    shown = docker_api.shown_arguments(["sh", "-c", line])
    assert "planted" not in " ".join(shown)
    assert "--port 8000" in shown[2]
