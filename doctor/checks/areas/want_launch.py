"""--want launch: the words of a line or compose file, before it is run: options, values and lengths."""

from __future__ import annotations

import difflib
import re

from doctor.checks.areas.want_subject import Problem, concluded, engine_version, engines, wants
from doctor.checks.base import ERROR, WARN, Fix, Result, check, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.tree import Facts
from doctor.facts.versions import Pep440Version
from doctor.matrix import query, want_query
from doctor.matrix.model import EngineOption, OptionValues
from doctor.plan.launch import EngineCommand
from doctor.plan.want import ModelWant

NONE = "no launch line was asked for"
HELP = {"vllm serve": "vllm serve --help=all", "trtllm-serve": "trtllm-serve --help"}
PACKAGE = {"vllm serve": "vllm", "trtllm-serve": "tensorrt-llm"}


def _version(f: Facts, k: Knowledge, engine: EngineCommand) -> Pep440Version | None:
    return engine_version(f, k, engine, PACKAGE[engine.command])


@check(
    "want.launch-options",
    title="Every option exists in the release that will read it",
    severity=ERROR,
    reads=("python_env.environments",),
    sources=("pypi-vllm", "tensorrt-llm-trtllm-serve.html"),
    fix=Fix("change the line", command="vllm serve --help=all"),
)
def launch_options(f: Facts, k: Knowledge) -> Result:
    """Removed options with what replaces them, options that came later, and misspelt ones where the whole list is known."""
    asked = engines(k)
    if not asked:
        return skipped(NONE)
    problems, holes, fine = [], [], []
    for engine in asked:
        version = _version(f, k, engine)
        if version is None:
            holes.append(
                f"which release runs `{engine.command}` is not known: name it with --want {PACKAGE[engine.command]}==VERSION"
            )
            continue
        problems += [
            problem
            for name in engine.options
            if (problem := _option(k, engine, name, version)) is not None
        ]
        fine.append(f"{len(engine.options)} options of {engine.command} {version}")
    return concluded(problems, "; ".join(fine), holes)


def _option(
    k: Knowledge, engine: EngineCommand, name: str, version: Pep440Version
) -> Problem | None:
    rows = query.engine_options(k.matrix, engine.command, name)
    if any(_has(row, version) for row in rows):
        return None
    for row in rows:
        if row.gone_in is not None and version >= row.gone_in:
            instead = f": use {row.replaced_by}" if row.replaced_by else ": leave it out"
            return Problem(
                f"{name} is gone from {engine.command} {row.gone_in} on, {version} would read it{instead}",
                row.replaced_by or f"no {name}",
                HELP[engine.command],
                (row,),
            )
        if row.not_in is not None and row.since is not None and version <= row.not_in:
            return Problem(
                f"{name} came with {engine.command} {row.since}, {version} would read it",
                f"{PACKAGE[engine.command]}>={row.since}",
                HELP[engine.command],
                (row,),
            )
    if not rows and engine.command == "trtllm-serve":
        return _not_listed(k, engine, name, version)
    return None


def _has(row: EngineOption, version: Pep440Version) -> bool:
    return (row.since is None or row.since <= version) and (
        row.until is None or version <= row.until
    )


def _not_listed(
    k: Knowledge, engine: EngineCommand, name: str, version: Pep440Version
) -> Problem | None:
    """trtllm-serve's list is whole for the release it was read from; a near miss is a slip of the pen."""
    rows = want_query.options_of(k.matrix, engine.command)
    known = [alias for row in rows for alias in (row.name, *row.aliases)]
    near = difflib.get_close_matches(name, known, 1, 0.8)
    if not near:
        return None
    return Problem(
        f"{name} is no option of {engine.command} {version}: {near[0]} is meant",
        near[0],
        HELP[engine.command],
        tuple(row for row in rows if near[0] in (row.name, *row.aliases)),
    )


@check(
    "want.launch-values",
    title="Every option has a value that its release accepts",
    severity=ERROR,
    reads=("python_env.environments",),
    sources=("pypi-vllm", "tensorrt-llm-trtllm-serve.html"),
    fix=Fix("change the value", command="vllm serve --help=all"),
)
def launch_values(f: Facts, k: Knowledge) -> Result:
    """Fixed sets (block size, KV cache type, ...) and shares between 0 and 1."""
    asked = engines(k)
    if not asked:
        return skipped(NONE)
    problems, holes, fine = [], [], []
    for engine in asked:
        version = _version(f, k, engine)
        for name, value in engine.options.items():
            if value is None:
                continue
            problem = _share(engine, name, value)
            if problem is None and version is not None:
                problem = _value(k, engine, name, value, version)
                fine.append(f"{name} {value}")
            if problem is not None:
                problems.append(problem)
        if version is None:
            holes.append(
                f"which release runs `{engine.command}` is not known: name it with --want {PACKAGE[engine.command]}==VERSION"
            )
    return concluded(problems, ", ".join(fine) or "no option has a value", holes)


