"""A terminal of the tests' own: a window of a tmux server, driven by keys and read as text."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


class Terminal:
    """One window of its own tmux server."""

    def __init__(self, name: str, folder: Path) -> None:
        self._base = ["tmux", "-L", name, "-f", "/dev/null"]
        self._folder = folder
        ours = ("COLUMNS", "LINES", "NO_COLOR")
        self._env = {name: value for name, value in os.environ.items() if name not in ours}

    def tmux(self, *arguments: str) -> str:
        return subprocess.run(
            [*self._base, *arguments], capture_output=True, text=True, check=True, env=self._env
        ).stdout

    def open(self, command: str, width: int = 120, height: int = 36) -> None:
        """A shell that says how the command ended and how it left the terminal."""
        script = self._folder / "run.sh"
        script.write_text(
            f"stty -a > before; {command}; echo rc=$? > after; stty -a >> after; echo BACK; cat\n"
        )
        self.tmux(
            "new-session",
            "-d",
            "-x",
            str(width),
            "-y",
            str(height),
            "-c",
            str(self._folder),
            f"sh {script}",
        )

    def keys(self, *names: str) -> None:
        for name in names:
            self.tmux("send-keys", name)
            time.sleep(0.8 if name == "Escape" else 0.1)  # tmux waits whether it is Alt

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def until(self, what: Callable[[str], bool] | str, seconds: float = 40) -> str:
        holds = what if callable(what) else lambda shown: what in shown
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            shown = self.screen()
            if holds(shown):
                return shown
            time.sleep(0.1)
        raise AssertionError(f"not seen: {what}\n{self.screen()}")

    def pid(self) -> int:
        """The doctor under the shell."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def ended(self) -> str:
        """The exit code. The terminal must be as before: its own screen, its modes, no mouse."""
        self.until("BACK")
        before = (self._folder / "before").read_text()
        code, _, after = (self._folder / "after").read_text().partition("\n")
        modes = [text.partition("\n")[2] for text in (before, after)]
        assert modes[0] == modes[1], "the terminal's modes"
        flags = self.tmux(
            "display-message",
            "-p",
            "#{alternate_on} #{mouse_any_flag} #{cursor_flag} #{keypad_cursor_flag}",
        ).strip()
        assert flags == "0 0 1 0", "alternate screen, mouse, cursor, keypad"
        return code

    def close(self) -> None:
        """End the server with all that runs in it."""
        subprocess.run([*self._base, "kill-server"], capture_output=True, check=False)


@contextmanager
def opened(folder: Path) -> Iterator[Terminal]:
    """A terminal that nothing has run in."""
    if shutil.which("tmux") is None:
        raise AssertionError("needs tmux: apt-get install tmux")
    made = Terminal(f"doctor-{uuid4().hex[:12]}", folder)
    try:
        yield made
    finally:
        made.close()
