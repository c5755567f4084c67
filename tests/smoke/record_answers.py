"""Run by hand under an interpreter with numpy, torch and transformers: records what damaged smoke models answer along the reference.

    python tests/smoke/record_answers.py tests/smoke/answers

Each file holds, per prompt and position of the reference, the best candidates and their log-probabilities.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CHILDREN = HERE.parents[1] / "doctor" / "smoke" / "children"
SHAPES = {"llama": ("LlamaForCausalLM", 2), "qwen3": ("Qwen3ForCausalLM", 3)}


def main(out: Path) -> None:
    """Write one file per shape."""
    damage = _module(HERE / "damage.py")
    for shape, (architecture, seed) in SHAPES.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            spec = {
                "folder": str(folder),
                "architecture": architecture,
                "dtype": "float32",
                "seed": seed,
            }
            said = json.loads(_child("write_tiny_model", spec, scratch).splitlines()[-1])
            asked = {
                "folder": str(folder),
                "prompts": said["prompts"],
                "tokens": 16,
                "top": 5,
                "out": f"{scratch}/r.json",
            }
            _child("run_reference", asked, scratch)
            reference = json.loads(Path(f"{scratch}/r.json").read_text())
            found = {"said": said, "reference": reference, "along": {}}
            found["along"]["whole"] = along(folder, said["prompts"], reference, "float32")
            found["along"]["whole-bfloat16"] = along(folder, said["prompts"], reference, "bfloat16")
            for name, hurt in damage.DAMAGES.items():
                copy = damage.copy(folder, Path(scratch) / name)
                hurt(copy)
                found["along"][name] = along(copy, said["prompts"], reference, "float32")
                found["along"][f"{name}-bfloat16"] = along(
                    copy, said["prompts"], reference, "bfloat16"
                )
            (out / f"{shape}.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")


def along(
    folder: Path, prompts: list[list[int]], reference: dict, dtype: str
) -> list[list[dict[str, float]]]:
    """The best candidates at each position, given the reference's tokens before it."""
    torch = importlib.import_module("torch")
    transformers = importlib.import_module("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=getattr(torch, dtype)
    ).eval()
    found = []
    for prompt, answer in zip(prompts, reference["answers"], strict=True):
        ids = torch.tensor([prompt + answer["ids"]])
        with torch.no_grad():
            scores = torch.log_softmax(model(ids).logits[0].double(), dim=-1)
        rows = scores[len(prompt) - 1 : -1]
        best = [torch.topk(row, 5) for row in rows]
        found.append(
            [
                {str(int(i)): round(float(v), 6) for i, v in zip(b.indices, b.values, strict=True)}
                for b in best
            ]
        )
    return found


def _child(name: str, spec: dict, scratch: str) -> str:
    argument = Path(scratch) / "spec.json"
    argument.write_text(json.dumps(spec))
    argv = [sys.executable, str(CHILDREN / f"{name}.py"), str(argument)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def _module(file: Path):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(Path(sys.argv[1]))