def _share(engine: EngineCommand, name: str, value: str) -> Problem | None:
    if name not in (
        "--gpu-memory-utilization",
        "--free_gpu_memory_fraction",
        "--kv_cache_free_gpu_memory_fraction",
    ):
        return None
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if 0 < share <= 1:
        return None
    return Problem(f"{name} {value} is no share", "above 0 and at most 1", HELP[engine.command])


def _value(
    k: Knowledge, engine: EngineCommand, name: str, value: str, version: Pep440Version
) -> Problem | None:
    row: OptionValues | None = query.option_values(k.matrix, engine.command, name, version)
    if row is not None:
        if row.values and not row.open_ended and value not in row.values:
            return Problem(
                f"{name} {value} is refused by {engine.command} {version}",
                f"one of {', '.join(row.values)}",
                HELP[engine.command],
                (row,),
            )
        if row.max_on_cuda is not None and value.isdigit() and int(value) > int(row.max_on_cuda):
            return Problem(
                f"{name} {value} is too large on CUDA in {engine.command} {version}",
                f"at most {row.max_on_cuda}",
                HELP[engine.command],
                (row,),
            )
        if row.interval == ">=1" and re.fullmatch(r"-?\d+", value) and int(value) < 1:
            return Problem(f"{name} {value} is below 1", "1 or more", HELP[engine.command], (row,))
        return None
    option = query.engine_option(k.matrix, engine.command, name, version)
    if (
        option is not None
        and option.values
        and value not in option.values
        and all(re.fullmatch(r"[\w.-]+", item) for item in option.values)
    ):
        return Problem(
            f"{name} {value} is refused by {engine.command} {version}",
            f"one of {', '.join(option.values)}",
            HELP[engine.command],
            (option,),
        )
    return None


@check(
    "want.launch-lengths",
    title="The lengths of the line agree with each other and with the model",
    severity=ERROR,
    reads=(),
    sources=("want-vllm-max-model-len",),
    fix=Fix(
        "bring the lengths into line",
        command="vllm serve MODEL --max-model-len N",
        kind="needs-argument",
    ),
)
def launch_lengths(f: Facts, k: Knowledge) -> Result:
    """max-model-len within the model's positions, and the batch no smaller than what must fit into it."""
    asked = [item for item in engines(k) if item.command == "vllm serve"]
    if not asked:
        return skipped(NONE if not engines(k) else "no vllm serve line")
    problems, fine = [], []
    models = wants(k, ModelWant)
    for engine in asked:
        length = engine.number("--max-model-len")
        batch, requests = engine.number("--max-num-batched-tokens"), engine.number("--max-num-seqs")
        model = next(
            (item.model for item in models if len(models) == 1 or item.path == engine.model), None
        )
        allowed = engine.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") in ("1", "true", "True")
        positions = model.max_positions if model is not None else None
        if length is not None and positions is not None and length > positions and not allowed:
            problems.append(
                Problem(
                    f"--max-model-len {length}, the model has {positions} positions",
                    f"at most {positions}",
                    f"vllm serve MODEL --max-model-len {positions}",
                )
            )
        if batch is not None and requests is not None and batch < requests:
            problems.append(
                Problem(
                    f"--max-num-batched-tokens {batch} is below --max-num-seqs {requests}",
                    f"at least {requests}",
                    None,
                )
            )
        if (
            engine.has("--no-enable-chunked-prefill")
            and batch is not None
            and length is not None
            and batch < length
        ):
            problems.append(
                Problem(
                    f"without chunked prefill --max-num-batched-tokens {batch} is below --max-model-len {length}",
                    f"at least {length}",
                    None,
                )
            )
        named = [
            f"{name} {engine.options[name]}"
            for name in ("--max-model-len", "--max-num-batched-tokens", "--max-num-seqs")
            if engine.has(name)
        ]
        fine.append(", ".join(named) or "the engine's own lengths")
    return concluded(problems, "; ".join(fine))


@check(
    "want.launch-api-key",
    title="The server asks for a key",
    severity=WARN,
    reads=(),
    sources=("want-vllm-security",),
    fix=Fix(
        "set a key in the environment and listen where it is needed",
        command='export VLLM_API_KEY="$(openssl rand -hex 32)"',
    ),
)
def launch_api_key(f: Facts, k: Knowledge) -> Result:
    """Without a key everybody who reaches the port may use the GPU; vLLM listens on every address unless told."""
    asked = [item for item in engines(k) if item.command == "vllm serve"]
    if not asked:
        return skipped(NONE if not engines(k) else "trtllm-serve has no key of its own")
    problems, fine = [], []
    for engine in asked:
        host = engine.options.get("--host")
        keyed = engine.has("--api-key") or "VLLM_API_KEY" in engine.env
        local = host in ("127.0.0.1", "localhost", "::1") and engine.container is None
        if not keyed and not local and not engine.has("--uds"):
            problems.append(
                Problem(
                    f"{engine.model or 'the model'} is served without a key on {host or 'every address'}",
                    "--api-key or VLLM_API_KEY, or --host 127.0.0.1",
                )
            )
        fine.append("a key is set" if keyed else f"it listens on {host or 'a socket file'} only")
    return concluded(problems, "; ".join(fine))
