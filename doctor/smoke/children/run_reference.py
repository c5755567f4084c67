"""Runs under an interpreter that has transformers: greedy tokens and log-probabilities of the smoke model on the CPU in float32.

Argument: a JSON file {folder, prompts, tokens, top, embed, out}. Writes `out`: {"answers": [{ids, logprobs, top, margins}], "seconds", "versions"},
or {"embeddings": [...]} with embed. The engine's code takes no part in it.
"""

import importlib
import json
import os
import sys
import time
from typing import Any, Dict, List


def main(argv: List[str]) -> None:
    """Compute and write."""
    started = time.monotonic()
    with open(argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # by name: this file lies in a package that itself must never need them
    torch = importlib.import_module("torch")
    transformers = importlib.import_module("transformers")
    torch.set_num_threads(int(spec.get("threads", 1)))
    imported = time.monotonic()
    model = (
        transformers.AutoModelForCausalLM.from_pretrained(
            spec["folder"], attn_implementation="eager", local_files_only=True
        )
        .float()
        .eval()
    )
    said: Dict[str, Any] = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__}
    }
    with torch.no_grad():
        if spec.get("embed"):
            said["embeddings"] = [embedding(torch, model, prompt) for prompt in spec["prompts"]]
        else:
            said["answers"] = [
                answer(torch, model, prompt, spec["tokens"], spec["top"])
                for prompt in spec["prompts"]
            ]
    said["seconds"] = {
        "imports": round(imported - started, 2),
        "all": round(time.monotonic() - started, 2),
    }
    part = spec["out"] + ".part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(said, file)
    os.replace(part, spec["out"])


def answer(
    torch: Any, model: Any, prompt: List[int], tokens: int, top: int
) -> Dict[str, List[Any]]:
    """Greedy, one token at a time over the whole prefix: no cache that could hide a fault."""
    ids = list(prompt)
    found: Dict[str, List[Any]] = {"ids": [], "logprobs": [], "top": [], "margins": []}
    for _ in range(tokens):
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1].double()
        scores = torch.log_softmax(logits, dim=-1)
        best = torch.topk(scores, max(2, top))
        chosen = int(best.indices[0])
        found["ids"].append(chosen)
        found["logprobs"].append(float(best.values[0]))
        found["margins"].append(float(best.values[0] - best.values[1]))
        found["top"].append({str(int(i)): float(v) for i, v in zip(best.indices, best.values)})
        ids.append(chosen)
    return found


def embedding(torch: Any, model: Any, prompt: List[int]) -> List[float]:
    """The last token's last hidden state, scaled to length one."""
    state = model.model(torch.tensor([prompt]), use_cache=False).last_hidden_state[0, -1].double()
    return [float(value) for value in state / state.norm()]


if __name__ == "__main__":
    main(sys.argv)
