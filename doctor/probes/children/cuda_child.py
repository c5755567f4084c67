"""Runs in a disposable child: what does the driver API answer here? One JSON object a line, so a hang keeps what came before.

The rest of a check waits for this child: it loads nothing that it can do without, not even typing and json.
"""

import ctypes
import sys

from doctor.probes.children.no_exec import forbid_changes


def say(**answer: object) -> None:
    """One line at once: the parent reads whatever came before a hang."""
    pairs = ['"%s": %s' % (name, as_json(value)) for name, value in answer.items()]
    sys.stdout.write("{%s}\n" % ", ".join(pairs))
    sys.stdout.flush()


def as_json(value: object) -> str:
    """A value as json.dumps writes it, which is asked only for what takes escapes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isprintable()
        and not {'"', "\\"} & {*value}
    ):
        return '"%s"' % value
    import json

    return json.dumps(value)


def main(args: "list[str]") -> None:
    """Look, and say when all was said: what a process does after that, to let go of the driver, takes 50 ms on an H200."""
    look()
    say(done=True)


def look() -> None:
    """Load libcuda.so.1 as a program would, then cuInit, device count and driver version."""
    say(guarded=forbid_changes())
    try:
        lib = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        missing = "libcuda.so.1: cannot open shared object file" in str(error)
        say(error="not-found" if missing else "cannot load libcuda.so.1: %s" % error)
        return
    say(lib=loaded_path())
    code = lib.cuInit(0)
    say(cuInit=code)
    number = ctypes.c_int(0)
    if lib.cuDriverGetVersion(ctypes.byref(number)) == 0:
        say(driver_version=number.value)
    if code == 0 and lib.cuDeviceGetCount(ctypes.byref(number)) == 0:
        say(count=number.value)


def loaded_path() -> str:
    """The file the loader chose, as the kernel names it."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "/libcuda.so" in line:
                return line.split(None, 5)[5].strip()
    return ""
