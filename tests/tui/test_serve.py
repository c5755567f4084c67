"""The served page: one link that opens once, a cookie that no page can read or send, nobody from elsewhere, and nothing that acts."""

from __future__ import annotations

import asyncio
import gc
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from doctor.errors import UsageError
from doctor.tui.serve import COOKIE, SESSIONS, GuardedServer, _listen
from tests.tui import chromium

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """textual-serve leaves a command's pipes to the collector; from Python 3.12 on they complain, in whatever test that is."""
    yield
    gc.collect()


@asynccontextmanager
async def served(command: list[str] | None = None) -> AsyncIterator[tuple[GuardedServer, str]]:
    """A server in this process; its command is only run where a websocket opens."""
    listening = _listen(0)
    port = listening.getsockname()[1]
    server = GuardedServer(command or ["/bin/cat"], port)
    runner = web.AppRunner(await server._make_app(), shutdown_timeout=1.0)
    await runner.setup()
    site = web.SockSite(runner, listening)
    await site.start()
    try:
        yield server, f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def run(test: Callable[[GuardedServer, str, aiohttp.ClientSession], Awaitable[None]]) -> None:
    async def whole() -> None:
        jar = aiohttp.CookieJar(unsafe=True)
        async with served() as (server, url), aiohttp.ClientSession(cookie_jar=jar) as session:
            await test(server, url, session)

    asyncio.run(whole())


async def status(session: aiohttp.ClientSession, url: str, **headers: str) -> int:
    async with session.get(url, headers=headers, allow_redirects=False) as answer:
        return answer.status


def test_nothing_without_the_cookie() -> None:
    async def test(server: GuardedServer, url: str, session: aiohttp.ClientSession) -> None:
        home = server.door.home
        for path in (
            "/",
            "/ws",
            "/static/js/textual.js",
            "/download/x",
            "/?token=wrong",
            "/?token=",
            f"{home}/",
            f"{home}/ws",
            f"{home}/static/js/textual.js",
            f"{home}/download/x",
        ):
            answer = await status(session, url + path, Origin=url)
            assert answer == 403 or (answer == 404 and not path.startswith(home)), path

    run(test)


def test_the_link_opens_once_and_becomes_a_cookie() -> None:
    async def test(server: GuardedServer, url: str, session: aiohttp.ClientSession) -> None:
        async with session.get(server.door.link, allow_redirects=False) as answer:
            assert answer.status == 303
            assert answer.headers["Location"] == f"{server.door.home}/"
            cookie = answer.headers["Set-Cookie"]
        assert cookie.startswith(f"{COOKIE}=")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert f"Path={server.door.home}" in cookie, "no other server on this address gets it"
        assert server.door.token not in cookie
        async with session.get(f"{url}{server.door.home}/") as answer:
            page = await answer.text()
            assert answer.status == 200
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["X-Frame-Options"] == "DENY"
        assert re.findall(r"https?://(?!127\.0\.0\.1)", page) == []
        session.cookie_jar.clear()
        assert await status(session, server.door.link) == 403

    run(test)


def test_another_host_or_page_is_refused_even_with_the_cookie() -> None:
    async def test(server: GuardedServer, url: str, session: aiohttp.ClientSession) -> None:
        await status(session, server.door.link)
        port = url.rpartition(":")[2]
        root, url = url, url + server.door.home
        assert await status(session, url + "/") == 200
        for host in ("evil.example", f"localhost:{port}", f"evil.example:{port}", "127.0.0.1"):
            assert await status(session, url + "/", Host=host) == 403, host
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1", root + ".evil.example"):
            assert await status(session, url + "/ws", Origin=origin) == 403, origin
            assert await status(session, url + "/", Origin=origin) == 403, origin
        assert await status(session, url + "/ws") == 403, "a websocket without an Origin"
        async with session.post(url + "/") as answer:
            assert answer.status == 405

    run(test)


