"""The stand-in's package tensorrt_llm: the few names that the guest script asks of each release."""

import json
import math
import types
from pathlib import Path

VOCABULARY = 512
HERE = Path(__file__).parent


def tokens(prompt, count):
    return [(sum(prompt) + 7 * place) % 500 + 4 for place in range(count)]


class LLaMAForCausalLM:
    """Reads config.json of a Hugging Face folder; writes a checkpoint."""

    @classmethod
    def from_hugging_face(cls, hf_model_or_dir, dtype="float16", mapping=None, **kwargs):
        found = cls()
        found.config = json.loads((Path(hf_model_or_dir) / "config.json").read_text())
        found.dtype = dtype
        return found

    def save_checkpoint(self, output_dir, save_config=True):
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        config = {"architecture": self.config["architectures"][0], "dtype": self.dtype}
        (Path(output_dir) / "config.json").write_text(json.dumps(config))
        (Path(output_dir) / "rank0.safetensors").write_bytes(b"")


class Array(list):
    """As much of a tensor as is asked for."""

    def tolist(self):
        return self

    def float(self):
        return self

    cpu = float


class ModelRunner:
    """The Python session."""

    @classmethod
    def from_dir(cls, engine_dir, *, lora_dir=None, rank=0, debug_mode=False, **kwargs):
        found = cls()
        found.config = json.loads((Path(engine_dir) / "config.json").read_text())["build_config"]
        return found

    def generate(self, batch_input_ids, **sampling):
        if "--gather_generation_logits" not in self.config:
            raise KeyError("generation_logits")
        prompt, count = list(batch_input_ids[0]), sampling["max_new_tokens"]
        ids = tokens(prompt, count)
        rows = [[math.log(3.0) if n == token else 0.0 for n in range(VOCABULARY)] for token in ids]
        return {
            "output_ids": [[Array(prompt + ids)]],
            "generation_logits": [[Array(rows)]],
        }


class Settings:
    def __init__(self, **values):
        self.__dict__.update(values)


class LLM:
    """The LLM API of 1.0 and newer."""

    def __init__(self, model, tokenizer=None, kv_cache_config=None, **kwargs):
        if not (Path(model) / "config.json").exists() or (Path(model) / "rank0.engine").exists():
            raise ValueError(f"{model} is no model folder")

    def generate(self, inputs, sampling):
        found = []
        for item in inputs:
            ids = tokens(item["prompt_token_ids"], sampling.max_tokens)
            nats = math.log(3.0 / (3.0 + VOCABULARY - 1))
            logprobs = [{token: types.SimpleNamespace(logprob=nats, rank=1)} for token in ids]
            best = types.SimpleNamespace(token_ids=ids, logprobs=logprobs)
            found.append(types.SimpleNamespace(outputs=[best]))
        return found
