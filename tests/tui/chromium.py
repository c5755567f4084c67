"""Drives a headless Chromium by its own protocol: open a page, wait, press keys, take a picture."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

BINARY = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


class Page:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            answer = json.loads((await self._socket.receive(timeout=20)).data)
            if answer.get("id") == self._number:
                return dict(answer.get("result", {}))

    async def evaluate(self, code: str) -> Any:
        result = await self.call(
            "Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True
        )
        return result.get("result", {}).get("value")

    async def key(self, letter: str) -> None:
        await self.call("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=letter)

    async def click(self, x: int, y: int) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    async def picture(self, path: Path) -> None:
        shot = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


@asynccontextmanager
async def page(url: str, width: int = 1200, height: int = 760) -> AsyncIterator[Page]:
    """A browser with nothing of anybody's in it, at the address."""
    assert BINARY is not None
    folder = tempfile.mkdtemp(prefix="chromium-")
    process = await asyncio.create_subprocess_exec(
        BINARY,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        f"--window-size={width},{height}",
        "about:blank",
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stderr is not None
        port = ""
        while not port:
            line = (await asyncio.wait_for(process.stderr.readline(), 30)).decode()
            found = re.search(r"ws://127\.0\.0\.1:(\d+)/", line)
            port = found[1] if found else ""
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                targets = await answer.json()
            address = next(
                item["webSocketDebuggerUrl"] for item in targets if item["type"] == "page"
            )
            async with session.ws_connect(address, max_msg_size=0) as socket:
                opened = Page(socket)
                await opened.call("Page.enable")
                await opened.call("Page.navigate", url=url)
                yield opened
    finally:
        process.terminate()
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)
