"""A person at a broken host, in a real terminal: sees the fault, tries the fix dry, does it, watches it hold, leaves."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins import states
from tests.playbooks.standins.fixing import Before
from tests.playbooks.standins.host import DOCTOR, Host
from tests.tui.terminal import Terminal, opened

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
FIX_S = 240


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with opened(tmp_path) as made:
        yield made


def inside(host: Host, *argv: str) -> str:
    """The command line that runs the doctor on the host, in this terminal."""
    socket = f"unix://{host.engine.socket}"
    flags = ["-it", "-e", "TERM=tmux-256color", "-e", "LC_ALL=C.UTF-8", "-e", "container="]
    return shlex.join(["docker", "-H", socket, "exec", *flags, host.name, DOCTOR, *argv])


def test_a_fix_is_tried_dry_then_done_and_watched(start: Start, terminal: Terminal) -> None:
    with start("ubuntu2404") as host:
        planted = states.not_registered(host)
        states.hold_driver(host)
        before = Before.of(host)

        terminal.open(inside(host))
        terminal.until("live: this host")
        terminal.until(planted)
        terminal.keys("/", *"registered")
        terminal.until('holding "registered"')
        terminal.keys("Enter", "Enter")
        terminal.until("Read")
        terminal.keys("Escape", "Escape", "2")
        terminal.until("[ ] 1 container_toolkit")

        terminal.keys("d")
        terminal.until("RUNNING")
        terminal.until("planned", FIX_S)
        terminal.until(lambda shown: "RUNNING" not in shown, FIX_S)
        assert before.left(host) == {}, "a dry run changes nothing"

        terminal.keys("2")
        terminal.until("none approved")
        terminal.keys("Space", "F")
        terminal.until("Do 1 step on ubuntu2404?")
        terminal.keys("y")
        terminal.until("RUNNING")
        terminal.until(lambda shown: "1 verified" in shown and "RUNNING" not in shown, FIX_S)
        terminal.keys("1")
        terminal.until(lambda shown: "LOOKING" not in shown and planted not in shown)
        terminal.keys("q")
        assert terminal.ended() == "rc=0"
        assert "nvidia" in host.out("docker info -f '{{json .Runtimes}}'")


def test_an_end_in_the_middle_leaves_host_and_terminal_clean(start: Start, tmp_path: Path) -> None:
    with start("ubuntu2404") as host:
        before = Before.of(host)
        for how in ("quit", "SIGTERM"):
            folder = tmp_path / how
            folder.mkdir()
            with opened(folder) as terminal:
                terminal.open(inside(host))
                terminal.until("driver.not-installed")
                terminal.keys("2")
                terminal.until("[ ] 1 ")
                terminal.keys("d")
                terminal.until("RUNNING")
                if how == "quit":
                    terminal.keys("q")
                    terminal.until("Cancel the dry run and quit?")
                    terminal.keys("y")
                else:
                    [pid, *_] = host.out(["pgrep", "-o", "-f", DOCTOR]).split()
                    host.run(["kill", "-TERM", pid])
                assert terminal.ended() == "rc=130", how
            assert host.run(["pgrep", "-f", DOCTOR], check=False).stdout == "", how
        assert before.left(host) == {}
