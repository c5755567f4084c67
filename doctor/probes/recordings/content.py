"""Contents of files, by what stands in them: some have an allow-list, all lose secrets and identity."""

import json
import re
from typing import Any, Dict, Match

from doctor.probes.recordings import public, secret, variable
from doctor.probes.recordings.identity import HOST_FILES, SERIAL_FILES, json_object
from doctor.probes.recordings.pseudonym import Pseudonyms

_LOGS = re.compile(r"(?:/var/log/(?:kern|messages|syslog|dmesg)|/dev/kmsg)")
_BOOT_LINE = re.compile(
    r"(?m)^(?P<head>\s*(?:options|linux(?:16|efi)?\s+\S+|.*[Cc]ommand line:|(?:export\s+)?GRUB_CMDLINE_LINUX\w*=\"?|kernelopts=))(?P<rest>[^\"\n]*)"
)
_UNIT_ENVIRONMENT = re.compile(r"(?m)^(?P<head>\s*Environment=)(?P<rest>.*)$")
_ITEM = re.compile(
    r"\"(?P<quoted>[A-Za-z_]\w*=[^\"]*)\"|'(?P<single>[A-Za-z_]\w*=[^']*)'|(?P<bare>[A-Za-z_]\w*=\S*)"
)
_REMOTE_MOUNT = re.compile(
    r"(?m)^(?P<host>[^\s/:]+|\[[0-9a-fA-F:]+\]|(?<=//)[^\s/]+):(?P<path>/\S*)(?= \S+ (?:nfs4?|ceph|lustre|glusterfs|beegfs)\b)"
)
_SHARE = re.compile(r"(?m)^//(?P<host>[^\s/]+)/(?P<path>\S*)(?= \S+ (?:cifs|smb3)\b)")
_MOUNT_USER = re.compile(
    r"(?P<head>\b(?:username|user|credentials|lowerdir|upperdir|workdir)=)(?P<value>[^\s,]+)"
)
_REQUESTED = re.compile(r"(?m)^(?P<head>Requested-By: )(?P<user>\S+)")
_LIST_FILE = re.compile(r"(?P<head>/var/lib/apt/lists/(?:partial/)?)(?P<name>[^/\s]+)")
_SHM_FILE = re.compile(r"(?P<head>/dev/shm/)(?P<name>[^/\s]+)")
_DAEMON_KEYS = frozenset(
    "runtimes default-runtime exec-opts default-shm-size default-ulimits live-restore data-root features storage-driver "
    "storage-opts no-new-privileges userland-proxy icc selinux-enabled seccomp-profile cgroup-parent containerd "
    "default-cgroupns-mode default-ipc-mode cdi-spec-dirs node-generic-resources log-driver iptables ipv6 experimental "
    "userns-remap max-concurrent-downloads max-concurrent-uploads init shutdown-timeout default-address-pools hosts".split()
)
"""Keys of daemon.json that a doctor judges; mirrors, labels, proxies and log targets name their owner."""


