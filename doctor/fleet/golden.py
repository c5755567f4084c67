"""What hosts should look like, learned from one of them or from their majority, and kept as a file that people can read and edit."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from doctor.errors import UsageError
from doctor.fleet import likeness
from doctor.fleet.model import FleetReport, HostLine
from doctor.fleet.trait_list import BY_PATH

SCHEMA = "doctor.golden/1"


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traits that the hosts of a group should have."""

    groups: tuple[str, ...] = ("*",)
    """Globs over inventory groups and learned ones (`alike: ...`)."""
    traits: dict[str, str]


class Golden(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Profiles; the first whose group matches holds."""

    schema: str = SCHEMA
    name: str
    learned_from: str = ""
    """The host, or how many hosts of which audit."""
    as_of: str = ""
    profiles: list[Profile]
    host: str = ""
    """The inventory name of the host it is, which is not compared with itself."""

    def profile(self, group: str, inventory_groups: list[str]) -> dict[str, str] | None:
        """What holds for hosts of the group, None when nothing does."""
        for profile in self.profiles:
            names = (group, *inventory_groups)
            if any(fnmatchcase(name, glob) for name in names for glob in profile.groups):
                return profile.traits
        return None


def of_host(line: HostLine, as_of: str) -> Golden:
    """One host's traits, for all. UsageError when it was not audited: then it shows nothing."""
    if line.state != "audited" or not line.traits:
        raise UsageError(f"{line.name} was not audited ({line.state})", "name a host that was")
    return Golden(
        name=line.name,
        learned_from=line.name,
        as_of=as_of,
        profiles=[Profile(traits=line.traits)],
        host=line.name,
    )


def of_majority(fleet: FleetReport, group: str = "*") -> Golden:
    """What is usual in each group, one profile for groups in which the same is. UsageError when nothing is."""
    profiles: dict[tuple[tuple[str, str], ...], list[str]] = {}
    hosts = 0
    for name, members in likeness.partition(fleet.hosts).items():
        if not fnmatchcase(name, group):
            continue
        usual = likeness.usual(members) if len(members) >= likeness.SMALLEST else {}
        if usual:
            profiles.setdefault(tuple(usual.items()), []).append(_exactly(name))
            hosts += len(members)
    if not profiles:
        raise UsageError(
            f"no group of {likeness.SMALLEST} audited hosts or more has anything usual",
            "learn from one host instead: doctor fleet learn AUDIT --host NAME",
        )
    return Golden(
        name=f"majority of {hosts} hosts",
        learned_from=f"{hosts} hosts of audit {fleet.audit}",
        as_of=fleet.judged_as_of,
        profiles=[
            Profile(groups=tuple(groups), traits=dict(usual)) for usual, groups in profiles.items()
        ],
    )


def _exactly(name: str) -> str:
    return name.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")


def chosen(what: str, lines: dict[str, HostLine], as_of: str) -> Golden:
    """`--golden`: a file, or a host of the audit."""
    if what in lines:
        return of_host(lines[what], as_of)
    file = Path(what)
    if not file.is_file():
        raise UsageError(
            f"{what} is neither a file nor a host of this audit", "see doctor fleet learn"
        )
    return read(file)


def read(file: Path) -> Golden:
    """A golden file; UsageError names it and what is wrong."""
    import yaml

    try:
        found = msgspec.convert(yaml.safe_load(file.read_text(encoding="utf-8")), Golden)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", "name a readable file") from None
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file}: {str(error).splitlines()[0]}", "see doctor fleet learn"
        ) from None
    if found.schema != SCHEMA:
        raise UsageError(f"{file}: its schema is {found.schema!r}", f"this doctor reads {SCHEMA}")
    unknown = sorted({path for item in found.profiles for path in item.traits} - set(BY_PATH))
    if unknown:
        raise UsageError(f"{file}: no trait is called {unknown[0]!r}", _near(unknown[0]))
    return found


def _near(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, BY_PATH, 1)
    return f"did you mean {near[0]}?" if near else "doctor fleet learn writes those there are"


def write(golden: Golden) -> str:
    """As YAML, each version a quoted string."""
    import yaml

    text: str = yaml.safe_dump(
        msgspec.to_builtins(golden), sort_keys=False, allow_unicode=True, width=120
    )
    return text
