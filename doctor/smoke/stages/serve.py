"""The rung `serve`: the engine starts, answers, keeps strangers out and completes, also as a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor.checks.finding import Evidence, Finding, Severity
from doctor.smoke import server as servers
from doctor.smoke.client import MODEL, Client, ServerError
from doctor.smoke.context import StageFailed
from doctor.smoke.model import StageResult, fault, passed, skipped

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.server import Server
    from doctor.smoke.tiny_model import TinyModel

READY_S = 900.0
"""A first start may build kernels: minutes."""
FIRST_ANSWER_S = 300.0
"""The first request may compile too."""
TITLE = "The server answers as the OpenAI API says"


class Serve:
    """Starts the server, which the rungs above go on using; cleanup ends it."""

    name = "serve"
    needs: tuple[str, ...] = ()
    timeout = READY_S + FIRST_ANSWER_S + 60.0

    def run(self, ctx: Context) -> StageResult:
        """Start, wait, ask."""
        engine, place, model = ctx.chosen, ctx.shared["place"], ctx.shared["model"]
        server, ready = self._started(ctx)
        if server is None:
            return skipped(
                self.name,
                f"{engine.name} {place.version} has no server; tokens go through its runner",
            )
        ctx.progress("the first request")
        try:
            with server.client(FIRST_ANSWER_S) as client:
                said, warnings = self._ask(ctx, client, model)
        except ServerError as error:
            raise server.no_answer(self.name, str(error), TITLE) from None
        return passed(
            self.name,
            f"{server.ready_path} answered after {ready:.1f} s; {said}; on 127.0.0.1 with a random key",
            evidence=[Evidence(fact="server.command", value=engine.name, via="server.log")],
            warnings=warnings,
            numbers={"ready_s": round(ready, 2)},
            files=["server.log"],
        )

    def _started(self, ctx: Context) -> tuple[Server | None, float]:
        """A server that answers, and after how many seconds. A port that somebody took meanwhile costs one more try."""
        for last in (False, True):
            server = servers.start(ctx, ctx.chosen, ctx.shared["place"], ctx.shared["built"])
            ctx.shared["server"] = server
            if server is None:
                return None, 0.0
            try:
                return server, server.wait_ready(READY_S)
            except StageFailed:
                if last or not server.lost_its_port():
                    raise
                ctx.progress(f"port {server.port} was taken meanwhile; another one")
                server.running.end()
        raise AssertionError

    def _ask(self, ctx: Context, client: Client, model: TinyModel) -> tuple[str, list[Finding]]:
        names = client.models()
        if MODEL not in names:
            raise ServerError(f"/v1/models names {', '.join(names) or 'nothing'}, not {MODEL}")
        warnings = _strangers(ctx, client)
        if model.embeds:
            return f"an embedding of {len(client.embed(model.prompts[0]))} numbers", warnings
        streamed = client.stream(model.prompts[0], 4)
        if not getattr(ctx.engine, "server_logprobs", True):
            return f"streams {streamed.tokens} tokens; it gives no log-probabilities", warnings
        whole = client.complete(model.prompts[0], 4, 1)
        if streamed.tokens != len(whole.ids):
            raise ServerError(f"{len(whole.ids)} tokens at once, {streamed.tokens} as a stream")
        return f"completes {len(whole.ids)} tokens, at once and as a stream", warnings

    def cleanup(self, ctx: Context) -> None:
        """End the server and wait until its port is closed."""
        server: Server | None = ctx.shared.pop("server", None)
        if server is not None:
            server.running.tail()
            server.running.end()


def _strangers(ctx: Context, client: Client) -> list[Finding]:
    """Whether a request without the key is refused."""
    status = client.status("/v1/models", key=False)
    if status in (401, 403):
        return []
    return [
        fault(
            "serve",
            "no-api-key",
            "The server refuses requests without its key",
            f"/v1/models without a key answers {status}: this server takes no API key",
            want="status 401",
            say="serve on the loopback only, or behind a proxy that asks for a key",
            command=None,
            severity=Severity.INFO,
            evidence=[Evidence(fact="server.status-without-key", value=status, via="/v1/models")],
        )
    ]


STAGE = Serve()
