"""A TensorRT-LLM engine folder: what its config.json says it was built with and for. Reads, and judges nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import UsageError
from doctor.plan.safe_read import list_folder, mapping, number, read_json, text


class EngineDir(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of an engine. None: config.json does not say."""

    path: str
    tensorrt_llm: str | None = None
    """Version of TensorRT-LLM, and so of its plugin library, that built it."""
    tensorrt: str | None = None
    """TensorRT version, where the file or the engine's header says it."""
    capability: str | None = None
    """Compute capability it was built for, where the builder wrote it."""
    quantization: str | None = None
    kv_cache_quantization: str | None = None
    paged_kv_cache: bool | None = None
    max_input_len: int | None = None
    max_seq_len: int | None = None
    max_batch_size: int | None = None
    world_size: int | None = None
    architecture: str | None = None
    engines: tuple[str, ...] = ()
    size: int = 0

    @property
    def is_fp8(self) -> bool:
        """Whether it computes or caches in FP8."""
        return any(
            "FP8" in (item or "").upper()
            for item in (self.quantization, self.kv_cache_quantization)
        )

    @property
    def missing_ranks(self) -> list[str]:
        """Engine files of ranks that are not there."""
        count = self.world_size or 1
        return [
            f"rank{rank}.engine"
            for rank in range(count)
            if f"rank{rank}.engine" not in self.engines
        ]

    def summary(self) -> str:
        """What it is, in a line."""
        parts = [
            self.architecture or "an engine",
            f"built by TensorRT-LLM {self.tensorrt_llm or '(not said)'}",
        ]
        if self.capability:
            parts.append(f"for compute capability {self.capability}")
        if self.quantization:
            parts.append(self.quantization)
        return ", ".join(parts)


def read_engine(folder: Path) -> EngineDir:
    """The engine in a folder, or UsageError with the file that is missing or wrong."""
    sizes = list_folder(folder, "TensorRT-LLM engine")
    config = read_json(folder / "config.json")
    if config is None:
        raise UsageError(
            f"{folder}: holds no config.json", "name the folder that trtllm-build wrote"
        )
    build, pretrained = (
        mapping(config.get("build_config")),
        mapping(config.get("pretrained_config")),
    )
    if not build:
        hint = (
            "use --want model:" + str(folder)
            if "architectures" in config
            else "name the folder that trtllm-build wrote"
        )
        raise UsageError(
            f"{folder}: config.json has no build_config, so it is no TensorRT-LLM engine", hint
        )
    plugin, quant = mapping(build.get("plugin_config")), mapping(pretrained.get("quantization"))
    mapped = mapping(pretrained.get("mapping"))
    engines = tuple(sorted(name for name in sizes if re.fullmatch(r"rank\d{1,4}\.engine", name)))
    return EngineDir(
        path=str(folder),
        tensorrt_llm=text(config.get("version")),
        tensorrt=text(build.get("tensorrt_version") or config.get("tensorrt_version")),
        capability=_capability(config, build),
        quantization=text(quant.get("quant_algo")),
        kv_cache_quantization=text(quant.get("kv_cache_quant_algo")),
        paged_kv_cache=_flag(plugin.get("paged_kv_cache"), build.get("kv_cache_type")),
        max_input_len=number(build.get("max_input_len")),
        max_seq_len=number(build.get("max_seq_len")),
        max_batch_size=number(build.get("max_batch_size")),
        world_size=_world_size(mapped),
        architecture=text(pretrained.get("architecture")),
        engines=engines,
        size=sum(sizes[name] for name in engines),
    )


def _capability(config: dict[str, Any], build: dict[str, Any]) -> str | None:
    """As "9.0", 90 or "sm_90"; builders differ."""
    for place in (config, build):
        for key in ("compute_capability", "sm", "gpu_arch", "target_sm"):
            digits = re.sub(r"[^\d.]", "", str(place.get(key, "")))
            if re.fullmatch(r"\d{1,2}\.\d", digits):
                return digits
            if re.fullmatch(r"\d{2,3}", digits):
                return f"{digits[:-1]}.{digits[-1]}"
    return None


def _flag(paged: Any, kind: Any) -> bool | None:
    if isinstance(kind, str):
        return kind.upper().rpartition(".")[2] == "PAGED"
    return paged if isinstance(paged, bool) else None


def _world_size(mapped: dict[str, Any]) -> int | None:
    size = number(mapped.get("world_size"))
    return size if size is not None and 0 < size <= 4096 else None
