"""What the recipes' tests share: what must be said, a value that breaks bad quoting, and a doctor that ends as it is told."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from doctor.recipes import recipe as book

NEEDED = {
    "cloud-init": ["package=gpu-host-doctor"],
    "packer": ["package=gpu-host-doctor"],
    "kubernetes-job": ["image=registry.example/gpu-host-doctor@sha256:0"],
    "kubernetes-daemonset": [
        "image=registry.example/gpu-host-doctor@sha256:0",
        "selector=nvidia.com/gpu.present=true",
    ],
    "github-actions": ["runner=gpu"],
    "gitlab-ci": ["tag=gpu"],
    "systemd-fleet-service": ["inventory=/etc/ansible/hosts"],
}
"""Recipe -> its variables without a default."""
HOSTILE = """image:it's "a" $(touch pwned) `touch pwned` ${HOME} %h %{x} {{ y }} ${{ z }} \\ #; touch pwned"""
"""A want that has everything that any of the places gives a meaning to."""


def made(name: str, *said: str) -> str:
    """A recipe with what it needs."""
    return book.render(book.recipe(name), [*NEEDED.get(name, []), *said])


class FakeDoctor:
    """A folder like the doctor's environment whose command writes down how it was called."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.command = folder / "bin" / "doctor"
        self._calls = folder / "calls"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").symlink_to(sys.executable)
        self.command.write_text(_COMMAND.format(python=sys.executable, home=str(folder)))
        self.command.chmod(0o755)
        self.ends()

    def ends(self, code: int = 0, said: Any = None, verb: str = "") -> None:
        """How it ends from now on, and what it prints or writes into the file of -o; one verb, if it is named."""
        (self.home / f"ends{verb}").write_text(json.dumps([code, said]))

    def calls(self) -> list[list[str]]:
        """The arguments of each call so far."""
        if not self._calls.exists():
            return []
        return [json.loads(line) for line in self._calls.read_text().splitlines()]


_COMMAND = """\
#!{python}
import json, os, sys
home = {home!r}
words = sys.argv[1:]
with open(home + "/calls", "a") as file:
    file.write(json.dumps(words) + "\\n")
own = home + "/ends" + words[0]
code, said = json.load(open(own if os.path.exists(own) else home + "/ends"))
if said is not None:
    text = said if isinstance(said, str) else json.dumps(said)
    if "-o" in words:
        open(words[words.index("-o") + 1], "w").write(text)
    else:
        print(text)
sys.exit(code)
"""


def report(next_: dict[str, str] | None, findings: list[dict[str, Any]] | None = None) -> Any:
    """As much of a report as a script reads."""
    return {"schema": "doctor.report/1", "next": next_, "findings": findings or []}


def block(text: str, key: str) -> str:
    """The script of a literal block `key: |` or `- |`, as YAML gives it; the first of them."""
    found: list[str] = []

    def walk(item: Any) -> None:
        if isinstance(item, dict):
            for name, value in item.items():
                if name == key:
                    found.extend([value] if isinstance(value, str) else value)
                walk(value)
        elif isinstance(item, list):
            for value in item:
                walk(value)

    walk(yaml.safe_load(text))
    return found[0]


def scripts() -> dict[str, str]:
    """Every shell script of the recipes."""
    want = 'want=image:it\'s "a"; b'
    cloud = made("cloud-init", want)
    files = yaml.safe_load(cloud)["write_files"]
    return {
        "cloud-init": files[0]["content"],
        "cloud-init-boot": files[1]["content"],
        "slurm-healthcheck": made("slurm-healthcheck", want, "resume=yes"),
        "slurm-healthcheck-leave": made("slurm-healthcheck", want, "unsure=leave"),
        "slurm-prolog": made("slurm-prolog", want),
        "kubernetes-daemonset": "#!/bin/sh\n"
        + block(made("kubernetes-daemonset", want), "args").replace("$$(", "$("),
        "github-actions": "#!/bin/bash\n" + block(made("github-actions", want), "run"),
        "gitlab-ci": "#!/bin/bash\n" + block(made("gitlab-ci", want), "script"),
        **{
            f"packer-{number}": "#!/bin/sh\n" + text
            for number, text in enumerate(heredocs(made("packer", want)))
        },
    }


def heredocs(text: str) -> list[str]:
    """The scripts of a Packer template, as HCL gives them."""
    found = re.findall(r"<<EOT\n(.*?)^EOT$", text, re.DOTALL | re.MULTILINE)
    return [item.replace("$${", "${").replace("%%{", "%{") for item in found]
