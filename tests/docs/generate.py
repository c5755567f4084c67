"""Writes the generated parts of README.md between their markers: `python -m tests.docs.generate`."""

from __future__ import annotations

from pathlib import Path

from doctor import engine
from doctor.exit_codes import MEANING
from doctor.recipes import recipe as book

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
ANSWERS = ROOT / "tests" / "plan" / "answers"
QUESTIONS = {
    "rtx-4090-rocky-10-driver-535": "An RTX 4090 on Rocky 10 with driver 535: what does vLLM 0.27.1 need?",
    "v100-newest-vllm": "A V100: does the newest vLLM run?",
    "v100-any-vllm": "A V100: then which vLLM does?",
    "h100-driver-550-cuda-13-image": "An H100 with driver 550: does a CUDA 13 image run?",
    "rtx-5090-ubuntu-24.04": "An RTX 5090 on a fresh Ubuntu 24.04: what is to be installed?",
    "h200-tensorrt-llm-1.2.1": "An H200 host with driver 580: what does TensorRT-LLM 1.2.1 need?",
}


def sections() -> dict[str, str]:
    """Marker -> the text between."""
    return {
        "exit-codes": exit_codes(),
        "checks": checks(),
        "answers": answers(),
        "recipes": recipes(),
    }


def exit_codes() -> str:
    """The table of exit codes."""
    rows = [f"| {int(code)} | {meaning} |" for code, meaning in MEANING.items()]
    return "\n".join(["| code | meaning |", "| --- | --- |", *rows])


def checks() -> str:
    """Every check by area, folded."""
    by_area: dict[str, list[str]] = {}
    for item, _ in engine.listed(None, ()):
        by_area.setdefault(item.area, []).append(
            f"| `{item.id}` | {item.severity.value} | {item.title} |"
        )
    total = sum(len(rows) for rows in by_area.values())
    lines = [
        f"{total} checks. A check's id names the fault; its title is the claim that must hold.",
        "",
    ]
    for area, rows in by_area.items():
        lines += [
            f"<details><summary>{area} ({len(rows)})</summary>",
            "",
            "| id | severity | claim |",
        ]
        lines += ["| --- | --- | --- |", *rows, "", "</details>", ""]
    return "\n".join(lines).rstrip()


def recipes() -> str:
    """The table of recipes."""
    rows = [
        f"| `doctor recipe {name}{''.join(f' --set {key}=...' for key, known in item.variables.items() if known.default is None)}` "
        f"| {item.title} | {item.tried} |"
        for name, item in book.recipes().items()
    ]
    return "\n".join(["| recipe | what it is | tried with |", "| --- | --- | --- |", *rows])


def answers() -> str:
    """Real questions, answered by the solver and held by tests/plan."""
    lines: list[str] = []
    for name, question in QUESTIONS.items():
        text = (ANSWERS / f"{name}.txt").read_text(encoding="utf-8").rstrip()
        lines += [
            f"<details><summary>{question}</summary>",
            "",
            "```console",
            text,
            "```",
            "",
            "</details>",
            "",
        ]
    return "\n".join(lines).rstrip()


def written(text: str) -> str:
    """README with each generated part as it should be."""
    for name, body in sections().items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        head, _, rest = text.partition(begin)
        _, found, tail = rest.partition(end)
        if not found:
            raise SystemExit(f"README.md has no {begin} ... {end}")
        text = f"{head}{begin}\n{body}\n{end}{tail}"
    return text


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
