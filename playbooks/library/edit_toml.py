#!/usr/bin/python
"""Set and remove values of a TOML file in place."""

from __future__ import annotations

DOCUMENTATION = r"""
module: edit_toml
short_description: Set and remove values of a TOML file in place
description:
  - "Only the lines of the named keys change; comments, order and the other settings stay. The result is read again, by tomllib too where Python has it, and has to say exactly what was asked for. Refused are text that is not TOML and values inside an array of tables."
  - The file is replaced in one move; its mode, owner and SELinux label stay.
  - Check mode and diff are supported.
options:
  path: {description: The file., type: path, required: true}
  set: {description: "The values to set, as nested tables.", type: dict, default: {}}
  remove: {description: "Key paths, each a list of keys: a key may hold dots.", type: list, elements: list, default: []}
  create: {description: Make the file where it is not there., type: bool, default: true}
  validate: {description: "A command that has to accept the new text, with %s for its path; else nothing changes.", type: str}
extends_documentation_fragment: [files]
author: [gpu-host-doctor]
"""

EXAMPLES = r"""
- name: Set what has to be set
  edit_toml:
    path: /etc/nvidia-container-runtime/config.toml
    set: {nvidia-container-cli: {no-cgroups: false}}
    remove: [[nvidia-container-runtime, debug]]
"""

RETURN = r"""
path: {description: The file; where a link led to it., returned: always, type: str}
"""

from ansible.module_utils import replace_file
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.toml_edit import Refused, edit


def main():
    """Run as a module."""
    module = AnsibleModule(
        argument_spec=replace_file.OPTIONS, add_file_common_args=True, supports_check_mode=True
    )
    replace_file.run(module, edit, Refused)


if __name__ == "__main__":
    main()
