"""The entry point: verbs are found by file, imported only when called; the one place where errors become exit codes."""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False  # typing's own constant, whose import takes as long as to answer --version
if TYPE_CHECKING:
    from collections.abc import Sequence

    import click

VERBS = (
    "check explain diagnose plan fix undo runs smoke fleet record simulate matrix schema recipe tui"
).split()
"""Verbs in the order of --help; those without a module in this version are left out."""

GARBAGE = 100_000
"""New objects between two collections: the usual 700 make a command search what it has only just loaded again and again."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:  # answered before click is imported
        from doctor import __version__

        sys.stdout.write(f"doctor {__version__}\n")
        return
    gc.set_threshold(GARBAGE)
    if judges_this_shell(arguments):
        from doctor.probes import bare

        bare.start_early()
    _leave(run(with_fix(arguments)))


def with_fix(arguments: list[str]) -> list[str]:
    """`doctor --fix ...` is the fix that asks nothing."""
    if arguments and arguments[0].startswith("-") and "--fix" in arguments:
        return ["fix", "--headless", *(item for item in arguments if item != "--fix")]
    return arguments


def judges_this_shell(arguments: list[str]) -> bool:
    """Whether this call will probe all of this host in this environment, which can begin before anything is loaded."""
    verb = arguments[0] if arguments else "check"
    elsewhere = ("--from", "--scope", "--list", "--only", "--help", "-h")
    said = {argument.partition("=")[0] for argument in arguments}
    return verb in ("check", "diagnose", "plan", "--fix") and not said & set(elsewhere)


def run(arguments: list[str]) -> int:
    """Run a verb; the exit code."""
    import click

    from doctor.cli import console
    from doctor.errors import DoctorError
    from doctor.exit_codes import ExitCode

    try:
        result = group().main(
            args=arguments or default_arguments(), prog_name="doctor", standalone_mode=False
        )
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        console.talk("interrupted")
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        console.problem(error.format_message(), "doctor --help")
        return ExitCode.USAGE
    except DoctorError as error:
        console.problem(error.message, error.hint)
        return ExitCode.USAGE
    except BrokenPipeError:
        return ExitCode.HEALTHY
    except Exception as error:
        return console.crash(error)
    return int(result) if isinstance(result, int) else ExitCode.HEALTHY


def group() -> click.Group:
    """The click group whose verbs load lazily."""
    import click

    from doctor import __version__

    class Verbs(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            from importlib.util import find_spec

            return [verb for verb in VERBS if find_spec(f"doctor.cli.verbs.{verb}")]

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            from importlib import import_module

            if cmd_name not in VERBS:
                return None
            try:
                module = import_module(f"doctor.cli.verbs.{cmd_name}")
            except ModuleNotFoundError as error:
                if error.name == f"doctor.cli.verbs.{cmd_name}":
                    return None
                raise
            command: click.Command = getattr(module, cmd_name)
            return command

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            try:
                return super().resolve_command(ctx, args)
            except click.UsageError:
                from difflib import get_close_matches

                near = get_close_matches(args[0], self.list_commands(ctx), 1)
                hint = f" Did you mean {near[0]}?" if near else ""
                raise click.UsageError(f"no verb is called {args[0]!r}.{hint}") from None

    @click.group(
        cls=Verbs,
        invoke_without_command=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        help="Says what is wrong with an NVIDIA inference host, the root cause first, why, and what to do.",
    )
    @click.version_option(__version__, prog_name="doctor", message="%(prog)s %(version)s")
    def doctor() -> None:
        pass

    return doctor


def default_arguments() -> list[str]:
    """Plain `doctor`: the TUI in a terminal when it is there, else `doctor check`."""
    from importlib.util import find_spec

    if sys.stdin.isatty() and sys.stdout.isatty() and find_spec("doctor.cli.verbs.tui"):
        return ["tui"]
    return ["check"]


def _leave(code: int) -> None:
    """End now: a thread that hangs must not keep the process, and to take all that was loaded apart takes as long as a probe."""
    import atexit
    import os

    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass
    os._exit(code)
