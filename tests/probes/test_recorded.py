"""A recording is a stranger's data: it gives answers or one sentence that names the file, and nothing else."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.probes import registry
from doctor.probes.recordings import recorded as module
from doctor.probes.recordings.recorded import RecordedSource, RecordingError

MANIFEST = {
    "format": 1,
    "recorded_at": "2026-11-30T12:00:00+00:00",
    "host": "host-1",
    "note": "",
    "redacted": True,
    "missing": "unknown",
}


def write(folder: Path, **documents: Any) -> Path:
    """A small recording; keyword `x_json` replaces x.json, text as it is."""
    content: dict[str, Any] = {
        "manifest": MANIFEST,
        "paths": {"/etc/os-release": {"type": "file"}, "/dev": {"type": "dir", "entries": ["null"]}},
        "process": {"env": {"PATH": "/bin"}, "euid": 0, "rlimits": {"memlock": [1, 1]}, "sudo": False, "scope": "shell"},
        "nvml": {"init": "ok", "devices": {"0": "GPU-1"}, "calls": {"nvmlDeviceGetName": {"[0]": {"value": "X"}}}},
        "cuda": [{"name": "scope", "env": {}, "cuInit": 0, "count": 1}],
        "http": {"unix:///s GET /info": {"status": 200, "body": "{}"}},
    } | documents  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in content.items():
        text = value if isinstance(value, (str, bytes)) else json.dumps(value)
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        if value is not None:
            (folder / f"{name}.json").write_bytes(data)
    (folder / "files" / "etc").mkdir(parents=True)
    (folder / "files" / "etc" / "os-release").write_text("ID=debian\n")
    (folder / "cmds").mkdir()
    command = {"argv": ["dmesg"], "env": {}, "rc": 0, "stdout": "x", "stderr": ""}
    (folder / "cmds" / "000-dmesg.json").write_text(json.dumps(command))
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(RecordingError) as caught:
        RecordedSource(str(folder))
    text = str(caught.value)
    assert "\n" not in text and str(folder) in text
    return text


def test_a_plain_recording_answers(tmp_path: Path) -> None:
    source = RecordedSource(str(write(tmp_path / "r")))
    assert source.read("/etc/os-release").value == "ID=debian\n"
    assert source.run(["dmesg"]).value.stdout == "x"
    assert source.listdir("/dev").value == ["null"]
    assert source.nvml("nvmlDeviceGetName", 0).value == "X"
    assert source.http("/s", "/info").value == {}
    assert source.cuda().value["count"] == 1


def test_what_was_not_recorded_is_unknown_or_absent_as_the_manifest_says(tmp_path: Path) -> None:
    unknown = RecordedSource(str(write(tmp_path / "u")))
    absent = RecordedSource(str(write(tmp_path / "a", manifest=dict(MANIFEST, missing="absent"))))
    for ask in (
        lambda s: s.read("/nowhere"), lambda s: s.stat("/nowhere"), lambda s: s.run(["nowhere"]), lambda s: s.http("/x", "/y"),
    ):  # fmt: skip
        assert ask(unknown).state == "unknown"
        assert ask(absent).state == "absent"


def test_a_name_missing_from_a_listed_folder_is_absent(tmp_path: Path) -> None:
    source = RecordedSource(str(write(tmp_path / "r")))
    assert source.stat("/dev/nvidia0").state == "absent"
    assert source.read("/dev/nvidia0").state == "absent"
    assert source.stat("/elsewhere/x").state == "unknown"


def test_a_variable_that_no_list_allows_is_unknown_not_unset(tmp_path: Path) -> None:
    source = RecordedSource(str(write(tmp_path / "r")))
    assert source.env("CUDA_VISIBLE_DEVICES").state == "absent"
    assert source.env("MY_OWN").state == "unknown"


def test_a_folder_that_is_none_and_one_that_is_no_recording(tmp_path: Path) -> None:
    assert "no such folder" in refused(tmp_path / "nowhere")
    assert "not a recording" in refused(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("manifest", "{", "not valid JSON"),
        ("manifest", b"\xff\xfe{}", "not valid JSON"),
        ("manifest", "[]", "must hold a JSON object"),
        ("manifest", dict(MANIFEST, format=2), "this doctor reads format 1"),
        ("manifest", dict(MANIFEST, format="1\n2"), "this doctor reads format 1"),
        ("manifest", dict(MANIFEST, missing="maybe"), "missing must be"),
        ("manifest", dict(MANIFEST, recorded_at=5), "recorded_at must be text"),
        ("paths", '{"/a": {"type": "file"}, "/a": {"type": "dir"}}', "stands twice"),
        ("paths", "[" * 100_000, "not valid JSON"),
        ("paths", '{"/a": {"type": "file", "size": NaN}}', "not valid JSON"),
        ("paths", '{"/a": {"type": "file", "size": 1e999}}', "not valid JSON"),
        ("paths", '{"/a": {"type": "file", "size": ' + "9" * 5_000_000 + "}}", "too long"),
        ("paths", [], "must hold a JSON object"),
        ("paths", {"/a": []}, "must be an object"),
        ("paths", {"/a": {"type": "door"}}, "unknown type"),
        ("paths", {"/a": {"type": "file", "size": "big"}}, "size must be a whole number"),
        ("paths", {"/a": {"type": "file", "mode": True}}, "mode must be a whole number"),
        ("paths", {"/a": {"type": "link", "target": 5}}, "target must be text"),
        ("paths", {"/a": {"type": "link", "target": "a/" * 5000}}, "target too long"),
        ("paths", {"a": {"type": "file"}}, "not a plain absolute path"),
        ("paths", {"/a/../b": {"type": "file"}}, "not a plain absolute path"),
        ("paths", {"/a\0b": {"type": "file"}}, "not a plain absolute path"),
        ("paths", '{"/a\\ud800": {"type": "file"}}', "not a plain absolute path"),
        ("paths", {"/a": {"type": "dir", "entries": "b"}}, "entries must be a list"),
        ("paths", {"/a": {"type": "dir", "entries": ["../b"]}}, "plain names"),
        ("paths", {"/a": {"type": "dir", "entries": [".."]}}, "plain names"),
        ("paths", {"/a": {"type": "dir", "entries": [5]}}, "plain names"),
        ("paths", {"/a": {"type": "dir", "statvfs": {"total": 1}}}, "statvfs needs"),
        ("process", {"env": {"A": 5}}, "env must map names to text"),
        ("process", {"rlimits": {"memlock": "unlimited"}}, "rlimits"),
        ("process", {"sudo": "no"}, "sudo must be"),
        ("nvml", {"init": 5}, "init must be text"),
        ("nvml", {"devices": ["GPU-1"]}, "devices must map"),
        ("nvml", {"calls": {"f": {"[0]": "x"}}}, "a value or an error"),
        ("cuda", {}, "must hold a JSON array"),
        ("cuda", [{"cuInit": "0"}], "cuInit must be a whole number"),
        ("http", {"k": {"status": "200", "body": "x"}}, "status must be a number"),
        ("http", {"k": {"status": 200, "body_b64": "%%%"}}, "not base64"),
    ],
)  # fmt: skip
def test_a_document_of_the_wrong_shape_is_refused_by_name(
    tmp_path: Path, name: str, value: Any, said: str
) -> None:
    text = refused(write(tmp_path / "r", **{name: value}))
    assert f"{name}.json" in text and said in text


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"argv": "dmesg"}, "argv must be"),
        ({"argv": []}, "argv must be"),
        ({"argv": ["a"], "env": []}, "env must map"),
        ({"argv": ["a"], "rc": "0"}, "rc must be"),
        ({"argv": ["a"], "stdout": 5}, "stdout must be text"),
        ({"argv": ["a"], "stdout_b64": "a"}, "not base64"),
        ([], "must hold a JSON object"),
    ],
)
def test_a_command_of_the_wrong_shape_is_refused_by_name(
    tmp_path: Path, record: Any, said: str
) -> None:
    folder = write(tmp_path / "r")
    (folder / "cmds" / "001-x.json").write_text(json.dumps(record))
    text = refused(folder)
    assert "001-x.json" in text and said in text


def test_a_document_cut_short_is_refused_by_name(tmp_path: Path) -> None:
    folder = write(tmp_path / "r")
    for name in ("manifest", "paths", "process", "nvml", "cuda", "http"):
        file = folder / f"{name}.json"
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        assert f"{name}.json" in refused(folder)
        file.write_bytes(whole)


def test_links_fifos_sockets_and_devices_are_refused(tmp_path: Path) -> None:
    import socket

    folder = write(tmp_path / "r")
    secret = tmp_path / "secret"
    secret.write_text("root:x")
    place = folder / "files" / "etc" / "shadow"
    place.symlink_to(secret)
    assert "plain files only" in refused(folder)
    place.unlink()
    place.symlink_to("/etc")
    assert "plain files only" in refused(folder)
    place.unlink()
    os.mkfifo(place)
    assert "plain files only" in refused(folder)
    place.unlink()
    channel = socket.socket(socket.AF_UNIX)
    channel.bind(str(place))
    assert "plain files only" in refused(folder)
    channel.close()


def test_a_file_that_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = write(tmp_path / "r")
    source = RecordedSource(str(folder))
    secret = tmp_path / "secret"
    secret.write_text("root:x")
    place = folder / "files" / "etc" / "os-release"
    place.unlink()
    place.symlink_to(secret)
    with pytest.raises(RecordingError):
        source.read("/etc/os-release")


def test_no_question_climbs_out_of_the_recording(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root:x")
    source = RecordedSource(str(write(tmp_path / "r")))
    for path in ("/../../secret", "/etc/../../../secret", "/../manifest.json", "//../paths.json"):
        assert not source.read(path).ok


def test_too_large_too_many_and_too_deep_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "r")
    monkeypatch.setattr(module, "MAX_FILE", 100)
    assert "larger than" in refused(folder)
    monkeypatch.undo()
    monkeypatch.setattr(module, "MAX_TOTAL", 100)
    assert "more than" in refused(folder)
    monkeypatch.undo()
    monkeypatch.setattr(module, "MAX_FILES", 3)
    assert "more than" in refused(folder)
    monkeypatch.undo()
    deep = folder / "files"
    for _ in range(70):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert "too deep" in refused(folder)


def test_a_sparse_file_of_gigabytes_is_refused_without_reading_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "r")
    with (folder / "files" / "big").open("wb") as file:
        file.truncate(10 << 30)
    assert "larger than 64 MiB" in refused(folder)


def test_links_that_go_round_end(tmp_path: Path) -> None:
    paths = {
        "/": {"type": "dir"},
        "/a": {"type": "link", "target": "b"},
        "/b": {"type": "link", "target": "a"},
    }
    source = RecordedSource(str(write(tmp_path / "r", paths=paths)))
    assert source.realpath("/a").state == "unknown"
    assert source.read("/a").state == "unknown"
    assert source.listdir("/a").state == "unknown"


# fuzz ---------------------------------------------------------------------------------------------------------------

ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2**63,
    10**30,
    1.5,
    "",
    "x",
    "\x1b[31m",
    "\ud800",
    "/../..",
    [],
    [None],
    {},
    {"": ""},
    ["a", {"b": []}],
]


def _mutate(value: Any, draw: random.Random, depth: int = 0) -> Any:
    """One place of a JSON value, however deep, becomes something odd, goes, or is doubled."""
    if isinstance(value, dict) and value and (depth == 0 or draw.random() < 0.85):
        key = draw.choice(sorted(value))
        choice = draw.random()
        rest = dict(value)
        if choice < 0.1:
            del rest[key]
        elif choice < 0.2:
            rest[draw.choice(["/../x", "a", "\0", "//", key + "\n"])] = rest.pop(key)
        else:
            rest[key] = _mutate(value[key], draw, depth + 1)
        return rest
    if isinstance(value, list) and value and draw.random() < 0.85:
        at = draw.randrange(len(value))
        return [*value[:at], _mutate(value[at], draw, depth + 1), *value[at + 1 :]]
    if isinstance(value, str) and len(value) > 40 and draw.random() < 0.7:
        return _mutate_text(value, draw)
    return draw.choice(ODD)


def _mutate_text(text: str, draw: random.Random) -> str:
    """Cut short, its lines shuffled and dropped, or some letters replaced: what a broken tool prints."""
    kind = draw.random()
    if kind < 0.3:
        return text[: draw.randrange(len(text) + 1)]
    if kind < 0.6:
        lines = text.splitlines(keepends=True)
        draw.shuffle(lines)
        return "".join(lines[: draw.randrange(len(lines) + 1)])
    letters = list(text)
    for _ in range(20):
        letters[draw.randrange(len(letters))] = draw.choice(
            ["\0", "\u00e9", "9" * 50, "-", "", "\n", "<", "'", "(", "{", "="]
        )
    return "".join(letters)


DESCRIPTIONS: list[dict[str, Any]] = [
    {"distro": "ubuntu-24.04", "gpus": ["NVIDIA H100 80GB HBM3"], "driver": "580.95.05"},
    {
        "distro": "rocky-9.6", "gpus": [{"name": "NVIDIA H100 80GB HBM3", "count": 2}], "nvswitch": 4, "driver": "580.95.05",
        "containers": {
            "docker": "28.5.1", "toolkit": "1.19.1", "runtimes": ["nvidia"],
            "images": [{"ref": "vllm/vllm-openai:v0.24.0", "env": {"CUDA_VERSION": "12.8.1"}}],
            "running": [{"image": "vllm/vllm-openai:v0.24.0", "gpus": True}],
        },
        "python": [{"path": "/opt/venv", "version": "3.12", "packages": {"torch": "2.11.0+cu130", "vllm": "0.24.0"}}],
    },
]  # fmt: skip


@pytest.fixture(scope="module", params=range(len(DESCRIPTIONS)), ids=["apt", "dnf-docker-python"])
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from doctor.simulate.simulator import simulate

    folder = tmp_path_factory.mktemp("fuzz") / "host"
    simulate(DESCRIPTIONS[request.param]).write(folder)
    return folder


def _judge(folder: Path) -> None:
    """Probe and judge; the registry turns a probe's own mistake into an error, which here is one."""
    from datetime import date

    from doctor import engine

    source = RecordedSource(str(folder))
    envelope = registry.run(source, deadline=20.0)
    assert envelope["errors"] == {}
    engine.check_facts(envelope["facts"], engine.Options(as_of=date(2026, 11, 30)))


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_a_mutated_recording_is_refused_or_judged(sample: Path, seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    folder = tmp_path / "m"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sample, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    documents = [path for path in files if path.suffix == ".json" and "files" not in path.parts]
    for _ in range(draw.choice([1, 1, 3])):
        if draw.random() < 0.6:
            target = draw.choice(documents)
            try:
                value = json.loads(target.read_bytes())
            except ValueError:
                continue
            target.write_text(json.dumps(_mutate(value, draw)))
        else:
            target = draw.choice(files)
            data = bytearray(target.read_bytes())
            kind = draw.random()
            if kind < 0.4:
                data = data[: draw.randrange(len(data) + 1)]
            elif kind < 0.6:
                lines = bytes(data).split(b"\n")
                data = bytearray(b"\n".join(draw.sample(lines, len(lines))))
            elif kind < 0.8 and data:
                for _ in range(8):
                    data[draw.randrange(len(data))] = draw.randrange(256)
            else:
                data = bytearray(base64.b64encode(bytes(data)))
            target.write_bytes(bytes(data))
    problem: list[BaseException] = []

    def work() -> None:
        try:
            _judge(folder)
        except RecordingError:
            pass
        except BaseException as error:
            problem.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it hangs"
    if problem:
        raise problem[0]
