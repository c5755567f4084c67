#!/usr/bin/python
"""Set and remove values of a INI file in place."""

from __future__ import annotations

DOCUMENTATION = r"""
module: edit_ini
short_description: Set and remove values of a INI file in place
description:
  - "Only the lines of the named keys change; comments, order and spacing stay. A list as a value stands for the key several times. A key that is there several times is refused unless a list is given."
  - The file is replaced in one move; its mode, owner and SELinux label stay.
  - Check mode and diff are supported.
options:
  path: {description: The file., type: path, required: true}
  set: {description: "section -> key -> value.", type: dict, default: {}}
  remove: {description: "[section] or [section, key] each.", type: list, elements: list, default: []}
  create: {description: Make the file where it is not there., type: bool, default: true}
  validate: {description: "A command that has to accept the new text, with %s for its path; else nothing changes.", type: str}
extends_documentation_fragment: [files]
author: [gpu-host-doctor]
"""

EXAMPLES = r"""
- name: Set what has to be set
  edit_ini:
    path: /etc/wsl.conf
    set: {boot: {systemd: true}}
"""

RETURN = r"""
path: {description: The file; where a link led to it., returned: always, type: str}
"""

from ansible.module_utils import replace_file
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.ini_edit import Refused, edit


def main():
    """Run as a module."""
    module = AnsibleModule(
        argument_spec=replace_file.OPTIONS, add_file_common_args=True, supports_check_mode=True
    )
    replace_file.run(module, edit, Refused)


if __name__ == "__main__":
    main()
