"""Which kernel the boot loader will start: GRUB with menu entries, GRUB with BLS entries, else the newest kernel in /boot.

What cannot be told is Unknown: a wrong answer here would hide, or invent, a host that does not come back with its GPUs.
"""

import re
from typing import Any, Dict, List, Tuple

from doctor.probes.fact import Fact, known, not_applicable, unknown
from doctor.probes.source import Source

GRUB_DIRS = ("/boot/grub2", "/boot/grub")
ENTRIES = "/boot/loader/entries"
Entry = Tuple[str, str, str]
"""(path of titles joined by >, path of ids joined by >, release)."""


def next_boot(src: Source) -> Fact:
    """The release that the next boot starts."""
    images = kernels_in_boot(src)
    if not images.ok:
        return images
    if not images.value:
        return not_applicable("no kernel in /boot: it is loaded from outside this system")
    folder = next((path for path in GRUB_DIRS if src.stat(path).state != "absent"), None)
    if folder is None:
        if src.stat("/boot/loader/loader.conf").ok or src.stat("/boot/efi/loader/loader.conf").ok:
            return unknown("systemd-boot's choice is not read", "/boot/loader/loader.conf")
        newest = max(images.value, key=release_key)
        return known(newest, "newest /boot/vmlinuz-* (no boot loader configuration found)")
    environment = src.read(folder + "/grubenv").map(parse_grubenv)
    if environment.state == "absent":
        environment = known({}, folder + "/grubenv")
    entries = src.listdir(ENTRIES)
    if entries.ok and any(name.endswith(".conf") for name in entries.value):
        return _from_bls(src, entries.value, environment)
    if entries.state == "unknown":
        return entries
    return _from_menu(src, folder, environment, images.value)


def kernels_in_boot(src: Source) -> Fact:
    """Releases with a /boot/vmlinuz-R, rescue images left out."""
    names = src.listdir("/boot")
    if names.state == "absent":
        return known([], "/boot")

    def releases(found: List[str]) -> List[str]:
        stems = [
            name.partition("-")[2] for name in found if name.startswith(("vmlinuz-", "vmlinux-"))
        ]
        return sorted(
            (stem for stem in stems if stem[:1].isdigit() and not stem.endswith(".old")),
            key=release_key,
        )

    return names.map(releases)


def release_key(release: str) -> Tuple[Any, ...]:
    """Orders kernel releases: runs of digits as numbers, a pre-release mark before its release."""
    return tuple(
        (1, int(part), "") if part.isdigit() else (0 if part in ("rc", "~") else 2, 0, part)
        for part in re.findall(r"\d+|rc|~|[a-zA-Z_]+", release)
    )


