#!/usr/bin/python
"""Raise limits of the running session: of the program that called, and of the shells and the sudo above it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: session_limits
short_description: Raise limits of the running session
description:
  - Files of limits are read when a session starts. This raises those of the shell in which the doctor was called, so that what it starts next has them too.
  - It goes up from the module to the first program that is neither a shell, sudo nor the doctor, so that no service is changed; over ssh there is nothing above.
  - Limits are raised and never lowered, except a soft limit that is asked for by number while it is unlimited.
options:
  limits:
    description: "For each of memlock, nofile, nproc and stack its soft and hard limit, in the units of limits.conf, or unlimited."
    type: dict
    required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
author: gpu-host-doctor
"""

EXAMPLES = r"""
- name: Lock as much memory as RDMA needs
  session_limits:
    limits: {memlock: {soft: unlimited, hard: unlimited}}
"""

RETURN = r"""
raised:
  description: Numbers of the processes that were changed.
  type: list
  returned: always
"""

import os
import resource

from ansible.module_utils.basic import AnsibleModule

ABOVE = (
    "python",
    "doctor",
    "ansible",
    "sudo",
    "su",
    "sh",
    "bash",
    "dash",
    "zsh",
    "fish",
    "ksh",
    "env",
    "timeout",
)
UNITS = {"memlock": 1024, "stack": 1024, "nofile": 1, "nproc": 1}


def ancestors():
    """The callers, as far as they belong to the session."""
    found, pid = [], os.getppid()
    while pid > 1:
        try:
            with open(f"/proc/{pid}/stat") as handle:
                text = handle.read()
        except OSError:
            break
        name = text[text.index("(") + 1 : text.rindex(")")]
        if not any(
            name == known or (name.startswith(known) and known in ("python", "ansible", "doctor"))
            for known in ABOVE
        ):
            break
        found.append(pid)
        pid = int(text[text.rindex(")") + 2 :].split()[1])
    return found


def number(name, value):
    """A limit as the kernel counts it."""
    if value is None:
        return None
    return (
        resource.RLIM_INFINITY
        if str(value) in ("unlimited", "infinity", "-1")
        else int(value) * UNITS[name]
    )


def raised(now, soft, hard):
    """The pair that is wanted: a hard limit is never lowered."""
    infinity = resource.RLIM_INFINITY
    top = now[1]
    for item in (hard, soft):
        if item is not None and top != infinity and (item == infinity or item > top):
            top = item
    low = now[0] if soft is None else soft
    if soft is not None and soft != infinity and now[0] != infinity and now[0] > soft:
        low = now[0]
    return low, top


def main():
    """Raise them, process by process."""
    module = AnsibleModule(
        argument_spec={"limits": {"type": "dict", "required": True}}, supports_check_mode=True
    )
    wrong = sorted(set(module.params["limits"]) - set(UNITS))
    if wrong:
        module.fail_json(msg=f"no limit is called {wrong[0]}")
    touched = []
    for pid in ancestors():
        for name, pair in module.params["limits"].items():
            kind = getattr(resource, "RLIMIT_" + name.upper())
            try:
                now = resource.prlimit(pid, kind)
                wanted = raised(now, number(name, pair.get("soft")), number(name, pair.get("hard")))
                if wanted == now:
                    continue
                if not module.check_mode:
                    resource.prlimit(pid, kind, wanted)
            except ProcessLookupError:
                continue
            except (PermissionError, ValueError) as error:
                module.fail_json(msg=f"{name} of process {pid}: {error}")
            touched.append(pid)
    module.exit_json(changed=bool(touched), raised=sorted(set(touched)))


if __name__ == "__main__":
    main()
