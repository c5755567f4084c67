"""--want engine:DIR: a TensorRT-LLM engine against this host. An engine runs where it was built for, on what built it."""

from __future__ import annotations

import shlex

from doctor.checks.areas.want_subject import (
    Problem,
    capability,
    concluded,
    engine_version,
    engines,
    name_of,
    opened,
    wants,
)
from doctor.checks.base import ERROR, WARN, Fix, Result, check, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.tree import Facts
from doctor.facts.versions import Pep440Version
from doctor.matrix import query
from doctor.plan.launch import EngineCommand
from doctor.plan.want import EngineWant

NONE = "no engine folder was asked for"
REBUILD = Fix(
    "build the engine on this host, with the TensorRT-LLM that will run it",
    command="trtllm-build --checkpoint_dir CHECKPOINT --output_dir ENGINE",
    kind="needs-argument",
)
ENVIRONMENTS = ("python_env.environments",)


def _rebuild(path: str) -> str:
    return f"trtllm-build --checkpoint_dir CHECKPOINT --output_dir {shlex.quote(path)}"


def _server(k: Knowledge) -> EngineCommand | None:
    return next((item for item in engines(k) if item.command == "trtllm-serve"), None)


@check(
    "want.engine-capability",
    title="The engine was built for these GPUs",
    severity=ERROR,
    reads=("nvml.gpus",),
    sources=("want-tensorrt-support-matrix", "want-engine-device"),
    fix=REBUILD,
)
def engine_capability(f: Facts, k: Knowledge) -> Result:
    """Without hardware compatibility an engine runs on its own compute capability only."""
    asked = wants(k, EngineWant)
    if not asked:
        return skipped(NONE)
    problems, holes, fine = [], [], []
    for want in asked:
        built = want.engine.capability
        if built is None:
            holes.append(
                f"{want.path}: config.json does not say which compute capability it was built for"
            )
            continue
        for gpu in opened(f):
            have = capability(gpu)
            if have.raw != built:
                problems.append(
                    Problem(
                        f"{want.path} was built for compute capability {built}, {name_of(gpu)} is {have}",
                        f"compute capability {have}",
                        _rebuild(want.path),
                    )
                )
        fine.append(f"{want.path} was built for compute capability {built}, which every GPU has")
    return concluded(problems, "; ".join(fine), holes)


@check(
    "want.engine-version",
    title="The engine runs on the TensorRT-LLM that built it",
    severity=ERROR,
    reads=ENVIRONMENTS,
    sources=("want-tensorrt-engine-compatibility",),
    fix=REBUILD,
)
def engine_release(f: Facts, k: Knowledge) -> Result:
    """The plugin library is TensorRT-LLM's own: engine and runtime are one version."""
    asked = wants(k, EngineWant)
    if not asked:
        return skipped(NONE)
    problems, holes, fine = [], [], []
    server = _server(k)
    for want in asked:
        built = Pep440Version.maybe(want.engine.tensorrt_llm or "")
        runs = engine_version(f, k, server, "tensorrt-llm")
        if built is None:
            holes.append(f"{want.path}: config.json does not say which TensorRT-LLM built it")
        elif runs is None:
            holes.append(
                f"which TensorRT-LLM will run {want.path} is not known: name it with --want tensorrt-llm==VERSION"
            )
        elif runs.public != built.public:
            problems.append(
                Problem(
                    f"{want.path} was built by TensorRT-LLM {built}, {runs} would run it",
                    f"tensorrt-llm=={built}",
                    _rebuild(want.path),
                )
            )
        else:
            fine.append(f"{want.path} was built by TensorRT-LLM {built}, which runs it")
    return concluded(problems, "; ".join(fine), holes)


@check(
    "want.engine-tensorrt",
    title="The engine's TensorRT is the runtime's",
    severity=ERROR,
    reads=ENVIRONMENTS,
    sources=("want-tensorrt-engine-compatibility", "want-engine-library"),
    fix=REBUILD,
)
def engine_tensorrt(f: Facts, k: Knowledge) -> Result:
    """By default an engine is read only by the exact TensorRT version that built it."""
    asked = wants(k, EngineWant)
    if not asked:
        return skipped(NONE)
    problems, holes, fine, rows = [], [], [], []
    for want in asked:
        row = (
            query.tensorrt_llm(k.matrix, want.engine.tensorrt_llm)
            if Pep440Version.maybe(want.engine.tensorrt_llm or "") and want.engine.tensorrt_llm
            else None
        )
        built = want.engine.tensorrt or (
            str(row.tensorrt) if row is not None and row.tensorrt is not None else None
        )
        have = sorted(
            {
                item.packages["tensorrt"]
                for item in f.python_env.environments.value
                if "tensorrt" in item.packages
            }
        )
        if built is None:
            holes.append(
                f"{want.path}: neither config.json nor the matrix says which TensorRT built it"
            )
        elif not have:
            holes.append(
                f"no environment here has TensorRT to run {want.path} (built with {built})"
            )
        elif not any(_same(item, built) for item in have):
            problems.append(
                Problem(
                    f"{want.path} was built with TensorRT {built}, here is {', '.join(have)}",
                    f"TensorRT {built}",
                    _rebuild(want.path),
                    (row,) if row else (),
                )
            )
        else:
            fine.append(f"{want.path} was built with TensorRT {built}, which is here")
            rows += [row] if row is not None else []
    return concluded(problems, "; ".join(fine), holes, rows)


