"""A server of the run: started, watched until it answers, asked, ended. Its death at any time is a finding, with its log read."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.checks.finding import Evidence
from doctor.smoke import engine_log, ports
from doctor.smoke.client import Client
from doctor.smoke.context import StageFailed
from doctor.smoke.guest import Guest, Running, how_it_ended

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.engines.base import Command, Engine, Place

LOG = "server"
POLL_S = 0.25
LAST_BREATH_S = 3.0
"""Between a request that broke off and the end of its server."""
TITLE = "The engine serves the smoke model"


class Server:
    """A running server."""

    def __init__(self, ctx: Context, running: Running, port: int, key: str, ready: str) -> None:
        self._ctx = ctx
        self.running = running
        self.port = port
        self.key = key
        self.ready_path = ready
        self.started = time.monotonic()
        self.ready_s: float | None = None

    def client(self, timeout: float = 60.0) -> Client:
        """A client with the run's key; at most what the rung has left."""
        return Client(self.port, self.key, min(timeout, max(1.0, self._ctx.left)))

    def wait_ready(self, limit: float) -> float:
        """Seconds until it answered. StageFailed when it ends or does not answer in time."""
        until = time.monotonic() + limit
        with self.client() as client:
            while True:
                self._ctx.check()
                if (code := self.running.returncode) is not None:
                    raise self.died(code)
                waited = time.monotonic() - self.started
                if client.status(self.ready_path) == 200:
                    self.ready_s = waited
                    return waited
                if time.monotonic() > until:
                    raise self.late(waited)
                self._ctx.progress(self._last_line(), waited, limit)
                self._ctx.sleep(POLL_S)

    def died(self, code: int, stage: str = "serve") -> StageFailed:
        """It ended on its own."""
        after = time.monotonic() - self.started
        return self.broken(
            stage, "exited", f"the server ended after {after:.0f} s ({how_it_ended(code)})"
        )

    def no_answer(
        self, stage: str, message: str, title: str, name: str = "wrong-answer"
    ) -> StageFailed:
        """A request went wrong: because it ended, which may take a moment to show, or in spite of its running."""
        code = self._ctx.wait(self.running, LAST_BREATH_S)
        if code is not None:
            return self.died(code, stage)
        return self.broken(stage, name, message, title)

    def late(self, waited: float) -> StageFailed:
        """It runs and does not answer."""
        return self.broken(
            "serve",
            "not-ready",
            f"no answer on {self.ready_path} after {waited:.0f} s; the process runs",
        )

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.running.returncode is None

    def broken(self, stage: str, name: str, message: str, title: str = TITLE) -> StageFailed:
        """A failure of a rung with this server's log read."""
        return engine_log.broken(
            self._ctx,
            stage,
            name,
            title,
            message,
            self.running.tail(),
            self.running.log.name,
            want="a server that starts and answers",
            evidence=self._evidence(),
        )

    def lost_its_port(self) -> bool:
        """Whether it ended because somebody else listens on its port."""
        taken = "address already in use" in self.running.tail().lower()
        return taken and self.running.returncode is not None and ports.is_listening(self.port)

    def _evidence(self) -> list[Evidence]:
        found = [Evidence(fact="server.port", value=self.port, via="127.0.0.1")]
        who = ports.holder(self.port)
        if who is not None:
            found.append(
                Evidence(
                    fact="server.port-holder", value=f"pid {who[0]} ({who[1]})", via="/proc/net/tcp"
                )
            )
        model = self._ctx.shared.get("model")
        if model is not None and model.folder.is_dir():
            files = sorted(path.name for path in model.folder.iterdir())
            found.append(Evidence(fact="model.files", value=files, via=str(model.folder)))
        return found

    def _last_line(self) -> str:
        lines = self.running.tail(4000).splitlines()
        return next((line.strip()[:120] for line in reversed(lines) if line.strip()), "starting")


def start(ctx: Context, engine: Engine, place: Place, built: Path) -> Server | None:
    """Start what the adapter says. None when this version has no server."""
    port, key = ctx.free_port(), secrets.token_urlsafe(24)
    command = engine.command(ctx, place, built, port, key)
    if command is None:
        ctx.resources.ports.remove(port)
        return None
    (ctx.folder / f"{LOG}.log").unlink(missing_ok=True)  # of a first try
    running = _run(ctx, place, command, port)
    return Server(ctx, running, port, key, command.ready)


def _run(ctx: Context, place: Place, command: Command, port: int) -> Running:
    return Guest(ctx, place).start(
        command.argv,
        command.env,
        LOG,
        port=port,
        mounts=command.mounts,
        image_arguments=command.argv if place.image is not None else None,
    )
