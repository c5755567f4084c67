"""Sends the probe over the connection that runs it: one round trip where ansible.builtin.script takes six, no folder of Ansible's there."""

import re
import shlex

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

DOCUMENTATION = """
module: doctor_probe
short_description: Runs a probe that is sent on standard input
description:
  - The host's shell puts its standard input into a folder of its own, runs it and takes the folder away. Nothing but a shell is needed.
  - Over a connection that takes no standard input it is what M(ansible.builtin.script) is.
options:
  probe: {description: Path of the probe here., type: path, required: true}
  arguments: {description: Its arguments., type: list, elements: str, required: true}
"""
PLACES = '/tmp /var/tmp /dev/shm "$HOME"'
"""Where a probe may lie for a moment: the first that takes it, for disks are full and file systems read-only on hosts in trouble."""
COMMAND = """\
umask 077
for place in {places}; do
  folder=$(mktemp -d "$place/doctor-probe.XXXXXXXX" 2>/dev/null) || continue
  trap 'rm -rf "$folder"' EXIT
  head -c {size} /dev/zero 2>/dev/null >"$folder/probe" && break
  rm -rf "$folder"
  folder=
done
if [ -z "$folder" ]; then echo "doctor-probe: no room for it in any of {shown}" >&2; exit 4; fi
trap 'exit 5' HUP INT TERM
cat >"$folder/probe"
/bin/sh "$folder/probe" {arguments}
"""

ARGUMENTS = ("ssh_args", "ssh_common_args", "ssh_extra_args")
OFF = re.compile(r"(?i)StrictHostKeyChecking[\s=]+[\"']?(no|off)\b")
"""Host-key checking is never switched off, by an inventory's variables or a configuration either."""


class ActionModule(ActionBase):
    """The action of an audit's one task."""

    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("probe", "arguments"))
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """{"rc", "stdout", "stderr"} of the probe."""
        result = super().run(tmp, task_vars)
        probe, arguments = self._task.args["probe"], self._task.args["arguments"]
        for name in ARGUMENTS:
            if OFF.search(self._given(name)):
                raise AnsibleActionFail(
                    f"{name} switches host-key checking off; accept-new is as far as it may go"
                )
        if not self._takes_input():
            return self._as_script(probe, arguments, task_vars)
        try:
            with open(probe, "rb") as file:
                payload = file.read()
        except OSError as error:
            raise AnsibleActionFail(f"cannot read the probe: {error}") from error
        command = COMMAND.format(
            places=PLACES,
            shown=PLACES.replace('"', ""),
            size=len(payload),
            arguments=shlex.join(arguments),
        )
        done = self._low_level_execute_command(
            f"/bin/sh -c {shlex.quote(command)}", in_data=payload, sudoable=True
        )
        result.update(done, changed=False, failed=done["rc"] != 0)
        return result

    def _takes_input(self):
        """Whether what runs there reads what is sent from here; before ansible-core 2.19 a become plugin does not say it, and su's does not."""
        become = self._connection.become
        through = become is None or getattr(become, "pipelining", become.name != "su")
        return self._connection.has_pipelining and through

    def _given(self, name):
        """An option of the connection as it holds; other connections than ssh have none."""
        try:
            return str(self._connection.get_option(name) or "")
        except KeyError:
            return ""

    def _as_script(self, probe, arguments, task_vars):
        task = self._task.copy()
        task.args = {"cmd": shlex.join([probe, *arguments]), "executable": "/bin/sh"}
        script = self._shared_loader_obj.action_loader.get(
            "ansible.builtin.script",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        return script.run(task_vars=task_vars)
