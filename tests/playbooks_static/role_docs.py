"""README.md of playbooks/ and of each role, made from meta/. `python -m tests.playbooks_static.role_docs` writes them anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
ROLES = sorted(path.parent.parent for path in PLAYBOOKS.glob("roles/*/meta/main.yml"))
DISTURBS = {
    "none": "nothing that runs",
    "service": "a service: it is restarted",
    "gpu": "programs on the GPU",
    "reboot": "everything: it needs a reboot",
}
UNDO = {
    "exact": "`doctor undo` brings back packages, files and unit states as they were",
    "best-effort": "`doctor undo` brings back what it can and names the rest",
    "none": "cannot be undone",
}
HEAD = """\
# Playbooks

`audit.yml` sends the probe to hosts and takes their answers: `action_plugins/` sends it on standard input, `callback_plugins/` spools what
comes. `remedy.yml` applies one role to its targets, `reboot.yml` reboots them. The doctor runs these with variables from its planner;
versions and package names are never a role's defaults. By hand: `ansible-playbook -i INVENTORY remedy.yml -e doctor_remedy=ROLE -e @vars.json`.

## Roles

| role | what it changes | disturbs | undo | cures |
|---|---|---|---|---|
"""
TAIL = """
Other roles that these use: {others}.

## Modules

`library/` has what ansible-core lacks; each supports check mode and diff, and its logic is in `module_utils/`, tested without Ansible.

| module | what it does |
|---|---|
{modules}

Values inside `set:` keep their types when the whole value is one expression: `set: "{{{{ some_dict }}}}"`.

## Add a role

A folder in `roles/` with `tasks/main.yml`, `meta/main.yml`, `meta/argument_specs.yml` and `meta/remedy.yml` (see doctor/plan/remedy.py).
Variables begin with the role's name, private ones with `__` before it; what differs by distribution is in `vars/`, the least
specific file first: `Debian`, `RedHat`, `RedHat_9`, `Ubuntu`, `Ubuntu_24`, `Ubuntu_24.04`. A role never reboots: it reports
`doctor_reboot_required` by set_stats. Then `python -m tests.playbooks_static.role_docs` writes this file and the role's own.
"""


def load(path: Path) -> Any:
    """A YAML file, None where it is not there."""
    return yaml.safe_load(path.read_text()) if path.is_file() else None


def options(role: Path) -> dict[str, dict[str, Any]]:
    """The variables of a role's main entry."""
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    return specs["main"].get("options") or {}


def playbooks_readme() -> str:
    """The table of roles and modules."""
    rows, others = [], []
    for role in ROLES:
        remedy = load(role / "meta/remedy.yml")
        if remedy is None:
            others.append(f"`{role.name}`")
            continue
        cures = ", ".join(f"`{item}`" for item in remedy["answers"])
        rows.append(
            f"| `{role.name}` | {remedy['say']} | {remedy['disturbs']} | {remedy['undo']} | {cures} |"
        )
    modules = []
    for path in sorted(PLAYBOOKS.glob("library/*.py")):
        docs = path.read_text().partition('DOCUMENTATION = r"""')[2].partition('"""')[0]
        modules.append(f"| `{path.stem}` | {yaml.safe_load(docs)['short_description']} |")
    tail = TAIL.format(others=", ".join(others), modules="\n".join(modules))
    return HEAD + "\n".join(rows) + "\n" + tail


def role_readme(role: Path) -> str:
    """One role: outcome, variables, what it disturbs, how it is undone, what a dry run cannot see."""
    remedy = load(role / "meta/remedy.yml")
    said = remedy["say"] if remedy else load(role / "meta/main.yml")["galaxy_info"]["description"]
    lines = [f"# {role.name}", "", said[0].upper() + said[1:] + ".", ""]
    found = options(role)
    if found:
        lines += ["| variable | type | required | meaning |", "|---|---|---|---|"]
        for name, spec in sorted(
            found.items(), key=lambda item: not item[1].get("required", False)
        ):
            kind = spec.get("type", "str")
            needed = "yes" if spec.get("required") else "no"
            meaning = " ".join(str(spec["description"]).split())
            choice = f" One of {', '.join(map(str, spec['choices']))}." if "choices" in spec else ""
            lines.append(f"| `{name}` | {kind} | {needed} | {meaning}{choice} |")
        lines.append("")
    if remedy:
        limits = remedy["check_mode"].partition(": ")[2]
        lines += [
            f"- Disturbs {DISTURBS[remedy['disturbs']]}.",
            f"- Undo: {UNDO[remedy['undo']]}.",
            f"- Dry run: {limits or 'shows everything'}.",
            f"- For {', '.join(remedy['families'])}."
            if "families" in remedy
            else "- For debian, rhel.",
            "- A second run changes nothing. It never reboots; what only a reboot brings about is reported.",
        ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write them all."""
    (PLAYBOOKS / "README.md").write_text(playbooks_readme())
    for role in ROLES:
        if (role / "meta/argument_specs.yml").is_file():
            (role / "README.md").write_text(role_readme(role))


if __name__ == "__main__":
    main()
