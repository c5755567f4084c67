"""What Ansible is started with for an audit: the caller's own environment and configuration, and what an audit insists on."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from doctor.probes.answer import LARGEST_LINE
from doctor.remedy.host.locks import MARK

ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
SSH_ARGUMENTS = "-o ControlMaster=no"
"""Instead of Ansible's default: a host is spoken to once, so that a master would serve nobody; and the probe and its answer are
compressed already."""
CHECKING = {"ansible_host_key_checking": True, "ansible_ssh_host_key_checking": True}
"""As extra variables these win over whatever an inventory or a configuration says."""
_OFF = re.compile(r"(?i)StrictHostKeyChecking[= ]+\"?(no|off)\b")


def config_file(environment: Mapping[str, str], folder: Path) -> Path | None:
    """The ansible.cfg that Ansible would take in this folder."""
    named = environment.get("ANSIBLE_CONFIG")
    if named:
        path = folder / Path(named).expanduser()
        return path / "ansible.cfg" if path.is_dir() else path
    places = [
        folder / "ansible.cfg",
        Path.home() / ".ansible.cfg",
        Path("/etc/ansible/ansible.cfg"),
    ]
    if stat.S_IMODE(folder.stat().st_mode) & stat.S_IWOTH:
        places = places[1:]
    return next((place for place in places if place.is_file()), None)


def configured(file: Path | None, section: str, key: str) -> str:
    """A setting of an ansible.cfg; empty where it says nothing."""
    if file is None:
        return ""
    parser = configparser.ConfigParser(
        interpolation=None, strict=False, inline_comment_prefixes=(";",)
    )
    try:
        parser.read_string(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, configparser.Error):
        return ""  # Ansible itself will say what is wrong with it
    return parser.get(section, key, fallback="")


def switched_off(text: str) -> bool:
    """Whether arguments of ssh switch host-key checking off."""
    try:
        words = " ".join(shlex.split(text))
    except ValueError:
        words = text
    return bool(_OFF.search(words))


def environment(config: Path | None) -> dict[str, str]:
    """For reading an inventory: the caller's, with the configuration that holds where the caller stands."""
    return {
        **os.environ,
        **({"ANSIBLE_CONFIG": str(config)} if config else {}),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",  # hosts that are left out would not be missed
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
    }


def for_audit(
    config: Path | None, playbooks: Path, work: Path, sockets: Path, run: str
) -> dict[str, str]:
    """For the audit."""
    found = (
        environment(config or playbooks / "ansible.cfg")
        | {
            "TERM": "dumb",
            "ANSIBLE_CALLBACK_PLUGINS": str(playbooks / "callback_plugins"),
            "ANSIBLE_ACTION_PLUGINS": str(playbooks / "action_plugins"),
            "ANSIBLE_CALLBACKS_ENABLED": "doctor_spool",  # and none of the caller's: they would print what hosts say
            "ANSIBLE_HOST_KEY_CHECKING": "True",
            "ANSIBLE_SSH_HOST_KEY_CHECKING": "True",
            "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_RETRY_FILES_ENABLED": "False",
            "ANSIBLE_LOCAL_TEMP": str(work / "tmp"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
            "PYTHONDONTWRITEBYTECODE": "1",
            "DOCTOR_SPOOL": str(work / "answers.jsonl"),
            "DOCTOR_SPOOL_LARGEST": str(LARGEST_LINE + 4096),
            MARK: run,
        }
    )
    if "ANSIBLE_SSH_ARGS" not in found and not configured(config, "ssh_connection", "ssh_args"):
        found["ANSIBLE_SSH_ARGS"] = SSH_ARGUMENTS
    if shutil.which("sshpass") is None:
        # nobody sits there to be asked for a pass phrase or whether a key is right
        found |= {"SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force"}
    return found
