"""A Hugging Face model folder: architectures, types, shards and tokenizer, from headers and JSON only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import UsageError
from doctor.plan.safe_read import list_folder, mapping, number, read_json, text
from doctor.plan.safetensors import Shard, read_shard

MAX_SHARDS = 512
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "spiece.model")
FLOATS = ("F64", "F32", "F16", "BF16")


class ModelDir(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a model. Sizes in bytes; None: not said."""

    path: str
    architectures: tuple[str, ...] = ()
    model_type: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    """quant_method, with the activation or weight format where the file says one."""
    is_fp8: bool = False
    vocab_size: int | None = None
    max_positions: int | None = None
    layers: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    size: int = 0
    dtypes: dict[str, int] = {}
    weight_files: int = 0
    broken: tuple[str, ...] = ()
    """Shards that are damaged, as sentences."""
    missing: tuple[str, ...] = ()
    """Shards that the index names and that are not there."""
    other_weights: tuple[str, ...] = ()
    """Weight files of other formats: pickles, GGUF."""
    tokenizer_files: tuple[str, ...] = ()
    tokenizer_problem: str | None = None
    largest_token: int | None = None
    """Greatest id among vocabulary and added tokens."""

    def kv_bytes_per_token(self, element: int = 2) -> int | None:
        """Bytes of KV cache that one token takes over all layers, or None where config.json does not say."""
        if None in (self.layers, self.kv_heads, self.head_dim):
            return None
        return (
            2 * int(self.layers or 0) * int(self.kv_heads or 0) * int(self.head_dim or 0) * element
        )

    def summary(self) -> str:
        """What it is, in a line."""
        kinds = "+".join(sorted(self.dtypes)) or self.dtype or "type not said"
        return f"{', '.join(self.architectures) or 'no architecture named'}, {self.size / 2**30:.1f} GiB, {self.quantization or kinds}"


def read_model(folder: Path) -> ModelDir:
    """The model in a folder, or UsageError with the file that is missing or wrong."""
    sizes = list_folder(folder, "model")
    config = read_json(folder / "config.json")
    if config is None:
        raise UsageError(
            f"{folder}: holds no config.json", "name the folder of a Hugging Face model"
        )
    if "build_config" in config:
        raise UsageError(f"{folder}: is a TensorRT-LLM engine", f"use --want engine:{folder}")
    names = config.get("architectures")
    if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
        names = []
    weights = [name for name in sorted(sizes) if name.endswith(".safetensors")]
    if len(weights) > MAX_SHARDS:
        raise UsageError(
            f"{folder}: more than {MAX_SHARDS} weight files", "name the folder of one model"
        )
    shards = [read_shard(folder / name) for name in weights]
    inner = mapping(config.get("text_config")) or config
    heads = number(inner.get("num_attention_heads"))
    hidden = number(inner.get("hidden_size"))
    quantization, is_fp8 = _quantization(config)
    tokens, tokenizer_problem = _tokens(folder)
    return ModelDir(
        path=str(folder),
        architectures=tuple(item[:120] for item in names[:8]),
        model_type=text(config.get("model_type")),
        dtype=text(config.get("dtype") or config.get("torch_dtype") or inner.get("torch_dtype")),
        quantization=quantization,
        is_fp8=is_fp8 or any(kind.startswith("F8") for shard in shards for kind in shard.dtypes),
        vocab_size=number(inner.get("vocab_size")),
        max_positions=number(inner.get("max_position_embeddings")),
        layers=number(inner.get("num_hidden_layers")),
        kv_heads=number(inner.get("num_key_value_heads")) or heads,
        head_dim=number(inner.get("head_dim")) or (hidden // heads if hidden and heads else None),
        size=sum(shard.size for shard in shards),
        dtypes=_sum(shards),
        weight_files=len(shards),
        broken=tuple(f"{shard.name} {shard.problem}" for shard in shards if shard.problem),
        missing=_missing(folder, set(sizes), weights),
        other_weights=tuple(
            name for name in sorted(sizes) if re.search(r"\.(bin|pt|pth|gguf)$", name)
        )[:20],
        tokenizer_files=tuple(name for name in TOKENIZERS if name in sizes),
        tokenizer_problem=tokenizer_problem,
        largest_token=tokens,
    )


def _sum(shards: list[Shard]) -> dict[str, int]:
    total: dict[str, int] = {}
    for shard in shards:
        for kind, count in shard.dtypes.items():
            total[kind] = total.get(kind, 0) + count
    return total


def _quantization(config: dict[str, Any]) -> tuple[str | None, bool]:
    described = mapping(config.get("quantization_config") or config.get("compression_config"))
    if not described:
        return None, False
    method = text(described.get("quant_method")) or "quantized"
    detail = text(described.get("fmt") or described.get("format") or described.get("quant_algo"))
    said = f"{method} ({detail})" if detail else method
    return said, "fp8" in said.lower() or "float-quantized" in said.lower()


def _missing(folder: Path, present: set[str], weights: list[str]) -> tuple[str, ...]:
    """By the index; without one, by the numbers in the names of the shards."""
    index = read_json(folder / "model.safetensors.index.json")
    if index is not None:
        named = {
            item for item in mapping(index.get("weight_map")).values() if isinstance(item, str)
        }
        return tuple(sorted(item[:120] for item in named if item not in present))[:50]
    for name in weights:
        match = re.fullmatch(r"(.*-)(\d{5})-of-(\d{5})\.safetensors", name)
        if match and 0 < int(match[3]) <= MAX_SHARDS:
            every = [
                f"{match[1]}{item:05}-of-{match[3]}.safetensors"
                for item in range(1, int(match[3]) + 1)
            ]
            return tuple(item for item in every if item not in present)
    return ()


def _tokens(folder: Path) -> tuple[int | None, str | None]:
    """The greatest token id over tokenizer.json and added_tokens.json, and what is inconsistent among them."""
    tokenizer = read_json(folder / "tokenizer.json")
    ids: list[int] = []
    by_word: dict[str, int] = {}
    problem = None
    for item in (tokenizer or {}).get("added_tokens") or []:
        ident, word = number(mapping(item).get("id")), text(mapping(item).get("content"))
        if ident is not None and word is not None:
            ids.append(ident)
            by_word[word] = ident
    vocabulary = mapping(mapping((tokenizer or {}).get("model")).get("vocab"))
    ids += [value for value in vocabulary.values() if number(value) is not None][:2_000_000]
    for word, ident in (read_json(folder / "added_tokens.json") or {}).items():
        value = number(ident)
        if value is None:
            continue
        ids.append(value)
        if tokenizer is not None and by_word and by_word.get(word[:200], value) != value:
            problem = f"{word[:40]!r} is {value} in added_tokens.json and {by_word[word[:200]]} in tokenizer.json"
    decoder = mapping(
        (read_json(folder / "tokenizer_config.json") or {}).get("added_tokens_decoder")
    )
    for key, item in decoder.items():
        word = text(mapping(item).get("content"))
        if key.isdigit() and word is not None and word in by_word and by_word[word] != int(key):
            problem = f"{word[:40]!r} is {key} in tokenizer_config.json and {by_word[word]} in tokenizer.json"
    return max(ids, default=None), problem
