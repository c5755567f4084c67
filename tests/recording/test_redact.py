"""A recording tells nobody whose host it is, and still says everything a doctor judges."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from doctor import redact as outgoing
from doctor.probes.recordings.public import kernel_arguments
from doctor.probes.recordings.redact import redact
from doctor.probes.recordings.variable import may_be_recorded
from tests.recording import planted


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _texts(documents: dict[str, Any]) -> str:
    return json.dumps(_plain(documents), ensure_ascii=False).replace('\\"', '"')


@pytest.fixture(scope="module")
def redacted() -> dict[str, Any]:
    return redact(planted.documents())


@pytest.mark.parametrize("value", planted.IDENTITIES + planted.SECRETS)
def test_no_planted_value_is_left_anywhere(redacted: dict[str, Any], value: str) -> None:
    text = _texts(redacted)
    found = [
        text[match.start() - 80 : match.end() + 40] for match in re.finditer(re.escape(value), text)
    ]
    assert not found, found[0]


@pytest.mark.parametrize("value", planted.IDENTITIES + planted.SECRETS)
def test_every_planted_value_was_there(value: str) -> None:
    assert value in _texts(planted.documents())


@pytest.mark.parametrize("value", planted.KEPT)
def test_what_a_doctor_judges_stays(redacted: dict[str, Any], value: str) -> None:
    assert value in _texts(redacted)


def test_redacting_twice_changes_nothing(redacted: dict[str, Any]) -> None:
    assert redact(redacted) == redacted


def test_the_same_thing_has_the_same_name_everywhere(redacted: dict[str, Any]) -> None:
    uuid = redacted["nvml"]["devices"]["0"]
    information = redacted["files"]["/proc/driver/nvidia/gpus/0000:18:00.0/information"].decode()
    assert uuid in information
    assert uuid.startswith(redacted["process"]["env"]["CUDA_VISIBLE_DEVICES"])
    home = redacted["process"]["env"]["HOME"]
    assert home + "/venv" in redacted["paths"]
    assert home + "/.docker/config.json" in redacted["files"]
    assert home.rpartition("/")[2] in redacted["paths"]["/home"]["entries"]


def test_names_in_a_folder_are_those_of_the_paths_below_it(redacted: dict[str, Any]) -> None:
    entries = redacted["paths"]["/dev/shm"]["entries"]
    assert "nccl-AbCdEf" in entries
    assert all("/dev/shm/" + name in redacted["paths"] for name in entries if name != "nccl-AbCdEf")


def test_a_renamed_docker_context_is_still_found(redacted: dict[str, Any]) -> None:
    import hashlib

    home = redacted["process"]["env"]["HOME"]
    context = json.loads(redacted["files"][home + "/.docker/config.json"])["currentContext"]
    digest = hashlib.sha256(context.encode()).hexdigest()
    assert f"{home}/.docker/contexts/meta/{digest}/meta.json" in redacted["files"]


def test_a_question_without_a_list_is_not_recorded(redacted: dict[str, Any]) -> None:
    assert "error" in redacted["http"]["unix:///var/run/docker.sock GET /secrets"]


def test_a_container_keeps_what_decides(redacted: dict[str, Any]) -> None:
    (key,) = [key for key in redacted["http"] if "/containers/" in key]
    value = json.loads(redacted["http"][key]["body"])
    assert value["Id"] in key
    assert value["HostConfig"]["ShmSize"] == 67108864
    assert value["HostConfig"]["PortBindings"]["8000/tcp"][0]["HostIp"] == "0.0.0.0"
    assert "HF_TOKEN=(secret)" in value["Config"]["Env"]
    assert value["Config"]["Cmd"] == ["--model", "m", "--api-key", "(secret)"]
    assert value["Config"]["Image"].endswith("-vllm:v1")


def test_a_serial_number_in_configuration_space_is_cut_and_the_rest_stays(
    redacted: dict[str, Any],
) -> None:
    data = redacted["files"]["/sys/bus/pci/devices/0000:18:00.0/config"]
    before = planted.documents()["files"]["/sys/bus/pci/devices/0000:18:00.0/config"]
    assert data[0x104:0x10C] == bytes(8)
    assert data[:0x104] + data[0x10C:] == before[:0x104] + before[0x10C:]


def test_malformed_settings_stay_malformed() -> None:
    documents = planted.documents()
    documents["files"]["/etc/docker/daemon.json"] = b'{"runtimes": {'
    assert redact(documents)["files"]["/etc/docker/daemon.json"] == b'{"runtimes": {'


def test_content_that_is_not_utf8_keeps_its_length_and_loses_known_words() -> None:
    documents = planted.documents()
    documents["files"]["/lib/x.bin"] = b"\xff\xfe" + planted.HOST.encode() + b"\x00tail"
    data = redact(documents)["files"]["/lib/x.bin"]
    assert planted.HOST.encode() not in data
    assert data.endswith(b"\x00tail") and len(data) == 2 + len(planted.HOST) + 5


def test_a_common_host_name_is_renamed_only_where_it_is_one() -> None:
    documents = planted.documents()
    documents["files"]["/etc/hostname"] = b"vm\n"
    documents["files"]["/proc/sys/kernel/hostname"] = b"vm\n"
    documents["files"]["/proc/sys/vm/overcommit_memory"] = b"vm stays a word\n"
    files = redact(documents)["files"]
    assert files["/etc/hostname"].startswith(b"host-")
    assert files["/proc/sys/vm/overcommit_memory"] == b"vm stays a word\n"


def test_names_that_a_recording_already_uses_are_not_given_again() -> None:
    documents = planted.documents()
    documents["files"]["/etc/motd"] = b"talk to host-1 and host-2"
    files = redact(documents)["files"]
    assert files["/etc/motd"] == b"talk to host-1 and host-2"
    assert files["/etc/hostname"] not in (b"host-1\n", b"host-2\n")


def test_kernel_arguments_follow_an_allow_list() -> None:
    line = "BOOT_IMAGE=/vmlinuz root=LABEL=x nouveau.modeset=0 iommu=pt secret=1 nvidia-drm.modeset=1 rd.luks.uuid=z\n"
    assert kernel_arguments(line) == (
        "BOOT_IMAGE=/vmlinuz nouveau.modeset=0 iommu=pt nvidia-drm.modeset=1\n"
    )


@pytest.mark.parametrize(
    "name", ["CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "LD_LIBRARY_PATH", "VLLM_USE_V1"]
)
def test_variables_that_decide_are_on_the_list(name: str) -> None:
    assert may_be_recorded(name)


@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "PLAN", "USER", "SSH_CLIENT", "TF_VAR_x"]
)
def test_other_variables_are_not(name: str) -> None:
    assert not may_be_recorded(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"HF_TOKEN={planted.TOKEN} vllm serve", "HF_TOKEN=(secret) vllm serve"),
        ("vllm serve m --api-key abc123 --port 1", "vllm serve m --api-key (secret) --port 1"),
        ("--hf-token=abc", "--hf-token=(secret)"),
        ("http://user:pw@proxy:3128/x", "http://proxy:3128/x"),
        ("https://h/x?token=abc&y=1", "https://h/x?token=(secret)&y=1"),
        ("Authorization: Bearer abcdef", "Authorization: (secret)"),
        ("machine h login bearer password A1B2", "machine h login bearer password (secret)"),
        ("password = two words\nnext", "password = (secret)\nnext"),
        (f"key {planted.NGC_KEY}.", "key (secret)."),
        ('{"auth": "YWJj"}', '{"auth": "(secret)"}'),
    ],
)  # fmt: skip
def test_a_secret_leaves_in_no_text(text: str, shown: str) -> None:
    assert outgoing.redact(text) == shown
    assert outgoing.redact(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "start it with --api-key and a random key",
        "vllm serve --api-key \"$VLLM_API_KEY\"",
        "max_tokens=4096 eos_token: </s> --max-num-batched-tokens 8192",
        "zeus-gpu7 has GPU-8932f937-d72c-4106-c12f-20bd9faed9f6 at 10.0.0.1",
        "unix:///var/run/docker.sock",
        "PasswordAuthentication no",
        "signed-by=/usr/share/keyrings/nvidia.gpg",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays_in_outgoing_text(text: str) -> None:
    assert outgoing.redact(text) == text


def test_argument_lists_and_trees_lose_their_secrets() -> None:
    assert outgoing.redact_arguments(["--api-key", "a", "b", "--port", "1"]) == [
        "--api-key", "(secret)", "(secret)", "--port", "1",
    ]  # fmt: skip
    assert outgoing.redact_tree({"env": {"NGC_API_KEY": "x1"}, "n": [1, "--token=abc"]}) == {
        "env": {"NGC_API_KEY": "(secret)"}, "n": [1, "--token=(secret)"],
    }  # fmt: skip


def test_folders_that_probes_ask_for_by_name_keep_their_names() -> None:
    """Else a recording would hold them under a name that nobody asks for again."""
    from doctor.probes.areas.python_env import PREFIXES
    from doctor.probes.recordings.public import FOLDERS

    names = {part for prefix in PREFIXES for part in prefix.split("/")[2:3]} - {"*"}
    assert names >= {"conda", "gpu-host-doctor"}
    assert [name for name in names if not FOLDERS.match(name)] == []


def test_packages_that_probes_look_for_keep_their_names_and_no_others_do() -> None:
    from doctor.probes.reading.wheel import CORE, TRACKED_NAMES
    from doctor.probes.recordings.public import entries

    kept = [f"{name.replace('-', '_')}-1.0.dist-info" for name in sorted(CORE | TRACKED_NAMES)]
    names = [*kept, "acme_secret_engine-1.0.dist-info", "acme_secret_engine"]
    assert entries("/opt/venv/lib/python3.12/site-packages", names) == kept
