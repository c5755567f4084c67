"""Runs under the interpreter that has TensorRT-LLM: convert the smoke model, or answer prompts with the version's runner.

A file of its own (it is copied beside the model), Python 3.9, one JSON argument; the answer is the last line.
The import is by name so that nobody takes this for a part of the doctor's own process.
"""

import glob
import importlib
import json
import math
import os
import subprocess
import sys
from typing import Any

CONVERTERS = (
    "examples/models/core/llama/convert_checkpoint.py",
    "examples/llama/convert_checkpoint.py",
)
"""Where the script lies in a checkout: from 0.19 on, and before."""
CHECKOUTS = ("/app/tensorrt_llm", "/code/tensorrt_llm", "/opt/TensorRT-LLM", sys.prefix)
"""Where images and hosts keep the checkout; wheels have no examples."""


def main(spec: dict[str, Any]) -> dict[str, Any]:
    """Do what the specification says."""
    if spec["do"] == "version":
        from importlib import metadata

        return {"version": metadata.version("tensorrt_llm")}
    if spec["do"] == "convert":
        return convert(spec)
    return {"answers": (by_llm if spec["runner"] == "llm" else by_engine)(spec)}


def convert(spec: dict[str, Any]) -> dict[str, Any]:
    """With convert_checkpoint.py where it is, else with the calls it makes."""
    for root in CHECKOUTS:
        for name in CONVERTERS:
            path = os.path.join(root, name)
            if os.path.exists(path):
                argv = [sys.executable, path, "--model_dir", spec["model"]]
                argv += ["--output_dir", spec["output"], "--dtype", spec["dtype"]]
                subprocess.run(argv, check=True)
                return {"by": path}
    models = importlib.import_module("tensorrt_llm.models")
    llama = models.LLaMAForCausalLM.from_hugging_face(spec["model"], dtype=spec["dtype"])
    llama.save_checkpoint(spec["output"], save_config=True)
    return {"by": "LLaMAForCausalLM.from_hugging_face"}


def by_engine(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """ModelRunner over a TensorRT engine, built with generation logits: the log-probabilities are computed here."""
    torch = importlib.import_module("torch")
    runtime = importlib.import_module("tensorrt_llm.runtime")
    if not glob.glob(os.path.join(spec["built"], "*.engine")):
        raise SystemExit("%s holds no engine" % spec["built"])
    runner = runtime.ModelRunner.from_dir(engine_dir=spec["built"], rank=0)
    found = []
    for prompt in spec["prompts"]:
        with torch.no_grad():
            outputs = runner.generate(
                [torch.tensor(prompt, dtype=torch.int32)],
                max_new_tokens=spec["tokens"],
                end_id=-1,
                pad_id=0,
                temperature=1.0,
                top_k=1,
                num_beams=1,
                output_sequence_lengths=True,
                return_dict=True,
            )
        ids = outputs["output_ids"][0][0].tolist()[len(prompt) : len(prompt) + spec["tokens"]]
        logits = outputs["generation_logits"][0][0].float().cpu().tolist()
        found.append(
            {"ids": ids, "logprobs": [log_softmax(row, token) for row, token in zip(logits, ids)]}
        )
    return found


def by_llm(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The LLM API, whose PyTorch backend loads the model folder itself."""
    api = importlib.import_module("tensorrt_llm.llmapi")
    cache = api.KvCacheConfig(free_gpu_memory_fraction=spec["gpu_share"])
    model = api.LLM(model=spec["built"], tokenizer=spec["tokenizer"], kv_cache_config=cache)
    sampling = api.SamplingParams(
        max_tokens=spec["tokens"], temperature=0.0, ignore_eos=True, logprobs=1
    )
    outputs = model.generate(
        [{"prompt_token_ids": list(prompt)} for prompt in spec["prompts"]], sampling
    )
    found = []
    for output in outputs:
        best = output.outputs[0]
        ids = list(best.token_ids)
        logprobs = [chosen(item, token) for item, token in zip(best.logprobs, ids)]
        found.append({"ids": ids, "logprobs": logprobs})
    shutdown = getattr(model, "shutdown", None)
    if shutdown is not None:
        shutdown()
    return found


def chosen(item: Any, token: int) -> float:
    """A log-probability, given as a number or as {token: Logprob}."""
    value: Any = item[token] if isinstance(item, dict) else item
    number: Any = getattr(value, "logprob", value)
    return float(number)


def log_softmax(row: list[float], token: int) -> float:
    """The log-probability of one token."""
    top = max(row)
    return row[token] - top - math.log(sum(math.exp(value - top) for value in row))


if __name__ == "__main__":
    # the LLM API starts processes that import this file again: nothing may run then
    with open(sys.argv[1]) as file:
        print(json.dumps(main(json.load(file))), flush=True)
