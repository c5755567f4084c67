"""Python environments: what is installed fits the host, the interpreter and itself.

Pins are in python_pins.
"""

from __future__ import annotations

import shlex

from doctor.checks.areas.environments import (
    ENGINES,
    each,
    engine_of,
    environments,
    having,
    holds,
    pip,
    version,
)
from doctor.checks.areas.presence import DRIVER_LADDER, HAS_GPU, has_gpu
from doctor.checks.base import (
    ERROR,
    INFO,
    WARN,
    Fix,
    Result,
    check,
    failed,
    passed,
    skipped,
)
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.python_env import Environment
from doctor.facts.model import Absent
from doctor.facts.tree import Facts
from doctor.facts.versions import GlibcVersion, Pep440Version
from doctor.matrix import query
from doctor.matrix.model import Row, Torch, Vllm

ENVIRONMENTS = "python_env.environments"


@check(
    "python.glibc-too-old",
    title="The C library is new enough for the installed wheels",
    severity=ERROR,
    reads=(ENVIRONMENTS, "host.glibc"),
    sources=("python-glibc-report", "python-manylinux", "python-pypi-vllm"),
    fix=Fix(
        say="run the engine in its official container image, move the host to a newer release "
        "of its distribution, "
        "or install a release of the package built for an older C library; never replace glibc "
        "in place",
        command="docker pull vllm/vllm-openai",
        kind="needs-argument",
    ),
)
def _glibc(f: Facts, k: Knowledge) -> Result:
    """By the wheel's tag, and by the floor of the release on PyPI where the tag promises less."""
    needs: dict[str, tuple[GlibcVersion, Row | None]] = {}

    def add(text: str, need: GlibcVersion, row: Row | None) -> None:
        if text not in needs or need > needs[text][0]:
            needs[text] = need, row

    for item in environments(f):
        for name, tag in sorted(item.glibc_tags.items()):
            text = f"{name} {item.packages.get(name, '')} ({item.path})"
            add(text, version(GlibcVersion, tag, ENVIRONMENTS), None)
        for name in ("vllm", "torch"):
            row = _release_row(k, name, item.packages.get(name))
            if row is not None and row.glibc is not None:
                add(f"{name} {item.packages[name]} ({item.path})", row.glibc, row)
    if not needs:
        return skipped("no installed wheel names a C library")
    host = version(GlibcVersion, f.host.glibc.value, "host.glibc")
    unmet = [(need, text, row) for text, (need, row) in needs.items() if need > host]
    if unmet:
        worst = max(unmet, key=lambda entry: entry[0])
        return failed(
            each([f"{text} needs glibc {need}" for need, text, _ in unmet])
            + f"; this host has {host}",
            want=f"glibc {worst[0]} or newer",
            rows=[row for _, _, row in unmet if row],
        )
    return passed(
        f"glibc {host}; the installed wheels need {max(need for need, _ in needs.values())} at most"
    )


def _release_row(k: Knowledge, name: str, text: str | None) -> Vllm | Torch | None:
    if text is None or Pep440Version.maybe(text) is None:
        return None
    return query.vllm(k.matrix, text) if name == "vllm" else query.torch(k.matrix, text)


@check(
    "python.version-unsupported",
    title="The interpreter is one that the installed engine supports",
    severity=ERROR,
    reads=(ENVIRONMENTS,),
    sources=("python-pep-345", "python-pypi-vllm", "python-pypi-torch"),
    fix=Fix(
        say="make a new environment with a Python that the release supports",
        command="python3 -m venv /opt/engine",
        kind="needs-argument",
    ),
)
def _python_version(f: Facts, k: Knowledge) -> Result:
    """By Requires-Python of the installed metadata, else of the release's row."""
    good: list[str] = []
    problems: list[str] = []
    rows: list[Row] = []
    for item in environments(f):
        if item.python is None:
            continue
        for name in (*ENGINES, "torch"):
            if name not in item.packages:
                continue
            wanted, row = _requires_python(k, item, name)
            answer = holds(wanted, item.python) if wanted else None
            text = (
                f"{name} {item.packages[name]} wants Python {wanted}, {item.path} has {item.python}"
            )
            if answer is not None:
                (good if answer else problems).append(text)
                rows += [row] if row else []
    if problems:
        return failed(each(problems), want="a Python in that range", rows=rows)
    if good:
        return passed(each(good), rows=rows)
    return skipped("no engine or torch that says which Python it supports")


