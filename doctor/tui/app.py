"""The app: takes events from the bridge, keeps the ViewState, hands it to the screen. It never knows where events come from."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.filter import LineFilter
from textual.timer import Timer
from textual.widgets import Input

from doctor.errors import DoctorError
from doctor.exit_codes import ExitCode
from doctor.tui import acts, auditing, look
from doctor.tui.bridge import Bridge, EngineEvents, Start
from doctor.tui.commands import DoctorCommands
from doctor.tui.origin import Origin
from doctor.tui.pauses import FLUSH, Pace, settle
from doctor.tui.reporting import HostNames
from doctor.tui.row import safe
from doctor.tui.screens.base import DoctorScreen
from doctor.tui.screens.host import HostScreen
from doctor.tui.state import Ended, Failed, ViewState, latest, reduce_all

if TYPE_CHECKING:
    from doctor.facts.identity import HostName


def later(mode: str) -> Callable[[], DoctorScreen]:
    """A screen whose module is read when somebody goes there."""

    def make() -> DoctorScreen:
        module = import_module(f"doctor.tui.screens.{mode}")
        made: DoctorScreen = getattr(module, f"{mode.capitalize()}Screen")()
        return made

    return make


class DoctorApp(App[int]):
    """Doctor in a terminal."""

    CSS_PATH = "doctor.tcss"
    TITLE = "doctor"
    COMMANDS = {DoctorCommands}
    MODES = {
        "host": HostScreen,
        "plan": later("plan"),
        "run": later("run"),
        "smoke": later("smoke"),
        "matrix": later("matrix"),
        "fleet": later("fleet"),
    }
    DEFAULT_MODE = "host"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "switch_mode('host')", "Host", show=False, id="app.host"),
        Binding("2", "switch_mode('plan')", "Plan", show=False, id="app.plan"),
        Binding("3", "switch_mode('run')", "Run", show=False, id="app.run"),
        Binding("4", "switch_mode('smoke')", "Smoke", show=False, id="app.smoke"),
        Binding("5", "switch_mode('matrix')", "Matrix", show=False, id="app.matrix"),
        Binding("6", "switch_mode('fleet')", "Fleet", show=False, id="app.fleet"),
        Binding(
            "r", "look", "Look again", show=False, tooltip="Probe and judge anew", id="app.look"
        ),
        Binding(
            "e", "export", "Export", show=False, tooltip="The report to a file", id="app.export"
        ),
        Binding("t", "theme", "Light/dark", show=False, id="app.theme"),
        Binding("question_mark,f1", "help", "Help", key_display="?", id="app.help"),
        Binding("q", "quit", "Quit", id="app.quit"),
        Binding("ctrl+q,ctrl+c", "quit", "Quit", show=False, priority=True, id="app.quit-now"),
    ]

    def __init__(self, origin: Origin, *, read_only: bool = False, plain: bool = False) -> None:
        self.DEFAULT_MODE = origin.mode  # type: ignore[misc]  # of the app by now, and read of it below
        super().__init__()
        self.origin = origin
        self.asked_inventory = ""
        self.report_of = origin.report_of or auditing.nowhere
        self.read_only = read_only
        self.wants = origin.wants
        self.state = ViewState()
        self.bridge = Bridge(self.post_message)
        self.crashed: Exception | None = None
        self._names = HostNames()
        self._filters_too: list[LineFilter] = [look.Plain()] if plain else []
        self._latest = 0.0
        self._due: Timer | None = None
        """The next drawing."""
        self._ended = False
        self._pace = Pace()
        for theme in (look.DARK, look.LIGHT):
            self.register_theme(theme)
        self.theme = (
            look.first_theme() if look.first_theme() in self.available_themes else "doctor-dark"
        )

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Letters in place of glyphs come last, so that nothing gets around them."""
        return [*super().get_line_filters(), *self._filters_too]

    def on_mount(self) -> None:
        """Draw first, then look. A terminal that goes away, or an end asked for from outside, leaves it clean."""
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread() and not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self.leave, int(ExitCode.INTERRUPTED))
        self.call_after_refresh(self.action_look)

    def on_key(self, event: Key) -> None:
        """A letter that was on its way when the focus went to an input belongs there: the first of a filter."""
        if event.is_printable and isinstance(self.focused, Input):
            event.prevent_default()
            self.focused.post_message(Key(event.key, event.character))

    @property
    def now(self) -> float:
        """The time of what is shown: a log's own while it is replayed."""
        return self._latest if self.origin.kind == "replay" else time.time()

    def host_name(self) -> HostName | None:
        """What the host is called, once that is known."""
        return self._names.of(self.state)

    def on_engine_events(self, event: EngineEvents) -> None:
        """Take what has come; draw as often as keys leave time for."""
        events = self.bridge.drain()
        if not events:
            return
        self.state = reduce_all(self.state, events)
        self._latest = latest(events) or self._latest
        for item in events:
            if isinstance(item, Failed):
                self.notify(
                    f"{safe(item.message)}\n{safe(item.hint)}",
                    title=item.work,
                    severity="error",
                    markup=False,
                )
            self._ended = self._ended or isinstance(item, Ended)
        if self._due is not None and self._ended:
            self._due.stop()  # how it ended is not waited for
            self._due = None
        if self._due is None:
            self._due = self.set_timer(FLUSH if self._ended else self._pace.seconds, self._draw)

    def _draw(self) -> None:
        self._due = None
        screen = self.shown
        if screen is not None and screen.is_mounted:
            with self._pace:
                screen.show(screen.view)
        if self._ended:
            self._ended = False
            settle()

    @property
    def shown(self) -> DoctorScreen | None:
        """The screen of ours that is on top, under a dialog."""
        ours = (item for item in reversed(self.screen_stack) if isinstance(item, DoctorScreen))
        return next(ours, None)

    def set_to_work(self, name: str, work: Start, *, acts: bool = False) -> bool:
        """Start it, unless what runs now must not be left alone."""
        job = self.bridge.job
        if job is not None and job.at_work and job.acts:
            self.notify(f"the {job.name} is still at work; cancel it first", severity="warning")
            return False
        self.bridge.start(name, work, acts=acts)
        return True

    def action_look(self) -> None:
        """Probe and judge."""
        self.set_to_work(self.origin.work, self.origin.start)

    def want(self, specs: tuple[str, ...]) -> bool:
        """Plan for these; what is wrong in them is said and changes nothing."""
        from doctor.plan.want import parse_all

        try:
            parse_all(specs, None, self.origin.overlays)
        except DoctorError as error:
            self.notify(f"{error.message}\n{error.hint}", severity="error", markup=False)
            return False
        self.wants = specs
        self._draw()
        return True

    def may_act(self) -> bool:
        """Whether a change may be made from here; says why not."""
        said = acts.READ_ONLY if self.read_only else "" if self.origin.is_live else acts.REFUSED
        if said:
            self.notify(said, title="not from here", severity="warning", markup=False)
        return not said

    def host_label(self) -> str:
        """The host's name as a dialog names it."""
        host = self.host_name()
        return safe(host.name) if host is not None and host.name else "this host"

    def action_theme(self) -> None:
        """Light or dark."""
        self.theme = look.LIGHT.name if self.current_theme.dark else look.DARK.name

    def action_help(self) -> None:
        """The keys that work here."""
        from doctor.tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(self.screen))

    def action_export(self) -> None:
        """The report to a file, or to the browser where the app is served."""
        from doctor.tui import exporting

        exporting.ask(self)

    async def action_quit(self) -> None:
        """Leave; a fix or a smoke run is ended first, in good order."""
        job = self.bridge.job
        if job is None or not job.at_work or not job.acts:
            self.leave(int(ExitCode.HEALTHY))
            return
        from doctor.tui import asking

        asking.whether_to_quit(self, job.name)

    def leave(self, code: int) -> None:
        """End now."""
        if self.bridge.job is not None:
            self.bridge.job.cancel.cancel()
        self.exit(code, return_code=code)

    def _handle_exception(self, error: Exception) -> None:
        """Leave the terminal clean and let the command line say it: Textual's own traceback shows values of the host."""
        self.crashed = self.crashed or error
        self._exception = self._exception or error
        self._exception_event.set()
        self._return_code = int(ExitCode.CRASH)
        self._close_messages_no_wait()
