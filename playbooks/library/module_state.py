#!/usr/bin/python
"""Blacklist kernel modules, load them at boot, and load them now where that disturbs nothing. Never unloads one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: module_state
short_description: Blacklist kernel modules, load them at boot and now
description:
  - "Writes what no other file of modprobe.d or modules-load.d says already, keeps the other lines of the file, and loads modules that are not there."
  - "A module is never unloaded. With `unless_loaded` nothing is loaded while one of those modules is there; `reason` then says so."
  - Check mode and diff are supported.
options:
  blacklist: {description: Modules to keep from loading by alias., type: list, elements: str, default: []}
  options: {description: "module -> its options, as words.", type: dict, default: {}}
  blacklist_file: {description: The file in /etc/modprobe.d., type: path, default: /etc/modprobe.d/gpu-host-doctor.conf}
  at_boot: {description: Modules to load at boot., type: list, elements: str, default: []}
  at_boot_file: {description: The file in /etc/modules-load.d., type: path, default: /etc/modules-load.d/gpu-host-doctor.conf}
  loaded: {description: "Modules to load now, in this order.", type: list, elements: str, default: []}
  unless_loaded: {description: Modules that have the device already., type: list, elements: str, default: []}
author: [gpu-host-doctor]
"""

EXAMPLES = r"""
- name: Keep nouveau from the GPU
  module_state:
    blacklist: [nouveau]
    options: {nouveau: modeset=0}
- name: Load the driver
  module_state:
    loaded: [nvidia, nvidia_uvm]
    unless_loaded: [nouveau, nova_core]
"""

RETURN = r"""
files_changed: {description: Files that were written., returned: always, type: list, elements: str}
loaded_now: {description: Modules that were loaded., returned: always, type: list, elements: str}
reason: {description: Why nothing was loaded., returned: when something is in the way, type: str}
"""

import glob
import os
import tempfile

from ansible.module_utils import kernel_modules as modules
from ansible.module_utils.basic import AnsibleModule

SPEC = {
    "blacklist": {"type": "list", "elements": "str", "default": []},
    "options": {"type": "dict", "default": {}},
    "blacklist_file": {"type": "path", "default": "/etc/modprobe.d/gpu-host-doctor.conf"},
    "at_boot": {"type": "list", "elements": "str", "default": []},
    "at_boot_file": {"type": "path", "default": "/etc/modules-load.d/gpu-host-doctor.conf"},
    "loaded": {"type": "list", "elements": "str", "default": []},
    "unless_loaded": {"type": "list", "elements": "str", "default": []},
}
FOLDERS = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")


def texts(kind, own):
    """The texts of the other files of modprobe.d or modules-load.d: a file in an earlier folder stands for its namesakes."""
    found = {}
    for folder in FOLDERS:
        for path in sorted(glob.glob(f"{folder}/{kind}/*.conf")):
            found.setdefault(os.path.basename(path), path)
    return [text_of(path) for path in found.values() if path != own]


def text_of(path):
    """The file's text, empty where it is not there."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""


def write(module, path, lines):
    """Add the lines that the file lacks; returns its diff, or None where nothing changes."""
    before = text_of(path)
    after = modules.with_lines(before, lines)
    if after == before:
        return None
    if not module.check_mode:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        handle, new = tempfile.mkstemp(prefix=".gpu-host-doctor-", dir=os.path.dirname(path))
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        if not os.path.exists(path):
            os.chmod(new, 0o644)
        module.atomic_move(new, path)
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def load(module, names, blockers):
    """(modules loaded, why not). modprobe's own refusal ends the module."""
    have = set(os.listdir("/sys/module"))
    missing = [modules.plain(name) for name in names if modules.plain(name) not in have]
    way = modules.in_way(blockers, have)
    if missing and way:
        return (
            [],
            f"{', '.join(way)} is loaded and is not unloaded under its users; {missing[0]} comes with the next boot",
        )
    for name in missing:
        if module.check_mode:
            continue
        code, out, err = module.run_command([module.get_bin_path("modprobe", required=True), name])
        if code != 0:
            module.fail_json(msg=f"modprobe {name}: {(err or out).strip()}", rc=code)
    return missing, None


def main():
    """Run as a module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    given = module.params
    diffs, result = [], {"loaded_now": [], "files_changed": []}
    try:
        if given["blacklist"] or given["options"]:
            own = given["blacklist_file"]
            lines = modules.blacklist_lines(
                given["blacklist"], given["options"], texts("modprobe.d", own)
            )
            diffs.append(write(module, own, lines))
        if given["at_boot"]:
            own = given["at_boot_file"]
            there = modules.loaded_at_boot(texts("modules-load.d", own))
            names = [modules.plain(name) for name in given["at_boot"]]
            diffs.append(write(module, own, [name for name in names if name not in there]))
        if given["loaded"]:
            result["loaded_now"], reason = load(module, given["loaded"], given["unless_loaded"])
            if reason:
                result["reason"] = reason
    except modules.Refused as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: {error.strerror}")
    diffs = [item for item in diffs if item]
    result["files_changed"] = [item["after_header"] for item in diffs]
    if module._diff:
        result["diff"] = diffs
    module.exit_json(changed=bool(diffs or result["loaded_now"]), **result)


if __name__ == "__main__":
    main()