def parse_grubenv(text: str) -> Dict[str, str]:
    """saved_entry, next_entry and the like."""
    lines = [line for line in text.splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def parse_bls(text: str) -> Dict[str, str]:
    """title, version, linux, initrd, id of one loader entry."""
    pairs = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def release_of_image(path: str) -> str:
    """ "/boot/vmlinuz-6.8.0-45-generic" -> "6.8.0-45-generic"; "" when the name says nothing."""
    found = re.search(r"vmlinu[xz]-(\d\S*)$", path)
    return found.group(1) if found else ""


def _from_bls(src: Source, names: List[str], environment: Fact) -> Fact:
    entries: List[Tuple[str, str, str]] = []
    for name in names:
        if not name.endswith(".conf"):
            continue
        fact = src.read("%s/%s" % (ENTRIES, name)).map(parse_bls)
        if not fact.ok:
            return unknown(fact.reason or "gone", fact.via)
        release = release_of_image(fact.value.get("linux", "")) or fact.value.get("version", "")
        entries.append((name[: -len(".conf")], fact.value.get("title", ""), release))
    if not environment.ok:
        return environment
    ordered = sorted(entries, key=lambda entry: release_key(entry[2]), reverse=True)
    ordered = [entry for entry in ordered if "rescue" not in entry[0]] + [
        entry for entry in ordered if "rescue" in entry[0]
    ]
    chosen = environment.value.get("next_entry") or environment.value.get("saved_entry") or "0"
    if chosen.isdigit():
        index = int(chosen)
        return (
            known(ordered[index][2], ENTRIES)
            if index < len(ordered)
            else unknown("no entry %d" % index, ENTRIES)
        )
    for name, title, release in ordered:
        if chosen in (name, title):
            return known(release, "saved_entry of grubenv, " + ENTRIES)
    return unknown("the saved entry %s is not among the loader entries" % chosen[:120], ENTRIES)


def _from_menu(src: Source, folder: str, environment: Fact, images: List[str]) -> Fact:
    if not environment.ok:
        return environment
    config = src.read(folder + "/grub.cfg")
    if config.ok:
        entries = parse_menu(config.value)
        default = default_of(config.value, environment.value)
        release = choose(entries, default)
        if release:
            return known(release, folder + "/grub.cfg")
        return unknown(
            "the default entry %s names no kernel" % str(default)[:120], folder + "/grub.cfg"
        )
    if config.state == "absent":
        return known(images[-1], "newest /boot/vmlinuz-* (no grub.cfg)")
    return _from_defaults(src, environment.value, images, config)


def _from_defaults(
    src: Source, environment: Dict[str, str], images: List[str], denied: Fact
) -> Fact:
    """grub.cfg is root's; what generates it is not: the first entry is the newest kernel."""
    text = src.read("/etc/default/grub")
    extra = src.glob("/etc/default/grub.d/*.cfg")
    if not text.ok or not extra.ok:
        return denied
    settings = text.value
    for path in extra.value:
        part = src.read(path)
        if not part.ok:
            return denied
        settings += "\n" + part.value
    found = re.findall(r"^\s*GRUB_DEFAULT=[\"']?([^\"'\n]*)", settings, re.M)
    wanted = found[-1] if found else "0"
    if wanted == "saved":
        wanted = environment.get("saved_entry", "0")
    wanted = environment.get("next_entry") or wanted
    if wanted == "0":
        return known(images[-1], "/etc/default/grub: the first entry, the newest /boot/vmlinuz-*")
    named = [release for release in images if release in wanted]
    if named:
        return known(max(named, key=len), "/etc/default/grub, grubenv")
    return denied


def parse_menu(text: str) -> List[Entry]:
    """Entries of grub.cfg with the titles and ids of the submenus around them."""
    found: List[Entry] = []
    stack: List[Tuple[str, str, str]] = []
    for line in text.splitlines():
        bare = line.strip()
        head = re.match(r"(menuentry|submenu)\s+(?:'([^']*)'|\"([^\"]*)\"|(\S+))(.*)\{\s*$", bare)
        if head:
            title = head.group(2) or head.group(3) or head.group(4) or ""
            named = re.search(r"menuentry_id_option\s+'([^']*)'|--id[= ]'?([^'\s]+)", head.group(5))
            stack.append(
                (head.group(1), title, (named.group(1) or named.group(2)) if named else "")
            )
            if head.group(1) == "menuentry":
                found.append(_entry(stack, ""))
        elif bare == "}" and stack:
            stack.pop()
        elif stack and stack[-1][0] == "menuentry" and re.match(r"linux(16|efi)?\s+\S", bare):
            found[-1] = _entry(stack, release_of_image(bare.split()[1]))
    return found


def _entry(stack: List[Tuple[str, str, str]], release: str) -> Entry:
    return ">".join(item[1] for item in stack), ">".join(item[2] for item in stack), release


def default_of(text: str, environment: Dict[str, str]) -> str:
    """What `set default=` comes to with this environment: next_entry once, else the saved or the fixed entry."""
    if environment.get("next_entry"):
        return environment["next_entry"]
    found = re.findall(r"^\s*set default=[\"']?([^\"'\n]*)", text, re.M)
    fixed = [value for value in found if "next_entry" not in value]
    if not fixed:
        return "0"
    return (environment.get("saved_entry") or "0") if "saved_entry" in fixed[-1] else fixed[-1]


def choose(entries: List[Entry], default: str) -> str:
    """The release of the entry that a default names: by index, title or id, through submenus joined by >."""
    head, _, tail = default.partition(">")
    groups = _groups(entries)
    if head.isdigit():
        group = groups[int(head)] if int(head) < len(groups) else []
    else:
        group = next((group for group in groups if _is_called(group[0], head)), [])
    if not tail and not head.isdigit() and not group:
        return next((entry[2] for entry in entries if _ends_in(entry, head)), "")
    if not tail:
        return group[0][2] if group else ""
    if tail.isdigit():
        return group[int(tail)][2] if int(tail) < len(group) else ""
    return next((entry[2] for entry in group if _ends_in(entry, tail)), "")


def _groups(entries: List[Entry]) -> List[List[Entry]]:
    """The top level of the menu: a plain entry alone, a submenu with its entries."""
    groups: List[List[Entry]] = []
    for entry in entries:
        top, inside, _ = entry[0].partition(">")
        if inside and groups and groups[-1][-1][0].startswith(top + ">"):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


def _is_called(entry: Entry, name: str) -> bool:
    return name in (entry[0].partition(">")[0], entry[1].partition(">")[0])


def _ends_in(entry: Entry, name: str) -> bool:
    return name in (entry[0].rpartition(">")[2], entry[1].rpartition(">")[2], entry[0], entry[1])
