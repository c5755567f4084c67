"""Writes what each host answered to a file, one JSON line a host, the moment it is known; prints nothing."""

import json
import os
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: doctor_spool
type: stdout
short_description: Spools each host's answer
description:
  - Appends one JSON line to the file that E(DOCTOR_SPOOL) names when a host's task begins, and one when it ends.
  - An output of more than E(DOCTOR_SPOOL_LARGEST) characters is left out, and its size said.
options: {}
"""
KEPT = 8000
"""Characters of the end of what a host wrote to stderr, and of Ansible's own message."""


class CallbackModule(CallbackBase):
    """The stdout callback of an audit."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "doctor_spool"

    def __init__(self):
        super().__init__()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(os.environ["DOCTOR_SPOOL"], flags, 0o600)
        self._largest = int(os.environ["DOCTOR_SPOOL_LARGEST"])

    def _write(self, host, kind, **said):
        record = {"host": host.get_name(), "kind": kind, "at": time.time(), **said}
        line = memoryview(json.dumps(record).encode("ascii") + b"\n")
        while line:
            line = line[os.write(self._file, line) :]

    def _ended(self, result, kind):
        said = result._result
        stdout = _text(said.get("stdout"))
        code = said.get("rc")
        self._write(
            result._host,
            kind,
            rc=code if isinstance(code, int) else None,
            stdout=stdout if len(stdout) <= self._largest else "",
            stderr=_text(said.get("stderr"))[-KEPT:],
            msg=_text(said.get("msg"))[-KEPT:],
            timed_out="timedout" in said,
            size=len(stdout),
        )

    def v2_runner_on_start(self, host, task):
        """Its turn has come."""
        self._write(host, "begun")

    def v2_runner_on_ok(self, result):
        """The script ended with 0."""
        self._ended(result, "ok")

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """It ended otherwise, or could not be started."""
        self._ended(result, "failed")

    def v2_runner_on_skipped(self, result):
        """It was not run: no answer."""
        self._ended(result, "failed")

    def v2_runner_on_unreachable(self, result):
        """No connection."""
        self._ended(result, "unreachable")


def _text(value):
    return value if isinstance(value, str) else "" if value is None else repr(value)[-KEPT:]
