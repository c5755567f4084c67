"""Where this host's owner has pip get its packages: a mirror that the environment or a configuration file names comes before the public indexes."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from doctor.redact import redact
from doctor.remedy import trust

PIP_FILES = ("/etc/pip.conf", "/etc/xdg/pip/pip.conf")
"""Settings of the host's owner; a user's own are not root's."""
SOURCES = ("index-url", "extra-index-url", "find-links", "no-index")
"""Settings that say where packages come from."""
LEFT_OUT = ("PIP_LOG", "PIP_TARGET", "PIP_PREFIX")
"""They say where packages go to, and that the role says itself."""


def pip_settings(
    environ: Mapping[str, str] = os.environ, files: Sequence[str] = PIP_FILES
) -> dict[str, str]:
    """pip's variables by which this host gets its packages; empty where nobody says that it is not from the public indexes."""
    own = {key: value for key, value in environ.items() if key.startswith("PIP_")}
    named = any(f"PIP_{name.upper().replace('-', '_')}" in own for name in SOURCES)
    read = [file for file in (own.get("PIP_CONFIG_FILE"), *files) if file]
    if not named and not any(_names_sources(Path(file)) for file in read):
        return {}
    if own.get("PIP_CONFIG_FILE", os.devnull) != os.devnull:
        trust.require(extra=[Path(own["PIP_CONFIG_FILE"])])
    return {"PIP_CONFIG_FILE": "", **{key: own[key] for key in own if key not in LEFT_OUT}}


def _names_sources(file: Path) -> bool:
    parser = configparser.RawConfigParser()
    try:
        parser.read(file, encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError):
        return False
    return any(name in parser[section] for section in parser.sections() for name in SOURCES)


def told(pip: Mapping[str, str]) -> dict[str, Any]:
    """What the role engine_env is told of these settings: pip reads them, and the plan's indexes give way."""
    return {"engine_env_pip": dict(pip), "engine_env_indexes": []} if pip else {}


def may_be_kept(pip: Mapping[str, str]) -> bool:
    """Whether none of them carries a password: what is kept with a run is read by whoever asks what it did."""
    return all(redact(value) == value for value in pip.values())
