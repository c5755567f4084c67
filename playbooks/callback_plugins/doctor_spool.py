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
  - Appends one JSON line to the file that E(DOCTOR_SPOOL) names with the hosts of the play, one when a host's task begins, and one when it ends.
  - An output of more than E(DOCTOR_SPOOL_LARGEST) characters is left out, and its size said.
options: {}
"""
KEPT = 8000
"""Characters of the end of what a host wrote to stderr, and of Ansible's own message."""

KNOWN = (
    "doctor_recording",
    "ansible_connection",
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
)
"""Variables of hosts that are said."""
LATE = "failed to execute in the expected time frame"
"""How Ansible before 2.19 says that a task's time was up."""


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
        self._record({"host": host.get_name(), "kind": kind, "at": time.time(), **said})

    def _record(self, record):
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
            timed_out="timedout" in said or LATE in _text(said.get("msg")),
            size=len(stdout),
        )

    def v2_playbook_on_play_start(self, play):
        """Whom Ansible is going to ask, with the groups and the variables that an audit must know of."""
        manager = play.get_variable_manager()
        hosts = {}
        for host in manager._inventory.get_hosts(play.hosts):
            given = manager.get_vars(play=play, host=host)
            groups = sorted(group.name for group in host.get_groups())
            hosts[host.get_name()] = [
                groups,
                {name: _text(given[name]) for name in KNOWN if name in given},
            ]
        self._record({"host": "", "kind": "inventory", "at": time.time(), "hosts": hosts})

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
