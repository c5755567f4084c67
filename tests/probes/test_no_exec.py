"""The filter of the disposable children, tried for real in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from doctor.probes.children.no_exec import ARCH_X86_64, FORBIDDEN, filter_program

TRY = """
import errno, json, os, subprocess, sys
from doctor.probes.children.no_exec import forbid_changes
made = sys.argv[1]
guarded = forbid_changes()
def tried(call):
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
print(json.dumps({
    "guarded": guarded,
    "exec": tried(lambda: subprocess.run(["true"])),
    "unlink": tried(lambda: os.unlink(made)),
    "mknod": tried(lambda: os.mknod(made + ".node")),
    "chmod": tried(lambda: os.chmod(made, 0o600)),
    "read": tried(lambda: open(made).close()),
}))
"""


def test_child_cannot_start_programs_or_replace_nodes(tmp_path: object) -> None:
    made = f"{tmp_path}/node"
    with open(made, "w"):
        pass
    done = subprocess.run(
        [sys.executable, "-c", TRY, made], capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout)
    if not answer["guarded"]:
        pytest.skip("this kernel or machine has no such filter")
    refused = {name: answer[name] for name in ("exec", "unlink", "mknod", "chmod")}
    assert set(refused.values()) == {"ENOENT"}, refused
    assert answer["read"] == "done"
    assert os.listdir(str(tmp_path)) == ["node"], "what lies there is still there, and nothing else"


def test_jumps_of_the_program_stay_inside_it() -> None:
    numbers = sorted(row[0] for row in FORBIDDEN.values() if row[0] is not None)
    code = filter_program(ARCH_X86_64, numbers)
    assert len(code) == len(numbers) + 5
    for place, (_, yes, no, _) in enumerate(code):
        assert place + 1 + max(yes, no) < len(code) or place >= len(code) - 2
    assert code[-1][3] >> 16 == 0x0005, "an error number is returned"
    assert code[1][2] + 2 == len(code) - 2, "another ABI is allowed"
