"""Folders that strangers made: engines, models, saved inspects, locks. Broken ones cost a sentence, hostile ones nothing more."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.plan.engine_dir import read_engine
from doctor.plan.image import read_image
from doctor.plan.lock import read_lock
from doctor.plan.model_dir import read_model
from doctor.plan.safetensors import read_shard

DATA = Path(__file__).parent / "data"


def test_an_engine_is_read() -> None:
    engine = read_engine(DATA / "engine-good")
    assert (engine.tensorrt_llm, engine.capability, engine.is_fp8) == ("1.2.1", "9.0", True)
    assert (engine.paged_kv_cache, engine.max_input_len, engine.missing_ranks) == (True, 2048, [])
    assert read_engine(DATA / "engine-bad").missing_ranks == ["rank1.engine"]


def test_a_model_is_read() -> None:
    model = read_model(DATA / "model-good")
    assert model.architectures == ("Qwen2ForCausalLM",)
    assert (model.dtypes, model.missing, model.broken) == ({"BF16": 128}, (), ())
    assert (model.largest_token, model.vocab_size) == (99, 100)
    assert model.kv_bytes_per_token() == 2 * 2 * 2 * 16 * 2


def test_a_broken_model_is_described() -> None:
    model = read_model(DATA / "model-bad")
    assert model.missing == ("model-00003-of-00003.safetensors",)
    assert len(model.broken) == 1
    assert set(model.dtypes) == {"BF16", "F16"}
    assert model.is_fp8
    assert model.tokenizer_problem is not None


def test_kinds_of_folders_are_told_apart() -> None:
    with pytest.raises(UsageError, match="no build_config"):
        read_engine(DATA / "model-good")
    with pytest.raises(UsageError, match="is a TensorRT-LLM engine"):
        read_model(DATA / "engine-good")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"a":' * 100_000])
def test_a_config_that_is_no_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    for read in (read_engine, read_model):
        with pytest.raises(UsageError):
            read(tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        {"build_config": {"max_input_len": "long", "plugin_config": 7}, "version": 3},
        {"build_config": {"sm": []}, "pretrained_config": {"mapping": {"world_size": 10**12}}},
        {"build_config": {"x": 1}, "pretrained_config": "x"},
    ],
)
def test_values_of_wrong_types_are_unknown(tmp_path: Path, config: dict[str, object]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    engine = read_engine(tmp_path)
    assert engine.max_input_len is None
    assert engine.missing_ranks == ["rank0.engine"]


def test_a_fifo_or_device_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(UsageError):
        read_model(tmp_path)
    (tmp_path / "link.safetensors").symlink_to("/dev/zero")
    assert read_shard(tmp_path / "link.safetensors").problem is not None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 7,
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 5) + b"{}",
        struct.pack("<Q", 9) + b'{"a": 1} ',
        struct.pack("<Q", 35) + b'{"a": {"data_offsets": [9, 1]}}    ',
        struct.pack("<Q", 39) + b'{"a": {"data_offsets": [0, true]}}     ',
    ],
)
def test_a_shard_that_is_none_is_described(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.safetensors"
    file.write_bytes(content)
    assert read_shard(file).problem is not None


def test_a_saved_inspect_is_read_whole() -> None:
    ref, look = read_image(str(DATA / "inspect-cuda-13.json"))
    assert ref == "nvidia/cuda:13.0.2-base-ubuntu24.04"
    assert look is not None
    assert "driver>=550" in look.requires["NVIDIA_REQUIRE_CUDA"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '[{"Config": 1}]', "[[["])
def test_an_inspect_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "inspect.json"
    file.write_text(content)
    with pytest.raises(UsageError):
        read_image(str(file))


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema": "doctor.lock/9"}', "\x00"])
def test_a_lock_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "stack.lock"
    file.write_text(content)
    with pytest.raises(UsageError):
        read_lock(file)