def _same(have: str, built: str) -> bool:
    """10.14.1.48 of a wheel is 10.14.1 of a release note."""
    one, other = have.split("."), built.split(".")
    length = min(len(one), len(other))
    return one[:length] == other[:length] and length >= 2


@check(
    "want.engine-fp8",
    title="These GPUs have the engine's number format",
    severity=ERROR,
    reads=("nvml.gpus",),
    sources=("tensorrt-llm-support-matrix",),
    fix=Fix(
        "build the engine without FP8, or use an Ada, Hopper or Blackwell GPU",
        command="trtllm-build --checkpoint_dir CHECKPOINT --output_dir ENGINE",
        kind="needs-argument",
    ),
)
def engine_fp8(f: Facts, k: Knowledge) -> Result:
    """FP8 needs tensor cores that have it."""
    asked = [item for item in wants(k, EngineWant) if item.engine.is_fp8]
    if not asked:
        return skipped(NONE if not wants(k, EngineWant) else "the engine does not use FP8")
    rule = k.matrix.statement("gpu_rules", "gpu.fp8")
    problems = []
    listed = rule.names if rule is not None else ()
    for want in asked:
        for gpu in opened(f):
            have = capability(gpu)
            if have.raw not in listed:
                problems.append(
                    Problem(
                        f"{want.path} uses FP8, {name_of(gpu)} has compute capability {have}",
                        f"one of {', '.join(listed)}",
                        None,
                        (rule,),
                    )
                )
    return concluded(problems, "every GPU has FP8 tensor cores", rows=(rule,))


@check(
    "want.engine-files",
    title="The engine has a file for every rank, and every rank a GPU",
    severity=ERROR,
    reads=("nvml.gpus",),
    sources=("tensorrt-llm-trtllm-build.html",),
    fix=REBUILD,
)
def engine_files(f: Facts, k: Knowledge) -> Result:
    """World size of the build against the files and the GPUs that are here."""
    asked = wants(k, EngineWant)
    if not asked:
        return skipped(NONE)
    problems, fine = [], []
    for want in asked:
        engine = want.engine
        ranks = engine.world_size or 1
        if engine.missing_ranks:
            problems.append(
                Problem(
                    f"{want.path} lacks {', '.join(engine.missing_ranks[:4])}",
                    f"{ranks} rank files",
                    _rebuild(want.path),
                )
            )
        here = len(opened(f))
        if ranks > here:
            problems.append(
                Problem(
                    f"{want.path} was built for {ranks} GPUs, here are {here}",
                    f"{ranks} GPUs, or an engine for {here}",
                    _rebuild(want.path),
                )
            )
        fine.append(
            f"{want.path} has {ranks} rank file{'s' if ranks > 1 else ''} for {here} GPU{'s' if here > 1 else ''}"
        )
    return concluded(problems, "; ".join(fine))


@check(
    "want.engine-paged-kv",
    title="The engine has a paged KV cache",
    severity=WARN,
    reads=(),
    sources=("tensorrt-llm-trtllm-build.html",),
    fix=Fix(
        "build it with a paged KV cache",
        command="trtllm-build --checkpoint_dir CHECKPOINT --kv_cache_type paged --output_dir ENGINE",
        kind="needs-argument",
    ),
)
def engine_paged(f: Facts, k: Knowledge) -> Result:
    """In-flight batching needs one; without it requests wait for each other."""
    asked = wants(k, EngineWant)
    if not asked:
        return skipped(NONE)
    holes = [
        f"{item.path}: config.json does not say how the KV cache is kept"
        for item in asked
        if item.engine.paged_kv_cache is None
    ]
    problems = [
        Problem(f"{item.path} keeps its KV cache contiguous", "a paged KV cache")
        for item in asked
        if item.engine.paged_kv_cache is False
    ]
    return concluded(problems, "the KV cache is paged", holes)


@check(
    "want.engine-lengths",
    title="The engine takes what the server promises",
    severity=ERROR,
    reads=(),
    sources=("tensorrt-llm-trtllm-build.html", "tensorrt-llm-trtllm-serve.html"),
    fix=Fix(
        "start the server with the engine's own lengths, or build the engine for longer ones",
        command="trtllm-serve ENGINE --max_seq_len N",
        kind="needs-argument",
    ),
)
def engine_lengths(f: Facts, k: Knowledge) -> Result:
    """max_input_len, max_seq_len and max_batch_size of the build against those of the server's line."""
    asked, server = wants(k, EngineWant), _server(k)
    if not asked or server is None:
        return skipped(NONE if not asked else "no trtllm-serve line was given to compare with")
    problems, fine = [], []
    for want in asked:
        for option, built in (
            ("--max_input_len", want.engine.max_input_len),
            ("--max_seq_len", want.engine.max_seq_len),
            ("--max_batch_size", want.engine.max_batch_size),
        ):
            told = server.number(option)
            if told is None or built is None:
                continue
            if told > built:
                problems.append(
                    Problem(
                        f"the server is started with {option} {told}, {want.path} was built for {built}",
                        f"{option} of at most {built}",
                        f"trtllm-serve {shlex.quote(want.path)} {option} {built}",
                    )
                )
            fine.append(f"{option} {told} of {built}")
    return concluded(
        problems, ", ".join(fine) or "the server's line names no lengths: the engine's own hold"
    )
