#!/usr/bin/python
"""Put the signing key of a repository in its place, once its fingerprint is the one that is pinned."""

from __future__ import annotations

DOCUMENTATION = r"""
module: signing_key
short_description: Put the signing key of a repository in its place, once its fingerprint is the pinned one
description:
  - A key file that holds exactly the pinned key is left alone.
  - A key with another fingerprint is refused, and nothing is written.
options:
  src:
    description: Where the key comes from, a URL or a path on the target.
    type: str
    required: true
  dest:
    description: Where it belongs.
    type: path
    required: true
  fingerprint:
    description: The full fingerprint of the primary key, 40 hexadecimal digits.
    type: str
    required: true
  armored:
    description: Whether the file is kept armored, as rpm wants it; apt takes it binary.
    type: bool
    default: false
  mode:
    description: Mode of the file.
    type: raw
    default: "0644"
attributes:
  check_mode:
    support: full
    details: A dry run fetches nothing.
  diff_mode:
    support: none
author: gpu-host-doctor
"""

EXAMPLES = r"""
- name: Keep the key of NVIDIA's container repository
  signing_key:
    src: https://nvidia.github.io/libnvidia-container/gpgkey
    dest: /usr/share/keyrings/nvidia-container-toolkit-keyring.gpg
    fingerprint: C95B321B61E88C1809C4F759DDCAE044F796ECB0
"""

RETURN = r"""
fingerprints:
  description: Fingerprints of the keys in the file.
  type: list
  returned: always
"""

import os
import re
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.openpgp import NotAKey, binary, fingerprints
from ansible.module_utils.urls import fetch_url

LIMIT = 1 << 20


def fetched(module, src):
    """The bytes of the key."""
    if src.startswith("/"):
        try:
            with open(src, "rb") as handle:
                return handle.read(LIMIT)
        except OSError as error:
            module.fail_json(msg=f"cannot read the key {src}: {error.strerror}")
    response, info = fetch_url(module, src, timeout=30)
    if (
        response is None
        or info["status"] not in (200, -1)
        or (info["status"] == -1 and not src.startswith("file:"))
    ):
        module.fail_json(msg=f"cannot fetch the key {src}: {info.get('msg', info['status'])}")
    return response.read(LIMIT)


def there(dest):
    """Fingerprints in the file that is there; none where there is no readable key."""
    try:
        with open(dest, "rb") as handle:
            return fingerprints(binary(handle.read(LIMIT)))
    except (OSError, NotAKey):
        return []


def main():
    """Compare, fetch, compare, write."""
    module = AnsibleModule(
        argument_spec={
            "src": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "fingerprint": {"type": "str", "required": True},
            "armored": {"type": "bool", "default": False},
            "mode": {"type": "raw", "default": "0644"},
        },
        supports_check_mode=True,
    )
    src, dest = module.params["src"], module.params["dest"]
    pinned = re.sub(r"\s", "", module.params["fingerprint"]).upper()
    if not re.fullmatch(r"[0-9A-F]{40}", pinned):
        module.fail_json(msg=f"{pinned!r} is not a full fingerprint of 40 digits")
    found, changed = there(dest), False
    if found != [pinned]:
        changed = True
        if not module.check_mode:
            found = replace(module, src, dest, pinned)
    file_args = module.load_file_common_arguments({**module.params, "path": dest})
    if os.path.exists(dest):
        changed = module.set_fs_attributes_if_different(file_args, changed)
    module.exit_json(changed=changed, fingerprints=found)


def replace(module, src, dest, pinned):
    """Fetch the key and write it, if it is the pinned one and no other beside it."""
    data = fetched(module, src)
    try:
        packets = binary(data)
        found = fingerprints(packets)
    except NotAKey as error:
        module.fail_json(msg=f"{src} is not a signing key: {error}")
    if found != [pinned]:
        module.fail_json(
            msg=f"{src} holds the key {', '.join(found)}, and {pinned} is pinned: nothing was written",
            fingerprints=found,
        )
    armored = not (data[:1] and data[0] & 0x80)
    if module.params["armored"] and not armored:
        module.fail_json(msg=f"{src} is binary; an armored key is needed")
    handle, path = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "wb") as out:
        out.write(data if module.params["armored"] else packets)
    os.makedirs(os.path.dirname(dest), exist_ok=True)
    module.atomic_move(path, dest)
    return found


if __name__ == "__main__":
    main()
