"""The rung `tokens`: what the engine computes is what an independent reference computes, within the tolerance of its dtype."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from doctor.checks.finding import Evidence, Finding
from doctor.smoke import reference as references
from doctor.smoke.client import ServerError
from doctor.smoke.compare import Comparison, compare, cosine
from doctor.smoke.context import StageFailed
from doctor.smoke.model import StageResult, fault, passed

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.engines.base import TokenAnswer, Tolerance
    from doctor.smoke.reference import Reference
    from doctor.smoke.server import Server
    from doctor.smoke.tiny_model import TinyModel

TITLE = "The engine computes what the reference computes"
ANSWER_S = 120.0
EMBEDDING_COSINE = {"float32": 0.9999, "bfloat16": 0.99, "float16": 0.999}
"""Least likeness of an embedding with the reference's. A bfloat16 keeps 8 bits: each layer turns the vector by about 2^-8."""


class Tokens:
    """Compares tokens and log-probabilities at every position."""

    name = "tokens"
    needs: tuple[str, ...] = ()
    timeout = references.TIMEOUT_S + 600.0

    def run(self, ctx: Context) -> StageResult:
        """Wait for the reference, ask the engine, compare."""
        ctx.progress("waiting for the reference")
        model = ctx.shared["model"]
        found = references.result(ctx, ctx.shared["reference"])
        ctx.progress("comparing")
        if model.embeds:
            return self._embeddings(ctx, model, found)
        tolerance = ctx.chosen.tolerance(ctx)
        compared = self._compare(ctx, model, found, tolerance)
        _keep(ctx, compared, found)
        problem = compared.verdict(tolerance)
        evidence = [*_evidence(compared, tolerance), *_of_reference(found)]
        if problem is not None:
            raise StageFailed(_wrong(ctx, problem, tolerance, evidence), files=["tokens.json"])
        return passed(
            self.name,
            f"{compared.positions} tokens as the reference's ({found.distinct} distinct, {compared.ties} ties); "
            f"{compared.compared} log-probabilities within {compared.worst:.2g} nats, {compared.mean:.2g} on average "
            f"(allowed for {tolerance.dtype}: {tolerance.each:g} and {tolerance.mean:g})",
            evidence=evidence,
            numbers={
                "worst_nats": compared.worst,
                "mean_nats": compared.mean,
                "ties": compared.ties,
                "positions": compared.positions,
                "reference_s": found.seconds.get("all", 0.0),
            },
            files=["tokens.json"],
        )

    def _compare(
        self, ctx: Context, model: TinyModel, found: Reference, tolerance: Tolerance
    ) -> Comparison:
        server: Server | None = ctx.shared.get("server")
        if server is None or not getattr(ctx.engine, "server_logprobs", True):
            engine, place = ctx.chosen, ctx.shared["place"]

            def ask(prompt: tuple[int, ...], tokens: int) -> TokenAnswer:
                ctx.check()
                answers = engine.answers(ctx, place, ctx.shared["built"], (prompt,), tokens)
                return answers[0]

            return compare(model.prompts, found.answers, ask, tolerance)
        try:
            with server.client(ANSWER_S) as client:

                def over_http(prompt: tuple[int, ...], tokens: int) -> TokenAnswer:
                    ctx.check()
                    answer: TokenAnswer = client.complete(prompt, tokens, references.TOP)
                    return answer

                return compare(model.prompts, found.answers, over_http, tolerance)
        except ServerError as error:
            raise server.no_answer(self.name, str(error), TITLE) from None

    def _embeddings(self, ctx: Context, model: TinyModel, found: Reference) -> StageResult:
        wanted = EMBEDDING_COSINE[model.dtype]
        server: Server = ctx.shared["server"]
        try:
            with server.client(ANSWER_S) as client:
                alike = [
                    cosine(client.embed(prompt), reference)
                    for prompt, reference in zip(model.prompts, found.embeddings, strict=True)
                ]
        except ServerError as error:
            raise server.no_answer(self.name, str(error), TITLE) from None
        evidence = [
            Evidence(
                fact="embedding.cosine",
                value=[round(value, 6) for value in alike],
                via="/v1/embeddings",
            ),
            *_of_reference(found),
        ]
        if min(alike) < wanted:
            raise StageFailed(
                fault(
                    self.name,
                    "differ",
                    TITLE,
                    f"an embedding's cosine with the reference's is {min(alike):.4f}, least allowed for {model.dtype} {wanted}",
                    want=f"at least {wanted}",
                    say="the engine computes something else: compare versions and weights with a host where this passes",
                    command=None,
                    evidence=evidence,
                )
            )
        return passed(
            self.name,
            f"{len(alike)} embeddings with a cosine of at least {min(alike):.5f} with the reference's (allowed for {model.dtype}: {wanted})",
            evidence=evidence,
            numbers={"least_cosine": min(alike), "reference_s": found.seconds.get("all", 0.0)},
        )

    def cleanup(self, ctx: Context) -> None:
        """Nothing of its own."""


def _wrong(ctx: Context, problem: str, tolerance: Tolerance, evidence: list[Evidence]) -> Finding:
    return fault(
        "tokens",
        "differ",
        TITLE,
        problem,
        want=f"tokens equal but for ties; each log-probability within {tolerance.each:g} nats and {tolerance.mean:g} on average"
        f" ({tolerance.dtype}: {tolerance.why})",
        say="the engine computes something else than transformers in float32 from the same files: damaged weights or memory, a wrong kernel,"
        " or a wrong reading of the configuration. Compare on another GPU or with another version of the engine",
        command="doctor check --only 'gpu.*' -v"
        if ctx.engine is not None and ctx.engine.gpu
        else None,
        evidence=evidence,
    )


def _evidence(compared: Comparison, tolerance: Tolerance) -> list[Evidence]:
    found = [
        Evidence(fact="tokens.positions", value=compared.positions, via="/v1/completions"),
        Evidence(fact="tokens.worst-nats", value=round(compared.worst, 6), via="log-probabilities"),
        Evidence(fact="tokens.mean-nats", value=round(compared.mean, 6), via="log-probabilities"),
        Evidence(
            fact="tokens.tolerance",
            value=f"{tolerance.each:g} each, {tolerance.mean:g} on average",
            via=tolerance.why,
        ),
    ]
    for item in [*compared.wrong, *compared.far][:5]:
        found.append(
            Evidence(
                fact=f"tokens.prompt-{item.prompt + 1}.token-{item.position + 1}",
                value=f"{item.engine}; reference {item.reference}",
                via="/v1/completions",
            )
        )
    return found


def _of_reference(found: Reference) -> list[Evidence]:
    return [Evidence(fact="reference.made-by", value=found.made_by, via="CPU, float32")]


def _keep(ctx: Context, compared: Comparison, found: Reference) -> None:
    """Both sides for whoever looks later."""
    kept = {
        "positions": compared.positions,
        "worst_nats": compared.worst,
        "mean_nats": compared.mean,
        "wrong": [[d.prompt, d.position, d.engine, d.reference] for d in compared.wrong],
        "far": [[d.prompt, d.position, d.engine, d.reference] for d in compared.far],
        "reference": [
            {"ids": a.ids, "logprobs": a.logprobs, "margins": a.margins} for a in found.answers
        ],
    }
    (ctx.folder / "tokens.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


STAGE = Tokens()
