"""A stand-in for TensorRT-LLM: an environment whose tools refuse what the real release does not have."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CONVERTER = """import json, sys
sys.path.insert(0, {tools!r})
from library import LLaMAForCausalLM
args = dict(zip(sys.argv[1::2], sys.argv[2::2]))
unknown = set(args) - {{"--model_dir", "--output_dir", "--dtype"}}
if unknown:
    sys.exit(f"convert_checkpoint.py: error: unrecognized arguments: {{unknown}}")
LLaMAForCausalLM.from_hugging_face(args["--model_dir"], args["--dtype"]).save_checkpoint(args["--output_dir"])
"""
TORCH = """import contextlib
int32 = "int32"
def tensor(values, dtype=None): return list(values)
no_grad = contextlib.nullcontext
"""


def make(folder: Path, version: str, *, converter: str | None = None) -> Path:
    """An environment with that release; its Python. `converter`: where in a checkout the conversion script lies."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    tools = folder / "standin"
    tools.mkdir()
    for name in ("tool.py", "library.py", "options.json"):
        shutil.copy(HERE / name, tools / name)
    (tools / "RELEASE").write_text(version)
    names = ["trtllm-build"]
    if tuple(map(int, version.split(".")[:2])) >= (0, 15):
        names.append("trtllm-serve")
    for name in names:
        function = name.removeprefix("trtllm-")
        script = f"import sys\nsys.path.insert(0, {str(tools)!r})\nimport tool\ntool.{function}()\n"
        (folder / "bin" / name).write_text(f"#!{python}\n{script}")
        (folder / "bin" / name).chmod(0o755)
    site = next((folder / "lib").glob("python3*")) / "site-packages"
    package = site / "tensorrt_llm"
    package.mkdir()
    shutil.copy(HERE / "library.py", package / "_library.py")
    (package / "__init__.py").write_text(f"__version__ = {version!r}\n")
    parts = {"models": "LLaMAForCausalLM", "runtime": "ModelRunner"}
    if version.startswith("1."):
        parts["llmapi"] = "LLM, Settings as KvCacheConfig, Settings as SamplingParams"
    for name, what in parts.items():
        (package / f"{name}.py").write_text(f"from tensorrt_llm._library import {what}\n")
    (site / "torch.py").write_text(TORCH)
    info = site / f"tensorrt_llm-{version}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: tensorrt_llm\nVersion: {version}\n"
    (info / "METADATA").write_text(metadata)
    if converter is not None:
        path = folder / converter
        path.parent.mkdir(parents=True)
        path.write_text(CONVERTER.format(tools=str(tools)))
    return python


def calls(python: Path) -> list[tuple[str, dict[str, str], list[str]]]:
    """What the tools were called with: name, options, positional arguments."""
    log = python.parents[1] / "standin" / "calls.log"
    lines: list[Any] = [json.loads(line) for line in log.read_text().splitlines()]
    return [(name, options, rest) for name, options, rest in lines]
