"""The probe alone: prints one JSON envelope, or records the host. `python3 -m doctor.probes`, `python3 doctor-probe.pyz`.

Writes nothing to the host unless `--record` names a folder. The zip's own entry point has refused older Pythons.
"""

import argparse
import datetime
import json
import os
import sys
from typing import Any, Dict, List, Optional

from doctor import __version__
from doctor.probes import registry
from doctor.probes.live import LiveSource
from doctor.probes.source import Source


def main(argv: Optional[List[str]] = None) -> int:
    """Exit status 0 when every probe answered, 1 when one failed, 2 for wrong usage."""
    options = _options().parse_args(argv)
    if options.record:
        from doctor.probes.recordings import record

        try:
            document = record.record(options.record, options.scope, options.only)
        except record.RecordError as error:
            sys.stderr.write("doctor-probe: %s\n" % error)
            return 2
        print(options.record)
    elif options.answer:
        document = _answer(options)
    else:
        document = envelope(LiveSource(options.scope), options.only)
        json.dump(document, sys.stdout, sort_keys=True, separators=(",", ":"))
        sys.stdout.write("\n")
    return 1 if document["errors"] else 0


def _answer(options: argparse.Namespace) -> Dict[str, Any]:
    """Print the marked line, of this host or of a recording, and never outlive the asker's patience."""
    import signal

    from doctor.probes import answer

    if options.deadline:
        # its default action ends the process, whatever the threads do
        signal.alarm(options.deadline)
    if options.source:
        from doctor.probes.recordings.recorded import RecordedSource

        document = envelope(RecordedSource(options.source), options.only)
        document["recording"] = options.source
    else:
        document = envelope(_looking(options.scope, options.only), options.only)
    sys.stdout.write(answer.line(document, options.answer) + "\n")
    return document


def _looking(scope: str, areas: Optional[List[str]]) -> LiveSource:
    """This host, its two slowest looks at work already: two copies of this process cost a third of two interpreters.

    A copy stands in another folder, where a relative path would lead to no file of ours.
    """
    if not os.path.isabs(__file__):
        return LiveSource(scope)
    from doctor.probes.child import Started
    from doctor.probes.children.prober import forked_looks

    forked = forked_looks(scope, areas)
    return LiveSource(scope, {module: Started(child, None) for module, child in forked.items()})


def envelope(source: Source, areas: Optional[List[str]] = None) -> Dict[str, Any]:
    """{"schema", "doctor", "host", "recorded_at", "facts", "timing_ms", "errors"}."""
    document = registry.run(source, areas)
    name = document["facts"].get("host", {}).get("name", {})
    document["doctor"] = __version__
    document["host"] = {"name": name.get("value")}
    now = datetime.datetime.now(datetime.timezone.utc)
    document["recorded_at"] = now.replace(microsecond=0).isoformat()
    return document


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="doctor-probe", description="Look at this GPU host and print what was seen as JSON."
    )
    parser.add_argument(
        "--record", metavar="DIR", help="write a redacted recording of the host to DIR"
    )
    parser.add_argument(
        "--scope",
        default="shell",
        metavar="SCOPE",
        help="whose environment and limits: shell, service:NAME or pid:N",
    )
    parser.add_argument("--only", nargs="+", metavar="AREA", help="look at these areas only")
    parser.add_argument(
        "--answer", metavar="WORD", help="print one compressed line that begins with this word"
    )
    parser.add_argument(
        "--from", dest="source", metavar="REC", help="with --answer: look at a recording instead"
    )
    parser.add_argument(
        "--deadline", type=int, metavar="S", help="with --answer: seconds after which it ends"
    )
    parser.add_argument("--version", action="version", version=__version__)
    return parser


if __name__ == "__main__":
    sys.exit(main())
