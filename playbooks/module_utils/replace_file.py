"""What the edit_* modules share: read a file, hand its text to an editor, write the result in one move."""

from __future__ import annotations

import os
import tempfile

OPTIONS = {
    "path": {"type": "path", "required": True},
    "set": {"type": "dict", "default": {}},
    "remove": {"type": "list", "elements": "list", "default": []},
    "create": {"type": "bool", "default": True},
    "validate": {"type": "str"},
}
"""Options of every edit_* module. Owner, group and mode come from `add_file_common_args`."""


def run(module, edit, refused):
    """Edit the file as the module's parameters say, then exit. `edit` raises `refused` where it must not touch the text."""
    path = os.path.realpath(module.params["path"])
    before, there = _read(module, path)
    if not there and not module.params["create"] and not module.params["set"]:
        module.exit_json(changed=False, path=path)
    try:
        after = edit(before, module.params["set"] or {}, module.params["remove"] or [])
    except refused as error:
        module.fail_json(msg=f"{path} is left as it is: {error}", path=path)
    changed = after != before or (not there and bool(module.params["set"]))
    result = {"path": path, "changed": changed}
    if module._diff and changed:
        result["diff"] = {
            "before_header": path,
            "after_header": path,
            "before": before,
            "after": after,
        }
    if changed:
        _write(module, path, after, there)
    if os.path.exists(path) or not module.check_mode:
        options = module.load_file_common_arguments(module.params, path=path)
        if os.path.exists(path):
            result["changed"] = module.set_fs_attributes_if_different(options, result["changed"])
    module.exit_json(**result)


def _read(module, path):
    try:
        with open(path, "rb") as stream:
            raw = stream.read()
    except FileNotFoundError:
        if not module.params["create"] and module.params["set"]:
            module.fail_json(msg=f"{path} is not there, and shall not be made", path=path)
        return "", False
    except OSError as error:
        module.fail_json(msg=f"{path} cannot be read: {error.strerror}", path=path)
    try:
        return raw.decode("utf-8"), True
    except UnicodeDecodeError:
        module.fail_json(msg=f"{path} is left as it is: it is not UTF-8", path=path)


def _write(module, path, text, there):
    """Beside the file, checked, then moved over it; atomic_move keeps mode, owner and SELinux label."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        if module.check_mode:
            return
        os.makedirs(folder, mode=0o755, exist_ok=True)
    place = None if module.check_mode else folder
    handle, new = tempfile.mkstemp(prefix=".gpu-host-doctor-", dir=place)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        _validate(module, new, path)
        if not module.check_mode:
            if not there:
                os.chmod(new, 0o644)
            module.atomic_move(new, path)
    except OSError as error:
        module.fail_json(msg=f"{path} cannot be written: {error.strerror}", path=path)
    finally:
        if os.path.exists(new):
            os.unlink(new)


def _validate(module, new, path):
    command = module.params["validate"]
    if not command:
        return
    if "%s" not in command:
        module.fail_json(msg=f"validate must hold %s: {command}", path=path)
    code, out, err = module.run_command(command % new)
    if code != 0:
        module.fail_json(
            msg=f"{path} is left as it is: {command.split()[0]} refuses the result: {(err or out).strip()}",
            path=path,
            rc=code,
        )
