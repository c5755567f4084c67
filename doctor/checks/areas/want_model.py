"""--want model:DIR: a model folder against the engine and the GPUs, from its JSON and headers only."""

from __future__ import annotations

import shlex

from doctor.checks.areas.want_subject import (
    Problem,
    capability,
    concluded,
    engine_version,
    engines,
    gib,
    name_of,
    opened,
    wants,
)
from doctor.checks.base import ERROR, WARN, Fix, Result, check, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.tree import Facts
from doctor.matrix import query
from doctor.plan.launch import EngineCommand
from doctor.plan.want import ModelWant

NONE = "no model folder was asked for"
DOWNLOAD = Fix(
    "download the model again", command="hf download MODEL --local-dir DIR", kind="needs-argument"
)


def _command(k: Knowledge, want: ModelWant) -> EngineCommand | None:
    """The launch that serves this model, else the only one."""
    found = [item for item in engines(k) if item.command == "vllm serve"]
    return next(
        (item for item in found if item.model == want.path), found[0] if len(found) == 1 else None
    )


@check(
    "want.model-architecture",
    title="The vLLM that will serve it knows the model",
    severity=ERROR,
    reads=("python_env.environments",),
    sources=("pypi-vllm",),
    fix=Fix("use a vLLM release that has the architecture", command="doctor plan --want model:DIR"),
)
def model_architecture(f: Facts, k: Knowledge) -> Result:
    """`architectures` of config.json against the first release that registers each."""
    asked = wants(k, ModelWant)
    if not asked:
        return skipped(NONE)
    problems, holes, fine, rows = [], [], [], []
    for want in asked:
        if not want.model.architectures:
            problems.append(
                Problem(
                    f"{want.path}: config.json names no architectures",
                    "architectures in config.json",
                    None,
                )
            )
            continue
        version = engine_version(f, k, _command(k, want), "vllm")
        command = f"doctor plan --want {shlex.quote('model:' + want.path)}"
        for name in want.model.architectures:
            row = query.model_architecture(k.matrix, name)
            if row is None:
                holes.append(f"the matrix does not know {name}")
            elif version is None:
                holes.append(
                    f"{name} is in vLLM from {row.first_vllm} on; which release will serve it is not known"
                )
            elif version < row.first_vllm or (
                row.last_vllm is not None and version > row.last_vllm
            ):
                until = f" to {row.last_vllm}" if row.last_vllm else ""
                problems.append(
                    Problem(
                        f"{name} is in vLLM from {row.first_vllm}{until}, {version} would serve it",
                        f"vllm>={row.first_vllm}",
                        command,
                        (row,),
                    )
                )
            else:
                fine.append(f"vLLM {version} knows {name} (from {row.first_vllm} on)")
                rows.append(row)
    return concluded(problems, "; ".join(fine), holes, rows)


@check(
    "want.model-shards",
    title="Every weight file is there and whole",
    severity=ERROR,
    reads=(),
    sources=("want-safetensors",),
    fix=DOWNLOAD,
)
def model_shards(f: Facts, k: Knowledge) -> Result:
    """The index names the files, each header says how long its file is."""
    asked = wants(k, ModelWant)
    if not asked:
        return skipped(NONE)
    problems, fine = [], []
    for want in asked:
        model = want.model
        command = f"hf download MODEL --local-dir {shlex.quote(want.path)}"
        if model.missing:
            problems.append(
                Problem(
                    f"{want.path} lacks {', '.join(model.missing[:3])}{' and more' if len(model.missing) > 3 else ''}",
                    "every file of the index",
                    command,
                )
            )
        problems += [
            Problem(f"{want.path}: {item}", "files as long as their headers say", command)
            for item in model.broken
        ]
        if not model.weight_files and not model.other_weights:
            problems.append(Problem(f"{want.path} holds no weights", "*.safetensors", command))
        fine.append(
            f"{want.path}: {model.weight_files} safetensors file(s), {gib(model.size)}, all whole"
        )
    return concluded(problems, "; ".join(fine))


@check(
    "want.model-pickle",
    title="The weights are safetensors",
    severity=WARN,
    reads=(),
    sources=("want-safetensors",),
    fix=Fix(
        "use the safetensors files of the model",
        command="hf download MODEL --include '*.safetensors' --local-dir DIR",
        kind="needs-argument",
    ),
)
def model_pickle(f: Facts, k: Knowledge) -> Result:
    """Pickled weights run code when they are loaded, and cannot be judged without loading them."""
    asked = wants(k, ModelWant)
    if not asked:
        return skipped(NONE)
    problems = [
        Problem(f"{item.path} has only {', '.join(item.model.other_weights[:3])}", "*.safetensors")
        for item in asked
        if not item.model.weight_files and item.model.other_weights
    ]
    return concluded(problems, "the weights are safetensors")


@check(
    "want.model-tokenizer",
    title="The tokenizer is there and agrees with itself",
    severity=ERROR,
    reads=(),
    sources=("want-tokenizer-vocab",),
    fix=DOWNLOAD,
)
def model_tokenizer(f: Facts, k: Knowledge) -> Result:
    """A tokenizer file, and one id for each added token in all files."""
    asked = wants(k, ModelWant)
    if not asked:
        return skipped(NONE)
    problems, fine = [], []
    for want in asked:
        model = want.model
        if not model.tokenizer_files:
            problems.append(
                Problem(f"{want.path} has no tokenizer", "tokenizer.json or tokenizer.model", None)
            )
        if model.tokenizer_problem:
            problems.append(
                Problem(
                    f"{want.path}: {model.tokenizer_problem}", "one id for each added token", None
                )
            )
        fine.append(f"{want.path} has {', '.join(model.tokenizer_files)}")
    return concluded(problems, "; ".join(fine))


