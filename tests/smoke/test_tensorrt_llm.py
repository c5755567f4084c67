"""TensorRT-LLM's adapter against a stand-in that refuses what each release does not have."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.smoke import server as servers
from doctor.smoke.context import Context, StageFailed
from doctor.smoke.engines.tensorrt_llm import ENGINE, by_pytorch
from doctor.smoke.processes import User
from doctor.smoke.tiny_model import TinyModel
from tests.smoke.recorded_context import context
from tests.smoke.trtllm_standin import calls, make

OLD = "examples/llama/convert_checkpoint.py"
NEW = "examples/models/core/llama/convert_checkpoint.py"
BUILT = {
    "0.9.0": OLD,
    "0.10.0": None,
    "0.11.0": OLD,
    "0.12.0": OLD,
    "0.13.0": None,
    "0.15.0": OLD,
    "0.17.0": None,
    "0.18.0": OLD,
    "0.20.0": NEW,
    "0.21.0": None,
}
"""Releases that are built, and where their conversion script lies; None: a wheel without examples."""
AS_IT_IS = ("1.0.0", "1.1.0", "1.2.0", "1.2.1")
PROMPTS = ((5, 6, 7), (8, 9))


@pytest.fixture
def ctx(tmp_path: Path) -> Iterator[Context]:
    made = context(tmp_path)
    made.user = User("us")
    made.begin("engine-build", 100)
    yield made
    assert made.resources.release(made.user) == []


@pytest.fixture
def model(ctx: Context) -> TinyModel:
    folder = ctx.scratch / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    found = TinyModel(
        folder=folder,
        model_class="llama",
        dtype="bfloat16",
        vocabulary=512,
        parameters=1000,
        prompts=PROMPTS,
    )
    ctx.shared["model"] = found
    return found


def ready(ctx: Context, python: Path) -> None:
    import msgspec

    ctx.options = msgspec.structs.replace(ctx.options, python=python)
    ctx.engine = ENGINE


@pytest.mark.parametrize(("version", "converter"), BUILT.items())
def test_a_release_with_a_build_step(
    ctx: Context, model: TinyModel, tmp_path: Path, version: str, converter: str | None
) -> None:
    python = make(tmp_path / "env", version, converter=converter)
    ready(ctx, python)
    place = ENGINE.place(ctx)
    assert place.version == version
    built = ENGINE.build(ctx, place, model)
    assert built.name == "smoke" and (built / "rank0.engine").exists()
    (called,) = [options for name, options, _ in calls(python) if name == "trtllm-build"]
    minor = int(version.split(".")[1])
    assert ("--max_seq_len" in called) == (minor >= 11)
    assert ("--max_output_len" in called) == (minor < 11)
    assert "--gather_generation_logits" in called
    assert_answers(ctx, built, place)
    command = ENGINE.command(ctx, place, built, 1, "key")
    assert (command is not None) == (minor >= 15)
    if command is not None:
        assert "--backend" not in command.argv
        assert_serves(ctx, built, place)


@pytest.mark.parametrize("version", AS_IT_IS)
def test_a_release_whose_backend_needs_no_engine(
    ctx: Context, model: TinyModel, tmp_path: Path, version: str
) -> None:
    python = make(tmp_path / "env", version)
    ready(ctx, python)
    place = ENGINE.place(ctx)
    built = ENGINE.build(ctx, place, model)
    assert built.name == "smoke" and built.resolve() == model.folder.resolve()
    assert_answers(ctx, built, place)
    assert_serves(ctx, built, place)
    ((_, options, _),) = calls(python)
    assert options["--backend"] == "pytorch"


def assert_answers(ctx: Context, built: Path, place: object) -> None:
    first = ENGINE.answers(ctx, place, built, PROMPTS[:1], 16)  # type: ignore[arg-type]
    assert first[0].ids == tuple((18 + 7 * step) % 500 + 4 for step in range(16))
    assert first[0].logprobs == pytest.approx([math.log(3.0 / (3.0 + 511))] * 16)
    kept = dict(ctx.shared["trtllm_guest"])
    assert {prompt for prompt, _ in kept} == set(PROMPTS)
    assert ENGINE.answers(ctx, place, built, PROMPTS[1:], 16)[0].ids  # type: ignore[arg-type]
    assert ctx.shared["trtllm_guest"] == kept


def assert_serves(ctx: Context, built: Path, place: object) -> None:
    server = servers.start(ctx, ENGINE, place, built)  # type: ignore[arg-type]
    assert server is not None
    server.wait_ready(20)
    with server.client() as client:
        assert client.models() == ["smoke"]
        assert client.stream(PROMPTS[0], 4).tokens == 4
    server.running.end()


def test_what_a_release_does_not_have_is_refused_by_the_stand_in(tmp_path: Path) -> None:
    for version, tool, option in (
        ("0.9.0", "trtllm-build", "--max_seq_len"),
        ("0.12.0", "trtllm-build", "--max_output_len"),
        ("0.15.0", "trtllm-serve", "--free_gpu_memory_fraction"),
        ("0.15.0", "trtllm-serve", "--api_key"),
    ):
        env = tmp_path / f"{version}{tool}{option}"
        make(env, version)
        ran = subprocess.run([env / "bin" / tool, option, "1"], capture_output=True, text=True)
        assert ran.returncode == 2
        assert f"unrecognized arguments: {option}" in ran.stderr


def test_releases_before_the_tables_are_not_tried(ctx: Context, tmp_path: Path) -> None:
    ready(ctx, make(tmp_path / "env", "0.8.0"))
    with pytest.raises(StageFailed) as raised:
        ENGINE.place(ctx)
    assert raised.value.finding.id == "smoke.engine-build-version"
    assert raised.value.finding.sources


def test_another_model_class_is_not_built(ctx: Context, model: TinyModel, tmp_path: Path) -> None:
    import msgspec

    ready(ctx, make(tmp_path / "env", "0.12.0"))
    other = msgspec.structs.replace(model, model_class="qwen3")
    with pytest.raises(StageFailed) as raised:
        ENGINE.build(ctx, ENGINE.place(ctx), other)
    assert raised.value.finding.id == "smoke.engine-build-model-class"


def test_a_tool_that_fails_shows_its_log(ctx: Context, model: TinyModel, tmp_path: Path) -> None:
    python = make(tmp_path / "env", "0.18.0")
    (python.parent / "trtllm-build").write_text(
        "raise RuntimeError('CUDA error: no kernel image is available for execution on the device')"
    )
    ready(ctx, python)
    with pytest.raises(StageFailed) as raised:
        ENGINE.build(ctx, ENGINE.place(ctx), model)
    finding = raised.value.finding
    assert finding.id.startswith("smoke.engine-build-")
    assert "no kernel image" in " ".join(str(item.value) for item in finding.evidence)
    assert raised.value.extra["files"] == ["trtllm-build.log"]


def test_which_backend_is_the_default(ctx: Context) -> None:
    assert not by_pytorch(ctx, "0.21.0")
    assert by_pytorch(ctx, "1.0.0")
    assert by_pytorch(ctx, "1.3.0rc24")


@pytest.mark.parametrize(
    ("version", "outcome", "words"),
    [
        ("0.12.0", "skip", "tensorrt_llm 0.12.0 has no server; tokens go through its runner"),
        ("0.18.0", "pass", "streams 4 tokens; it gives no log-probabilities"),
        ("1.2.0", "pass", "streams 4 tokens; it gives no log-probabilities"),
    ],
)
def test_the_rung_serve(
    ctx: Context, model: TinyModel, tmp_path: Path, version: str, outcome: str, words: str
) -> None:
    from doctor.smoke.stages.serve import STAGE

    ready(ctx, make(tmp_path / "env", version, converter=OLD))
    ctx.shared["place"] = ENGINE.place(ctx)
    ctx.shared["built"] = ENGINE.build(ctx, ctx.shared["place"], model)
    ctx.begin("serve", 60)
    result = STAGE.run(ctx)
    STAGE.cleanup(ctx)
    assert result.outcome == outcome
    assert words in result.message
    if outcome == "pass":
        (warning,) = result.warnings
        assert warning.id == "smoke.serve-no-api-key"


@pytest.mark.parametrize("version", ["0.12.0", "0.18.0", "1.2.0"])
def test_the_rung_tokens_goes_through_the_runner(
    ctx: Context, model: TinyModel, tmp_path: Path, version: str
) -> None:
    from doctor.smoke.reference import Reference, ReferenceAnswer
    from doctor.smoke.stages.tokens import STAGE

    ready(ctx, make(tmp_path / "env", version, converter=OLD))
    place = ctx.shared["place"] = ENGINE.place(ctx)
    ctx.shared["built"] = ENGINE.build(ctx, place, model)
    ctx.shared["server"] = object() if version != "0.12.0" else None
    given = ENGINE.answers(ctx, place, ctx.shared["built"], PROMPTS, 16)
    wanted = Reference(
        answers=[
            ReferenceAnswer(
                ids=list(answer.ids),
                logprobs=list(answer.logprobs),
                top=[
                    {str(token): nats}
                    for token, nats in zip(answer.ids, answer.logprobs, strict=True)
                ],
                margins=[5.0] * len(answer.ids),
            )
            for answer in given
        ]
    )
    compared = STAGE._compare(ctx, model, wanted, ENGINE.tolerance(ctx))
    assert compared.verdict(ENGINE.tolerance(ctx)) is None
    assert compared.positions == 32