def _requires_python(k: Knowledge, item: Environment, name: str) -> tuple[str | None, Row | None]:
    if name in item.requires_python:
        return item.requires_python[name], None
    row = _release_row(k, name, item.packages[name]) if name in ("vllm", "torch") else None
    if name == "tensorrt-llm" and Pep440Version.maybe(item.packages[name]):
        release = query.tensorrt_llm(k.matrix, item.packages[name])
        return (
            (str(release.requires_python), release)
            if release and release.requires_python
            else (None, None)
        )
    return (str(row.requires_python), row) if row else (None, None)


@check(
    "python.no-usable-platform",
    title="vLLM finds a platform: NVML answers it",
    severity=ERROR,
    reads=(ENVIRONMENTS, "nvml.init", "host.container", *HAS_GPU),
    needs=(*DRIVER_LADDER, "python.cpu-only-torch"),
    sources=("python-platform-guide",),
    fix=Fix(
        say="make NVML work where vLLM runs: the driver's library must be there and match the "
        "loaded module; "
        "in a container it comes from --gpus all",
        command="nvidia-smi",
    ),
)
def _platform(f: Facts, k: Knowledge) -> Result:
    """Without NVML vLLM says Failed to infer device type."""
    found = having(f, "vllm")
    if not found:
        return skipped("no environment has vllm")
    if not has_gpu(f) and f.host.container.value == "none":
        return skipped("no GPU on this host")
    item, text = found[0]
    if isinstance(f.nvml.init, Absent):
        return failed(
            f"vllm {text} ({item.path}) cannot tell the platform: there is no libnvidia-ml.so.1",
            want="NVML",
        )
    init = f.nvml.init.value
    if init != "ok":
        return failed(
            f"vllm {text} ({item.path}) cannot tell the platform: NVML says {init}", want="NVML ok"
        )
    return passed(f"NVML answers vllm {text} ({item.path})")


@check(
    "python.externally-managed",
    title="Engines are not installed into the system's own Python",
    severity=INFO,
    reads=(ENVIRONMENTS, "python_env.managed_by"),
    sources=("python-pep-668",),
    fix=Fix(
        say="make an environment for the engine and remove it from the system's Python",
        command="python3 -m venv /opt/engine",
        kind="needs-argument",
    ),
)
def _managed(f: Facts, k: Knowledge) -> Result:
    """The distribution manages that Python; its next upgrade may take the packages away."""
    if isinstance(f.python_env.managed_by, Absent):
        return skipped("the system's Python is not marked as managed by the distribution")
    marker = f.python_env.managed_by.value
    bad = [item for item in environments(f) if item.path in ("/usr", "/usr/local") and _heavy(item)]
    if bad:
        shown = [f"{_heavy(item)} is in {item.site}" for item in bad]
        return failed(
            each(shown) + f", and {marker} reserves that Python", want="an environment of its own"
        )
    return passed(f"{marker} is there and nothing of an engine is in the system's Python")


def _heavy(item: Environment) -> str | None:
    engine = engine_of(item)
    return engine or (f"torch {item.packages['torch']}" if "torch" in item.packages else None)


@check(
    "python.two-pynvml",
    title="Only one package brings the module pynvml",
    severity=WARN,
    reads=(ENVIRONMENTS,),
    sources=("python-pynvml-clash", "python-pynvml-12"),
    fix=Fix(
        say="uninstall pynvml; nvidia-ml-py brings the same module from NVIDIA",
        command="python3 -m pip uninstall -y pynvml",
    ),
)
def _two_pynvml(f: Facts, k: Knowledge) -> Result:
    """An old pynvml hides nvidia-ml-py's module, whichever was installed last."""
    row = k.matrix.statement("vllm_rules", "vllm.pynvml-clash")
    both = [item for item in environments(f) if {"pynvml", "nvidia-ml-py"} <= set(item.packages)]
    if row is None or not any(having(f, name) for name in ("pynvml", "nvidia-ml-py")):
        return skipped("no environment has pynvml or nvidia-ml-py")
    bad = [item for item in both if holds(row.versions or "", item.packages["pynvml"])]
    if bad:
        item = bad[0]
        python = f"{item.path}/bin/python3"
        return failed(
            each(
                [
                    f"pynvml {item.packages['pynvml']} hides nvidia-ml-py "
                    f"{item.packages['nvidia-ml-py']} in {item.path}"
                    for item in bad
                ]
            ),
            want="nvidia-ml-py alone",
            command=f"{shlex.quote(python)} -m pip uninstall -y pynvml && "
            f"{pip(item, '--force-reinstall', 'nvidia-ml-py')}",
            rows=(row,),
        )
    return passed("pynvml and nvidia-ml-py do not hide each other", rows=(row,))
