"""A real terminal: opened, walked through by keys, left clean at the end, after a crash and after SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.terminal import Terminal, opened

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


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with opened(tmp_path) as made:
        yield made


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


def test_inline_is_a_short_panel_that_leaves_nothing(terminal: Terminal) -> None:
    terminal.open(f"echo BEFORE; {doctor('tui', '--inline', '--demo', 'nouveau')}", 80, 30)
    shown = terminal.until("driver.gpu-held-by-other-module")
    assert "BEFORE" in shown, "it stands under what was there"
    assert len(shown.rstrip().splitlines()) < 20
    terminal.keys("j", "2")
    terminal.until("a working driver")
    terminal.keys("?")
    terminal.until("Everywhere")
    terminal.keys("Escape", "q")
    assert terminal.ended() == "rc=0"
    assert "Filter" not in terminal.screen()


def test_a_fleet_is_walked_through(terminal: Terminal) -> None:
    terminal.open(doctor("tui", "--demo", "fleet"))
    terminal.until("AUDITING")
    terminal.until("3 not audited", 90)
    terminal.until(lambda shown: "AUDITING" not in shown, 60)
    terminal.keys("/", *"library-mismatch", "Enter")
    terminal.until('holding "library-mismatch"')
    terminal.keys("Enter")
    terminal.until("fleet: h100-11")
    terminal.until("the loaded module is 580.95.05")
    terminal.keys("Escape", "o")
    terminal.until("Root causes")
    terminal.keys("q")
    assert terminal.ended() == "rc=0"


@pytest.mark.parametrize("drawing", [True, False])
def test_it_ends_when_its_terminal_goes_away(terminal: Terminal, drawing: bool) -> None:
    terminal.open(doctor("tui", "--demo", "fleet" if drawing else "stale-cdi"))
    terminal.until("AUDITING" if drawing else "container.cdi-stale")
    pid = terminal.pid()
    terminal.close()
    for _ in range(150):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("it lives on without a terminal")
