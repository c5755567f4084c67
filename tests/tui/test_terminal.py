"""A real terminal: opened, walked through by keys, left clean at the end, after a crash and after SIGTERM."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

HOSTS = Path(__file__).parents[1] / "hosts"
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
CRASHES = """
import sys
from doctor.tui.screens.host import HostScreen
def broken(self): raise ZeroDivisionError("planted")
HostScreen.action_facts = broken
from doctor.cli.main import main
main(sys.argv[1:])
"""


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


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.fail("needs tmux: apt-get install tmux")
    made = Terminal(f"doctor-{uuid4().hex[:12]}", tmp_path)
    try:
        yield made
    finally:
        subprocess.run([*made._base, "kill-server"], capture_output=True, check=False)


def doctor(*arguments: str) -> str:
    import shlex

    return shlex.join([sys.executable, "-m", "doctor", *arguments])


def test_open_filter_drill_down_quit(terminal: Terminal) -> None:
    terminal.open(doctor("tui", "--from", str(HOSTS / "h200x2-stub")))
    terminal.until("cuda.libcuda-stub")
    terminal.keys("/", "n", "c", "c", "l")
    terminal.until(lambda shown: "nccl.copies-differ" in shown and "cuda.libcuda-stub" not in shown)
    terminal.keys("Enter", "Enter")
    terminal.until("NCCL 2.28.3 on the system")
    terminal.keys("Escape", "Escape", "2")
    terminal.until("a working driver")
    terminal.keys("5")
    terminal.until("driver_branches")
    terminal.keys("?")
    terminal.until("Everywhere")
    terminal.keys("Escape", "q")
    assert terminal.ended() == "rc=0"


def test_plain_doctor_in_a_terminal_is_the_tui_and_judges_this_host(terminal: Terminal) -> None:
    terminal.open(doctor(), 80, 24)
    terminal.until("live: this host")
    terminal.until(lambda shown: "Findings" in shown)
    terminal.keys("q")
    assert terminal.ended() == "rc=0"


def test_a_resize_is_followed(terminal: Terminal) -> None:
    terminal.open(doctor("tui", "--demo", "nouveau"))
    terminal.until("driver.gpu-held-by-other-module")
    terminal.tmux("resize-window", "-x", "80", "-y", "24")
    terminal.until(lambda shown: "driver.gpu-held-by-other-module" in shown and "q Quit" in shown)
    terminal.keys("q")
    assert terminal.ended() == "rc=0"


def test_sigterm_leaves_it_clean(terminal: Terminal) -> None:
    terminal.open(doctor("tui", "--demo", "stale-cdi"))
    terminal.until("container.cdi-stale")
    os.kill(terminal.pid(), signal.SIGTERM)
    assert terminal.ended() == "rc=130"


def test_a_crash_leaves_it_clean_and_says_so_in_one_line(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "crash.py").write_text(CRASHES)
    terminal.open(f"{sys.executable} crash.py tui --demo stale-cdi")
    terminal.until("container.cdi-stale")
    terminal.keys("f")
    assert terminal.ended() == "rc=70"
    shown = terminal.screen()
    assert "a defect of the doctor itself: ZeroDivisionError: planted" in shown
    assert "Traceback" not in shown


def test_a_terminal_of_another_encoding_gets_letters(terminal: Terminal) -> None:
    terminal.open(f"PYTHONIOENCODING=ascii:strict {doctor('tui', '--demo', 'nouveau')}")
    shown = terminal.until("driver.gpu-held-by-other-module")
    assert shown.isascii()
    assert "x FAIL" in shown
    terminal.keys("q")
    assert terminal.ended() == "rc=0"
