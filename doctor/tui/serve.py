"""The app for a browser on this machine: textual-serve behind a door. Read-only, loopback only, one person.

textual-serve has no notion of who asks. Here every request needs a cookie that only the one-time link gives, must name this
server as its host, and a websocket must come from this server's own page: else any page that the browser has open could
drive the app. A browser sends a cookie to every port of a host, so to any other user's server on 127.0.0.1 as well; this one
goes to one folder whose name nobody else knows.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import shlex
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from aiohttp import web
from aiohttp.web_runner import GracefulExit
from textual_serve.server import Server

from doctor.errors import UsageError

LOOPBACK = "127.0.0.1"
COOKIE = "doctor_session"
SESSIONS = 4
"""Browser sessions at a time: each is a process that probes the host."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Door:
    """Who may come in. The token opens once and becomes a cookie."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self.origin = f"http://{LOOPBACK}:{port}"
        self.link = f"{self.origin}/?token={self.token}"
        self.home = f"/{secrets.token_urlsafe(24)}"
        """The folder that all of it is in, and the only one that the cookie is sent to."""
        self._cookie = secrets.token_urlsafe(32)
        self._used = False
        self._host = f"{LOOPBACK}:{port}"
        self._open = 0

    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let in, hand over the cookie, or refuse."""
        if request.headers.get("Host", "") != self._host:
            raise web.HTTPForbidden(text=f"ask for {self.origin}")
        if request.method not in ("GET", "HEAD"):
            raise web.HTTPMethodNotAllowed(request.method, ["GET"])
        token = request.query.get("token")
        if token is not None:
            return self._traded(token)
        if request.path.startswith("/download/"):
            return await handler(request)  # says where a download is to whoever has its key
        if not _same(request.cookies.get(COOKIE, ""), self._cookie):
            raise web.HTTPForbidden(
                text="open the link that doctor tui --serve printed; it opens once"
            )
        if request.path == f"{self.home}/ws":
            return await self._websocket(request, handler)
        origin = request.headers.get("Origin")
        if origin is not None and origin != self.origin:
            raise web.HTTPForbidden(text="not from another page")
        return await handler(request)

    def _traded(self, token: str) -> web.StreamResponse:
        if self._used or not _same(token, self.token):
            raise web.HTTPForbidden(
                text="this link was used, or is not of this run; start doctor tui --serve anew"
            )
        self._used = True
        answer = web.Response(status=303, headers={"Location": f"{self.home}/"})
        answer.set_cookie(COOKIE, self._cookie, httponly=True, samesite="Strict", path=self.home)
        return answer

    async def _websocket(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Origin") != self.origin:
            raise web.HTTPForbidden(text="not from another page")
        if self._open >= SESSIONS:
            raise web.HTTPServiceUnavailable(text=f"{SESSIONS} sessions are open; close one")
        self._open += 1
        try:
            return await handler(request)
        finally:
            self._open -= 1

    async def label(self, request: web.Request, response: web.StreamResponse) -> None:
        """Nothing is kept, framed, sent on or loaded from elsewhere."""
        response.headers.update(
            {
                "Cache-Control": "no-store",
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
                "X-Frame-Options": "DENY",
                "Cross-Origin-Resource-Policy": "same-origin",
                "Content-Security-Policy": (
                    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline';"
                    f" font-src 'self'; img-src 'self' data:; connect-src 'self' ws://{self._host};"
                    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
                ),
            }
        )


class GuardedServer(Server):
    """textual-serve with the door in front and its own page, which loads nothing from elsewhere."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        super().__init__(
            shlex.join(command),
            host=LOOPBACK,
            port=port,
            title="doctor",
            public_url=f"http://{LOOPBACK}:{port}",
            templates_path=str(Path(__file__).with_name("web")),
        )
        self.door = Door(port)

    async def _make_app(self) -> web.Application:
        inner: web.Application = await super()._make_app()
        guard = self.door.guard

        @web.middleware
        async def at_the_door(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await guard(request, handler)

        app = web.Application(middlewares=[at_the_door])
        app.router.add_get("/", self._nothing)
        app.router.add_get("/download/{key}", self._to_download)
        app.add_subapp(self.door.home, inner)
        app.on_response_prepare.append(self.door.label)
        return app

    async def _nothing(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPForbidden(text="open the link that doctor tui --serve printed")

    async def _to_download(self, request: web.Request) -> web.StreamResponse:
        """textual-serve's page asks for downloads at the root, where the cookie is not sent."""
        key = request.match_info["key"]
        try:
            await self.download_manager.get_download_metadata(key)
        except KeyError:
            raise web.HTTPForbidden(text="there is no such download") from None
        raise web.HTTPSeeOther(f"{self.door.home}/download/{key}")

    async def on_startup(self, app: web.Application) -> None:
        """Its caller says where it is."""

    def initialize_logging(self) -> None:
        """What a browser sends is not logged: the link has the token in it."""


def serve(command: Sequence[str], port: int, say: Callable[[str], None], over_ssh: str = "") -> int:
    """Serve until Ctrl-C."""
    listening = _listen(port)
    port = listening.getsockname()[1]
    server = GuardedServer(command, port)
    say(_words(server.door.link, port, over_ssh))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def end() -> None:
        raise GracefulExit

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end)
    web.run_app(
        server._make_app(),
        sock=listening,
        handle_signals=False,
        loop=loop,
        print=None,
        access_log=None,
        shutdown_timeout=2.0,
    )
    return 0


def _listen(port: int) -> socket.socket:
    """Loopback and nothing else."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise UsageError(
            f"port {port} on {LOOPBACK}: {error.strerror}", "--port 0 takes a free one"
        ) from None
    return listening


def _words(link: str, port: int, over_ssh: str) -> str:
    lines = [f"open once, in a browser on this machine: {link}"]
    if over_ssh:
        lines.append(f"from elsewhere, first: ssh -L {port}:{LOOPBACK}:{port} THIS-HOST")
    lines.append("read-only: it looks and plans, it does not fix. Ctrl-C ends it")
    return "\n".join(lines)


def _same(given: str, kept: str) -> bool:
    return hmac.compare_digest(given.encode(), kept.encode())
