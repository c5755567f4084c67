#!/usr/bin/python
"""Hold installed packages at their version, and release only what was held by this module."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_lock
short_description: Hold installed packages at their version
description:
  - Holds the installed packages that the patterns name, by dpkg's selections (what apt-mark hold sets) or in dnf's versionlock.list.
  - "A record says which holds were made here: only these are moved or lifted. The owner's are never touched; they are returned as others."
  - Check mode and diff are supported.
options:
  names: {description: Patterns over names of installed packages., type: list, elements: str, required: true}
  except: {description: Patterns of packages to leave alone., type: list, elements: str, default: []}
  state: {description: Held or not., type: str, choices: [present, absent], default: present}
  manager: {description: The package manager., type: str, choices: [apt, dnf], required: true}
  list_file: {description: The file of dnf's versionlock plugin., type: path, default: /etc/dnf/plugins/versionlock.list}
  record: {description: The file that says which holds are ours., type: path, default: /var/lib/gpu-host-doctor/holds.json}
author: [gpu-host-doctor]
"""

EXAMPLES = r"""
- name: Hold the driver
  package_lock:
    names: [nvidia-driver-*, libnvidia-*]
    except: [libnvidia-container*]
    manager: apt
"""

RETURN = r"""
packages: {description: Installed packages that the patterns name., returned: always, type: list, elements: str}
acted_on: {description: What was held or released., returned: always, type: list, elements: str}
others: {description: What somebody else holds., returned: always, type: list, elements: str}
"""

import os
import tempfile

from ansible.module_utils import package_locks as locks
from ansible.module_utils.basic import AnsibleModule

SPEC = {
    "names": {"type": "list", "elements": "str", "required": True},
    "except": {"type": "list", "elements": "str", "default": []},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "manager": {"type": "str", "choices": ["apt", "dnf"], "required": True},
    "list_file": {"type": "path", "default": "/etc/dnf/plugins/versionlock.list"},
    "record": {"type": "path", "default": "/var/lib/gpu-host-doctor/holds.json"},
}


def output(module, command):
    """What a command prints; the module ends where it fails."""
    code, out, err = module.run_command(command, environ_update={"LC_ALL": "C"})
    if code != 0:
        module.fail_json(msg=f"{command[0]} failed: {err.strip()}", rc=code)
    return out


def text_of(module, path):
    """The file's text, empty where it is not there."""
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        module.fail_json(msg=f"{path} cannot be read: {error}")


def put(module, path, text, mode):
    """Write in one move."""
    os.makedirs(os.path.dirname(path), mode=0o700 if mode == 0o600 else 0o755, exist_ok=True)
    handle, new = tempfile.mkstemp(prefix=".gpu-host-doctor-", dir=os.path.dirname(path))
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    if not os.path.exists(path):
        os.chmod(new, mode)
    module.atomic_move(new, path)


def with_dpkg(module, present, record):
    """(packages, names, others, new record, diff) by dpkg's selections."""
    native = output(module, ["dpkg", "--print-architecture"]).strip()
    packages = locks.parse_dpkg(output(module, locks.DPKG), native)
    packages = locks.chosen(packages, module.params["names"], module.params["except"])
    names, new = (locks.hold if present else locks.release)(packages, record)
    word = "hold" if present else "install"
    if names and not module.check_mode:
        put(module, module.params["record"], locks.write_record({**record, **new}), 0o600)
        lines = "".join(f"{name} {word}\n" for name in names)
        code, _, err = module.run_command(["dpkg", "--set-selections"], data=lines)
        if code != 0:
            module.fail_json(msg=f"dpkg --set-selections failed: {err.strip()}", rc=code)
    diff = {"before": "", "after": "".join(f"{word} {name}\n" for name in names)}
    return packages, names, locks.others(packages, record), new, diff


def with_dnf(module, present, record):
    """The same in versionlock.list."""
    path = module.params["list_file"]
    before = text_of(module, path)
    packages = locks.parse_rpm(output(module, locks.RPM))
    packages = locks.chosen(packages, module.params["names"], module.params["except"])
    after, names, new = (locks.lock if present else locks.unlock)(before, packages, record)
    if after != before and not module.check_mode:
        put(module, module.params["record"], locks.write_record({**record, **new}), 0o600)
        put(module, path, after, 0o644)
    diff = {"before_header": path, "after_header": path, "before": before, "after": after}
    return packages, names, locks.others(packages, record, before), new, diff


def main():
    """Run as a module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    path = module.params["record"]
    try:
        record = locks.read_record(text_of(module, path))
    except locks.Refused as error:
        module.fail_json(msg=f"{path}: {error}")
    use = with_dpkg if module.params["manager"] == "apt" else with_dnf
    packages, names, others, new, diff = use(module, module.params["state"] == "present", record)
    if new != record and not module.check_mode:
        put(module, path, locks.write_record(new), 0o600)
    result = {
        "changed": bool(names),
        "packages": sorted(item.name for item in packages),
        "acted_on": sorted(names),
        "others": sorted(others),
    }
    if module._diff and names:
        result["diff"] = diff
    module.exit_json(**result)


if __name__ == "__main__":
    main()
