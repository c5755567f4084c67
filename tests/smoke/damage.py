"""Damage to a copy of the smoke model, as hosts do it: a weight, a configuration, an order. Standard library only."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any


def copy(model: Path, to: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(model, to)
    return to


def lost_weight(model: Path) -> None:
    """One weight of 2.6 million is lost: a bit of its exponent is cleared, which leaves next to nothing of it."""
    _flip(model, 0x08)


def bit_flip(model: Path) -> None:
    """One weight of 2.6 million has the highest bit of its exponent set: the fault of a memory cell."""
    _flip(model, 0x40)


def _flip(model: Path, bit: int) -> None:
    header, start = _header(model)
    entry = header["model.layers.2.self_attn.o_proj.weight"]
    size = {"F32": 4, "BF16": 2, "F16": 2}[entry["dtype"]]
    at = start + entry["data_offsets"][0] + size * 4321
    file = model / "model.safetensors"
    data = bytearray(file.read_bytes())
    # the top byte holds the sign and the upper seven bits of the exponent in both F32 and BF16
    data[at + size - 1] ^= bit
    file.write_bytes(bytes(data))


def rope_base(model: Path) -> None:
    """Positions turn at another speed."""
    file = model / "config.json"
    config = json.loads(file.read_text())
    config["rope_theta"] = 500000.0
    file.write_text(json.dumps(config))


def swapped_layers(model: Path) -> None:
    """Layers 1 and 2 in each other's place."""
    file = model / "model.safetensors"
    data = file.read_bytes()
    header, start = _header(model)
    renamed = {
        name.replace("layers.1.", "layers.x.")
        .replace("layers.2.", "layers.1.")
        .replace("layers.x.", "layers.2."): entry
        for name, entry in header.items()
    }
    text = json.dumps(renamed).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + data[start:])


def _header(model: Path) -> tuple[dict[str, Any], int]:
    data = (model / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), 8 + length


DAMAGES: dict[str, Callable[[Path], None]] = {
    "lost-weight": lost_weight,
    "bit-flip": bit_flip,
    "rope-base": rope_base,
    "swapped-layers": swapped_layers,
}