def test_a_websocket_of_the_own_page_opens_and_too_many_do_not() -> None:
    async def test(server: GuardedServer, url: str, session: aiohttp.ClientSession) -> None:
        await status(session, server.door.link)
        sockets = [
            await session.ws_connect(f"{url}{server.door.home}/ws", origin=url)
            for _ in range(SESSIONS)
        ]
        assert await status(session, f"{url}{server.door.home}/ws", Origin=url) == 503
        for socket in sockets:
            await socket.close()

    run(test)


def test_the_cookie_goes_to_no_other_folder_and_the_page_names_its_own() -> None:
    async def test(server: GuardedServer, url: str, session: aiohttp.ClientSession) -> None:
        await status(session, server.door.link)
        for path in ("/", "/ws", "/static/js/textual.js"):
            kept = session.cookie_jar.filter_cookies(URL(url + path))
            assert COOKIE not in kept, path
        async with session.get(f"{url}{server.door.home}/") as answer:
            page = await answer.text()
        addresses = re.findall(r"(?:http|ws)://[^\"]+", page)
        assert addresses
        assert all(server.door.home in address for address in addresses)

    run(test)


def test_a_download_is_found_by_its_key_alone() -> None:
    class Held:
        app_service_id = "a"

    async def test(server: GuardedServer, url: str, session: aiohttp.ClientSession) -> None:
        assert await status(session, url + "/download/guess") == 403
        await server.download_manager.create_download(
            app_service=Held(),  # type: ignore[arg-type]
            delivery_key="k" * 32,
            file_name="report.txt",
            open_method="download",
            mime_type="text/plain",
        )
        async with session.get(url + "/download/" + "k" * 32, allow_redirects=False) as answer:
            assert answer.status == 303
            assert answer.headers["Location"] == f"{server.door.home}/download/{'k' * 32}"
        session.cookie_jar.clear()
        assert await status(session, f"{url}{server.door.home}/download/" + "k" * 32) == 403

    run(test)


def test_the_command_line_is_quoted() -> None:
    server = GuardedServer(["/usr/bin/doctor", "tui", "--from", "x; touch /tmp/owned $(id)"], 1)
    assert server.command == "/usr/bin/doctor tui --from 'x; touch /tmp/owned $(id)'"


def test_it_listens_on_loopback_and_says_when_it_cannot() -> None:
    listening = _listen(0)
    listening.listen()
    assert listening.getsockname()[0] == "127.0.0.1"
    with pytest.raises(UsageError, match="port"):
        _listen(listening.getsockname()[1])
    listening.close()


@contextmanager
def doctor_serves(*arguments: str) -> Iterator[str]:
    """The real command; the link that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "doctor", "tui", "--serve", "--port", "0", *arguments],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(20) == 0
        finally:
            process.kill()
            assert process.stderr is not None
            process.stderr.close()


@pytest.mark.e2e
def test_a_browser_shows_it_takes_keys_and_refuses_a_fix(tmp_path: Path) -> None:
    if chromium.BINARY is None:
        pytest.fail("needs Chromium: apt-get install chromium")

    async def whole(link: str) -> None:
        async with chromium.page(link) as page:
            for _ in range(300):
                await asyncio.sleep(0.1)
                if await page.evaluate("document.body.classList.contains('-first-byte')"):
                    break
            assert await page.evaluate("location.search") == ""
            assert await page.evaluate("document.cookie") == ""
            await asyncio.sleep(5)
            await page.picture(tmp_path / "host.png")
            await page.click(300, 500)
            for key in ("2", "F"):
                await page.key(key)
                await asyncio.sleep(2)
            await page.picture(tmp_path / "plan.png")

    with doctor_serves("--demo", "nouveau") as link:
        asyncio.run(whole(link))
    first, second = (tmp_path / name for name in ("host.png", "plan.png"))
    assert first.read_bytes() != second.read_bytes()
    assert min(first.stat().st_size, second.stat().st_size) > 20_000
    kept = Path(__file__).parents[2] / "build" / "screens"
    kept.mkdir(parents=True, exist_ok=True)
    for picture in (first, second):
        shutil.copy(picture, kept)