@check(
    "want.model-tokens",
    title="Every token has a row in the embedding",
    severity=ERROR,
    reads=(),
    sources=("want-tokenizer-vocab",),
    fix=Fix(
        "resize the embedding to the tokenizer and save both",
        command="hf download MODEL --local-dir DIR",
        kind="needs-argument",
    ),
)
def model_tokens(f: Facts, k: Knowledge) -> Result:
    """The greatest token id is below vocab_size; ids above it read outside the embedding."""
    asked = wants(k, ModelWant)
    if not asked:
        return skipped(NONE)
    problems, holes, fine = [], [], []
    for want in asked:
        size, largest = want.model.vocab_size, want.model.largest_token
        if size is None or largest is None:
            holes.append(
                f"{want.path}: {'vocab_size' if size is None else 'the token ids'} could not be read"
            )
        elif largest >= size:
            problems.append(
                Problem(
                    f"{want.path}: token id {largest}, vocab_size {size}",
                    f"vocab_size of at least {largest + 1}",
                    None,
                )
            )
        else:
            fine.append(f"{want.path}: greatest token id {largest} of vocab_size {size}")
    return concluded(problems, "; ".join(fine), holes)


@check(
    "want.model-dtypes",
    title="The weights have one floating-point type",
    severity=WARN,
    reads=(),
    sources=("want-safetensors",),
    fix=Fix(
        "save the model in one type",
        command="hf download MODEL --local-dir DIR",
        kind="needs-argument",
    ),
)
def model_dtypes(f: Facts, k: Knowledge) -> Result:
    """bf16 beside fp16 is the mark of a merge that went wrong; small fp32 parts are usual."""
    asked = wants(k, ModelWant)
    if not asked:
        return skipped(NONE)
    problems, fine = [], []
    for want in asked:
        halves = {
            kind: count for kind, count in want.model.dtypes.items() if kind in ("F16", "BF16")
        }
        full = want.model.dtypes.get("F32", 0)
        shown = ", ".join(
            f"{kind} {gib(count)}" for kind, count in sorted(want.model.dtypes.items())
        )
        if len(halves) > 1:
            problems.append(Problem(f"{want.path} mixes {shown}", "one of BF16 and F16", None))
        elif halves and full > sum(halves.values()):
            problems.append(
                Problem(
                    f"{want.path} is mostly F32 beside {', '.join(halves)}: {shown}",
                    "one type",
                    None,
                )
            )
        fine.append(f"{want.path}: {shown or 'no floating-point weights'}")
    return concluded(problems, "; ".join(fine))


@check(
    "want.model-fits",
    title="The model fits into the memory that is free",
    severity=ERROR,
    reads=("nvml.gpus",),
    sources=("want-vllm-free-memory",),
    fix=Fix(
        "free the GPUs, spread the model over more of them, or take a smaller or quantized model",
        command="nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
    ),
)
def model_fits(f: Facts, k: Knowledge) -> Result:
    """Weights over the GPUs it is spread on, against the share that the engine may take of each."""
    asked = wants(k, ModelWant)
    if not asked:
        return skipped(NONE)
    problems, holes, fine = [], [], []
    for want in asked:
        command = _command(k, want)
        spread = command.gpus if command is not None else 1
        gpus = opened(f)
        if not want.model.size:
            holes.append(f"{want.path}: the size of its weights is not known")
            continue
        if spread > len(gpus):
            continue  # want.launch-parallel says so
        for gpu in gpus[:spread]:
            share, usable = _usable(k, f, command, gpu.memory_total.value, gpu.memory_free.value)
            each = want.model.size / spread
            if each > usable:
                problems.append(
                    Problem(
                        f"{want.path} needs {gib(each)} on {name_of(gpu)}, which has {gib(usable)} for it ({gib(gpu.memory_free.value)} free, share {share})",
                        f"at least {gib(each)} beside the KV cache",
                        None,
                    )
                )
            else:
                fine.append(
                    f"{gib(each)} of {gib(usable)} on {name_of(gpu)}, {gib(usable - each)} left for the KV cache"
                )
    return concluded(problems, "; ".join(fine) or "nothing to compare", holes)


def _usable(
    k: Knowledge, f: Facts, command: EngineCommand | None, total: int, free: int
) -> tuple[float, float]:
    """The engine's share of a GPU, capped by what is free."""
    from doctor.checks.areas.want_place import memory_share

    share = memory_share(f, k, command)
    return share, min(free, share * total)


@check(
    "want.model-fp8",
    title="These GPUs compute in the model's number format",
    severity=WARN,
    reads=("nvml.gpus",),
    sources=("vllm-readme",),
    fix=Fix(
        "expect weight-only FP8, or take a model in another format",
        command="doctor explain want.model-fp8",
    ),
)
def model_fp8(f: Facts, k: Knowledge) -> Result:
    """FP8 on GPUs without FP8 tensor cores is weight-only at best."""
    asked = [item for item in wants(k, ModelWant) if item.model.is_fp8]
    if not asked:
        return skipped(NONE if not wants(k, ModelWant) else "the model does not use FP8")
    rule = k.matrix.statement("gpu_rules", "gpu.fp8")
    listed = rule.names if rule is not None else ()
    problems = [
        Problem(
            f"{want.path} is FP8, {name_of(gpu)} has compute capability {capability(gpu)}",
            f"one of {', '.join(listed)}",
            None,
            (rule,),
        )
        for want in asked
        for gpu in opened(f)
        if capability(gpu).raw not in listed
    ]
    return concluded(problems, "every GPU has FP8 tensor cores", rows=(rule,))
