"""Lines and compose files as records."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.plan.launch import read_launch

DATA = Path(__file__).parent / "data"


def test_docker_line() -> None:
    launch = read_launch(
        "sudo docker run -d --rm --gpus all --shm-size=8g --ulimit memlock=-1 -p 127.0.0.1:9000:8000 "
        "-v /models:/models --name chat vllm/vllm-openai:v0.27.1 --model /models/m -tp 2 --block-size 16"
    )
    (box,), (engine,) = launch.containers, launch.engines
    assert (box.name, box.gpus, box.shm, box.ports) == ("chat", True, 8 * 2**30, (9000,))
    assert box.ulimits == {"memlock": -1}
    assert box.mounts == ("/models",)
    assert (engine.command, engine.version, engine.model, engine.gpus) == (
        "vllm serve",
        "0.27.1",
        "/models/m",
        2,
    )


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("vllm serve M --max-model-len 8k", "vllm serve"),
        ("python3 -m vllm.entrypoints.openai.api_server --model M", "vllm serve"),
        ("VLLM_USE_V1=1 /opt/v/bin/vllm serve M", "vllm serve"),
        ("trtllm-serve serve M --max_seq_len 4096", "trtllm-serve"),
        ("trtllm-serve M --tp_size 2 \\\n  --port 9000", "trtllm-serve"),
        ("podman run --device nvidia.com/gpu=all vllm/vllm-openai:v0.27.1 M", "vllm serve"),
        (
            "docker run --gpus=all nvcr.io/nvidia/tensorrt-llm/release:1.2.1 trtllm-serve M",
            "trtllm-serve",
        ),
    ],
)
def test_engines_of_lines(line: str, command: str) -> None:
    (engine,) = read_launch(line).engines
    assert (engine.command, engine.model) == (command, "M")


def test_compose_file() -> None:
    launch = read_launch(str(DATA / "compose.yml"))
    (box,), (engine,) = launch.containers, launch.engines
    assert box.gpus and box.no_new_privileges and box.ports == (8001,)
    assert (engine.gpus, engine.version) == (2, "0.27.1")
    assert engine.env["VLLM_API_KEY"] == "(set)"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        "services: {}",
        "services: {a: {build: .}}",
        "a: &a [*a]",
        "\x00\xff",
        "services: [x]",
        "x" * 300_000,
    ],
)
def test_a_compose_file_that_is_none_is_refused_in_a_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "compose.yml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        read_launch(str(file))
    assert str(file) in error.value.message


@pytest.mark.parametrize(
    "line", ["docker run --gpus", "docker run", "vllm serve 'x", "ls", "docker run --gpus all"]
)
def test_a_line_that_is_none_is_refused_in_a_sentence(line: str) -> None:
    with pytest.raises(UsageError):
        read_launch(line)
