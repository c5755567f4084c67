"""Runs the rungs driver, cuda and nccl on a real GPU host, healthy and under one real fault at a time; prints one JSON object.

    python3 tests/smoke/gpu/run_rungs.py [--faults base,stub,...] [--raw]

From a checkout, as root for the fault `uvm`. With msgspec, PyYAML, packaging and distro importable the rungs themselves
run; without them, or with --raw, only their children do, which need nothing but the standard library.
"""

import argparse
import glob
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FAULTS = ("base", "stub", "compat", "visible", "uvm", "p2p-off", "shm")
NEEDED = ("msgspec", "yaml", "packaging", "distro")
LIMIT_S = 240
BOOT = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "import importlib; importlib.import_module(sys.argv[1]).main(sys.argv[3:])"
)


def main() -> None:
    """Under every fault, this script again in a process that has it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--raw", action="store_true", help="the children only")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    raw = options.raw or any(importlib.util.find_spec(name) is None for name in NEEDED)
    if options.here:
        print(json.dumps(children() if raw else rungs()))
        return
    found: dict[str, Any] = {"python": platform.python_version(), "raw": raw}
    for name in options.faults.split(","):
        started = time.monotonic()
        found[name] = under(name, raw)
        found[name]["seconds"] = round(time.monotonic() - started, 2)
    print(json.dumps(found, indent=1))


def under(name: str, raw: bool) -> "dict[str, Any]":
    """The answers under one fault, which ends with the process that has it."""
    argv = [sys.executable, os.path.abspath(__file__), "--here"] + ["--raw"] * raw
    env = dict(os.environ)
    if name == "stub":
        stubs = glob.glob("/usr/local/cuda/targets/*/lib/stubs/libcuda.so")
        if not stubs:
            return {"error": "no stub library here"}
        folder = tempfile.mkdtemp(prefix="run-rungs-", dir="/tmp")
        os.chmod(folder, 0o755)
        os.symlink(stubs[0], os.path.join(folder, "libcuda.so.1"))
        first(env, folder)
    elif name == "compat":
        first(env, "/usr/local/cuda/compat")
    elif name == "visible":
        env["CUDA_VISIBLE_DEVICES"] = "7"
    elif name == "p2p-off":
        env["NCCL_P2P_DISABLE"] = "1"
    elif name == "uvm":
        file = tempfile.NamedTemporaryFile(prefix="run-rungs-").name  # noqa: SIM115
        open(file, "w").close()
        script = 'mount --bind "$0" /dev/nvidia-uvm && exec "$@"'
        argv = ["unshare", "-m", "sh", "-c", script, file, *argv]
    elif name == "shm":
        env.update({"NCCL_P2P_DISABLE": "1", "NCCL_CUMEM_HOST_ENABLE": "0"})
        script = 'mount -t tmpfs -o size=4m tmpfs /dev/shm && exec "$@"'
        argv = ["unshare", "-m", "sh", "-c", script, "sh", *argv]
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    try:
        answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {
            "error": "exit %s" % ran.returncode,
            "said": ran.stdout[-2000:] + ran.stderr[-3000:],
        }
    return answer


def first(env: "dict[str, str]", folder: str) -> None:
    """Put a folder first in LD_LIBRARY_PATH."""
    env["LD_LIBRARY_PATH"] = folder + ":" + env.get("LD_LIBRARY_PATH", "")


def rungs() -> "dict[str, Any]":
    """Check the host, then climb the three rungs as `doctor smoke --level nccl` does."""
    sys.path.insert(0, ROOT)
    from datetime import datetime, timezone
    from pathlib import Path

    import msgspec

    from doctor import engine
    from doctor.checks.knowledge import Knowledge
    from doctor.facts.tree import decode
    from doctor.probes.live import LiveSource
    from doctor.smoke.context import Context, Options
    from doctor.smoke.pipeline import climb, stages_up_to

    today = datetime.now(timezone.utc).date()
    source = LiveSource()
    started = time.monotonic()
    report = engine.check(source, engine.Options(as_of=today))
    checked = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="run-rungs-"))
    events: list[Any] = []
    ctx = Context(
        folder=folder,
        source=source,
        facts=decode(report.facts),
        report=report,
        knowledge=Knowledge(today),
        options=Options(level="nccl"),
        emit=events.append,
    )
    climbed = climb(stages_up_to("nccl"), ctx)
    return {
        "check_ms": int((checked - started) * 1000),
        "verdict": report.verdict,
        "next": report.next.id if report.next else None,
        "user": ctx.user.name,
        "climbed": msgspec.to_builtins(climbed),
        "memory": memory(),
    }


def children() -> "dict[str, Any]":
    """The children alone: driver API, then NCCL with each copy that is here."""
    answers: dict[str, Any] = {}
    answers["cuda-list"] = child("cuda_probe", "list")
    gpus = [line for line in answers["cuda-list"]["lines"] if "gpu" in line]
    for line in gpus:
        answers["cuda-gpu%d" % line["gpu"]] = child("cuda_probe", "gpu", str(line["gpu"]))
    if len(gpus) > 1:
        answers["cuda-peers"] = child("cuda_probe", "peers")
    for path in copies() if gpus else []:
        answers["nccl " + path] = child("nccl_probe", path, str(1 << 30))
    answers["memory"] = memory()
    return answers


def copies() -> "list[str]":
    """Copies of NCCL: the system's and those of wheels in the usual places."""
    found = glob.glob("/usr/lib/*/libnccl.so.2") + glob.glob("/usr/lib64/libnccl.so.2")
    for start in ("/opt/*/.venv", "/opt/*", "/usr/local", "/root/.venv", sys.prefix):
        pattern = start + "/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2"
        found += glob.glob(pattern)
    return list(dict.fromkeys(os.path.realpath(path) for path in found))


def child(module: str, *arguments: str) -> "dict[str, Any]":
    """One child, its lines, wall time and how it ended."""
    argv = [sys.executable, "-I", "-S", "-B", "-c", BOOT, "doctor.smoke.children." + module, ROOT]
    env = dict(os.environ, CUDA_CACHE_DISABLE="1")
    started = time.monotonic()
    try:
        ran = subprocess.run(argv + list(arguments), env=env, capture_output=True, timeout=120)
        rc, out, err = ran.returncode, ran.stdout, ran.stderr
    except subprocess.TimeoutExpired as late:
        rc, out, err = None, late.stdout or b"", late.stderr or b""
    lines = []
    for line in out.decode("utf-8", "replace").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            lines.append({"text": line})
    seconds = round(time.monotonic() - started, 3)
    return {
        "rc": rc,
        "seconds": seconds,
        "lines": lines,
        "stderr": err.decode(errors="replace")[-2000:],
    }


def memory() -> str:
    """What is left on the GPUs."""
    argv = ["nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader"]
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


if __name__ == "__main__":
    main()