class Content:
    """Rewrites file contents and command outputs with the names of one recording."""

    def __init__(self, names: Pseudonyms) -> None:
        self.names = names

    def text(self, text: str, addresses: bool = False) -> str:
        """Any text: secrets cut, identity renamed."""
        text = self.names.text(secret.cut(text), addresses)
        if "/dev/shm/" in text:
            text = _SHM_FILE.sub(
                lambda match: (
                    match.group("head") + public.shared_memory_name(match.group("name"), self.names)
                ),
                text,
            )
        return text

    def tree(self, value: Any) -> Any:
        """Nested JSON values."""
        return self.names.tree(secret.cut_tree(value))

    def path(self, path: str) -> str:
        """A file name."""
        if "/var/lib/apt/lists/" in path:
            path = _LIST_FILE.sub(self._list_name, path)
        return self.text(path)

    def _list_name(self, match: Match[str]) -> str:
        host, _, rest = match.group("name").partition("_")
        if "." in host and not public.is_public_host(host) and rest:
            kept = (
                public.public_path("/" + rest.replace("_", "/"), self.names)
                if "/" not in rest
                else rest
            )
            ending = rest.rpartition("_")[2]
            return (
                match.group("head")
                + self.names.name("host", host)
                + "_"
                + kept.strip("/").rpartition("/")[0].replace("/", "_")
                + "_"
                + ending
            )
        return match.group(0)

    def env(self, env: Dict[str, str]) -> Dict[str, str]:
        """Variables on the list; what a secret one holds is hidden."""
        return {
            name: secret.HIDDEN
            if secret.is_secret_name(name) and value
            else self._value(name, value)
            for name, value in variable.allowed(env).items()
        }

    def _value(self, name: str, value: str) -> str:
        if name == "SUDO_USER" and value != "root":
            return self.names.name("user", value)
        return self.text(value)

    def content(self, path: str, data: bytes) -> bytes:
        """The bytes of a file."""
        if path.startswith("/sys/bus/pci/devices/") and path.endswith("/config"):
            return without_serial_capability(data)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return self.names.blank(data)
        return self.file_text(path, text).encode("utf-8", "surrogatepass")

    def file_text(self, path: str, text: str) -> str:
        """The text of a file."""
        name = path.rpartition("/")[2]
        if path in HOST_FILES:
            return self.whole("host", text)
        if SERIAL_FILES.match(path):
            return self.whole("serial", text) if any(letter.isdigit() for letter in text) else text
        if path == "/proc/cmdline":
            text = public.kernel_arguments(text)
        elif path.endswith("/environ"):
            kept = [self.variable(item) for item in variable.assignments(text.split("\0"))]
            return "".join(item + "\0" for item in kept)
        elif re.match(r"/proc/\d+/cmdline\Z", path):
            return "\0".join(self.text(item) for item in secret.cut_arguments(text.split("\0")))
        elif path == "/var/lib/dpkg/status":
            text = public.package_status(text)
        elif name == "METADATA":
            text = public.metadata(text)
        elif name == "daemon.json":
            text = self._daemon(text)
        elif path.endswith("/.docker/config.json"):
            context = json_object(text).get("currentContext")
            kept_context = (
                context
                if not context or context == "default"
                else self.names.name("container", str(context))
            )
            return json.dumps({"currentContext": kept_context} if context else {})
        elif path.endswith("/meta.json") and "/contexts/meta/" in path:
            host = (json_object(text).get("Endpoints") or {}).get("docker", {}).get("Host")
            return json.dumps(
                {"Endpoints": {"docker": {"Host": self.text(str(host))} if host else {}}}
            )
        elif path == "/etc/resolv.conf":
            text = re.sub(r"(?m)^(search|domain)\s+(.*)$", self._domains, text)
        elif path == "/etc/hosts":
            text = re.sub(r"(?m)^(\s*[0-9A-Fa-f.:]+\s+)([^#\n]*)", self._hosts_line, text)
        addresses = path in ("/etc/hosts", "/etc/resolv.conf") or path.startswith("/proc/net/")
        text = self.text(self.settings(path, text), addresses)
        return public.log_lines(text) if _LOGS.match(path) else text

    def settings(self, path: str, text: str) -> str:
        """Lines that need an allow-list whatever file they stand in."""
        if (
            path.startswith(("/boot/", "/efi/", "/etc/default/grub", "/etc/kernel/"))
            or "ommand line:" in text
        ):
            text = _BOOT_LINE.sub(
                lambda match: (
                    match.group("head")
                    + (" " if not match.group("head").endswith('"') else "")
                    + public.kernel_arguments(match.group("rest"))
                ),
                text,
            )
        if "Environment=" in text:
            text = _UNIT_ENVIRONMENT.sub(
                lambda match: match.group("head") + _ITEM.sub(self._unit_item, match.group("rest")),
                text,
            )
        if path.endswith(("/mounts", "/mountinfo", "/etc/fstab")):
            text = _REMOTE_MOUNT.sub(self._mount, text)
            text = _SHARE.sub(
                lambda match: (
                    "//%s/%s"
                    % (
                        self.names.name("host", match.group("host")),
                        self.names.name("path", match.group("path")),
                    )
                ),
                text,
            )
            text = _MOUNT_USER.sub(lambda match: match.group("head") + "hidden", text)
        return _REQUESTED.sub(
            lambda match: (
                match.group("head")
                + (
                    match.group("user")
                    if match.group("user") == "root"
                    else self.names.name("user", match.group("user"))
                )
            ),
            text,
        )

    def whole(self, kind: str, text: str) -> str:
        """A text that is one name and nothing else."""
        value = text.strip("\0 \n")
        return text.replace(value, self.names.name(kind, value)) if value else text

    def variable(self, item: str) -> str:
        """NAME=VALUE of a variable that is on the list."""
        name, _, value = item.partition("=")
        return (
            name
            + "="
            + (secret.HIDDEN if secret.is_secret_name(name) and value else self.text(value))
        )

    def _unit_item(self, match: Match[str]) -> str:
        item = match.group("quoted") or match.group("single") or match.group("bare")
        name = item.partition("=")[0]
        shown = item if variable.may_be_recorded(name) else name + "=(hidden)"
        quote = '"' if match.group("quoted") else "'" if match.group("single") else ""
        return quote + shown + quote

    def _mount(self, match: Match[str]) -> str:
        return "%s:/%s" % (
            self.names.name("host", match.group("host")),
            self.names.name("path", match.group("path").strip("/")),
        )

    def _domains(self, match: Match[str]) -> str:
        words = [
            word if word == "." or public.is_public_host(word) else self.names.name("host", word)
            for word in match.group(2).split()
        ]
        return match.group(1) + " " + " ".join(words)

    def _hosts_line(self, match: Match[str]) -> str:
        usual = ("localhost", "ip6-", "ip6_", "host-")
        words = [
            word if word.startswith(usual) else self.names.name("host", word)
            for word in match.group(2).split()
        ]
        return match.group(1) + " ".join(words) + ("\n" if match.group(2).endswith("\n") else "")

    def _daemon(self, text: str) -> str:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if not isinstance(value, dict):
            return text
        return json.dumps(
            {key: item for key, item in value.items() if key in _DAEMON_KEYS}, indent=2
        )


def without_serial_capability(data: bytes) -> bytes:
    """PCI configuration space without its Device Serial Number (extended capability 3 holds a MAC or board number)."""
    changed = bytearray(data)
    at, seen = 0x100, 0
    while at and at + 12 <= len(changed) and seen < 64:
        header = int.from_bytes(changed[at : at + 4], "little")
        if header & 0xFFFF == 3:
            changed[at + 4 : at + 12] = bytes(8)
        at, seen = header >> 20 & 0xFFC, seen + 1
    return bytes(changed)
