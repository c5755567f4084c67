"""Where a session has pip get its packages: a mirror that its environment names comes before the public indexes.

What the host's own files say (/etc/pip.conf) the role engine_env reads where it works, on this host as on others.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from doctor.redact import redact
from doctor.remedy import trust

SOURCES = ("index-url", "extra-index-url", "find-links", "no-index")
"""Settings that say where packages come from."""
LEFT_OUT = ("PIP_LOG", "PIP_TARGET", "PIP_PREFIX")
"""They say where packages go to, and that the role says itself."""


def pip_settings(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """pip's variables of this session; empty where none of them says where packages come from."""
    own = {key: value for key, value in environ.items() if key.startswith("PIP_")}
    named = any(f"PIP_{name.upper().replace('-', '_')}" in own for name in SOURCES)
    file = own.get("PIP_CONFIG_FILE", "")
    if not named and not _names_sources(Path(file)):
        return {}
    if file not in ("", os.devnull) and os.geteuid() == 0:
        _must_be_roots(Path(file))
    return {"PIP_CONFIG_FILE": "", **{key: own[key] for key in own if key not in LEFT_OUT}}


def _must_be_roots(file: Path) -> None:
    problem = trust.not_own(file)
    if problem is not None:
        raise trust.TrustError(
            f"as root the doctor installs nothing from where others say: PIP_CONFIG_FILE: {problem}",
            "put it into /etc/pip.conf, or start without PIP_CONFIG_FILE",
        )


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
