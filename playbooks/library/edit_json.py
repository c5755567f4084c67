#!/usr/bin/python
"""Set and remove values of a JSON file in place."""

from __future__ import annotations

DOCUMENTATION = r"""
module: edit_json
short_description: Set and remove values of a JSON file in place
description:
  - "Objects are merged key by key, anything else is replaced. Order, indentation and the other settings stay. A text that is not JSON, or has a key twice, is refused and left as it is."
  - The file is replaced in one move; its mode, owner and SELinux label stay.
  - Check mode and diff are supported.
options:
  path: {description: The file., type: path, required: true}
  set: {description: "The values to set, as nested objects.", type: dict, default: {}}
  remove: {description: "Key paths, each a list of keys.", type: list, elements: list, default: []}
  create: {description: Make the file where it is not there., type: bool, default: true}
  validate: {description: "A command that has to accept the new text, with %s for its path; else nothing changes.", type: str}
extends_documentation_fragment: [files]
author: [gpu-host-doctor]
"""

EXAMPLES = r"""
- name: Set what has to be set
  edit_json:
    path: /etc/docker/daemon.json
    set: {default-shm-size: 1g}
    validate: dockerd --validate --config-file=%s
"""

RETURN = r"""
path: {description: The file; where a link led to it., returned: always, type: str}
"""

from ansible.module_utils import replace_file
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.json_edit import Refused, edit


def main():
    """Run as a module."""
    module = AnsibleModule(
        argument_spec=replace_file.OPTIONS, add_file_common_args=True, supports_check_mode=True
    )
    replace_file.run(module, edit, Refused)


if __name__ == "__main__":
    main()
