"""Who is changed: this host by a local connection, or others by ssh, as an Ansible inventory. The same path for both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PYTHON = "/usr/bin/python3"
"""Modules run under the system's interpreter: python3-apt and python3-dnf live there."""


def local(name: str, scratch: Path) -> dict[str, Any]:
    """This host."""
    return _inventory(
        {name or "localhost": {"ansible_connection": "local", "ansible_remote_tmp": str(scratch)}}
    )


def ssh(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Other hosts: name -> ansible_host, ansible_port, ansible_user, ansible_ssh_private_key_file and the like."""
    return _inventory(
        {name: {"ansible_connection": "ssh", **given} for name, given in hosts.items()}
    )


def _inventory(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    dressed = {
        name: {"ansible_python_interpreter": PYTHON, **given} for name, given in hosts.items()
    }
    return {"all": {"children": {"targets": {"hosts": dressed}}}}
