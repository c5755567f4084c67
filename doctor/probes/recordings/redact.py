"""Takes what identifies a host, its people and its secrets out of a whole recording, consistently.

Two passes: what names the host is learnt from where it stands (host name, users, serials, UUIDs), then every content,
file name, argument, variable and answer is rewritten. Contents with an allow-list lose what is not on it.
"""

import json
import re
from typing import Any, Dict, Iterable, List, Tuple

from doctor.probes.recordings import docker_answer, public, secret, variable
from doctor.probes.recordings.content import Content
from doctor.probes.recordings.identity import Documents, learn, reserve
from doctor.probes.recordings.pseudonym import Pseudonyms


def redact(documents: Documents, known: Iterable[Tuple[str, str]] = ()) -> Documents:
    """The recording without identity and secrets. `known`: (kind, value) of this host, as the recorder saw them."""
    names = Pseudonyms()
    reserve(documents, names)
    for kind, value in known:
        names.learn(kind, value)
    learn(documents, names)
    return _Rewriter(names).recording(documents)


class _Rewriter:
    """Second pass: every text of the recording."""

    def __init__(self, names: Pseudonyms) -> None:
        self.names = names
        self.to = Content(names)

    def recording(self, documents: Documents) -> Documents:
        cuda = [
            dict(self.to.tree(look), **({"env": self.to.env(look["env"])} if "env" in look else {}))
            for look in documents.get("cuda", [])
        ]
        return {
            "manifest": dict(self.to.tree(documents.get("manifest", {})), redacted=True),
            "files": {
                self.to.path(path): self.to.content(path, data)
                for path, data in documents.get("files", {}).items()
            },
            "paths": self.paths(documents.get("paths", {})),
            "process": self.process(documents.get("process", {})),
            "cmds": [self.command(record) for record in documents.get("cmds", [])],
            "nvml": self.nvml(documents.get("nvml", {})),
            "cuda": cuda,
            "http": {
                self.to.path(key): self.answer(key, record)
                for key, record in documents.get("http", {}).items()
            },
        }

    def process(self, process: Dict[str, Any]) -> Dict[str, Any]:
        shown = {key: item for key, item in process.items() if key != "env"}
        return dict(self.to.tree(shown), env=self.to.env(process.get("env", {})))

    def paths(self, paths: Dict[str, Dict[str, Any]]) -> Dict[str, Dict[str, Any]]:
        renamed = {}
        for path, record in paths.items():
            record = dict(record)
            if isinstance(record.get("entries"), list):
                names = public.entries(path, record["entries"])
                record["entries"] = sorted(self.entry(path, name) for name in names)
            if isinstance(record.get("target"), str):
                record["target"] = self.target(path, record["target"])
            renamed[self.to.path(path)] = record
        return renamed

    def entry(self, folder: str, name: str) -> str:
        """A name in a folder, as the path that leads to it would be renamed."""
        return self.to.path(folder.rstrip("/") + "/" + name).rpartition("/")[2]

    def target(self, path: str, target: str) -> str:
        if target.startswith("/"):
            return self.to.path(target)
        folder = path.rpartition("/")[0]
        return (
            self.to.path(folder + "/" + target)[len(self.to.path(folder + "/")) :]
            if "../" not in target
            else self.to.path(target)
        )

    def command(self, record: Dict[str, Any]) -> Dict[str, Any]:
        argv = list(record["argv"])
        renamed = dict(record)
        renamed["argv"] = [self.to.path(item) for item in secret.cut_arguments(argv)]
        renamed["env"] = {
            key: self.to.text(value) for key, value in (record.get("env") or {}).items()
        }
        for stream in ("stdout", "stderr"):
            renamed[stream] = self.output(argv, record.get(stream) or b"")
        return renamed

    def output(self, argv: List[str], data: bytes) -> bytes:
        """What a command printed."""
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return self.names.blank(data)
        name = argv[0].rpartition("/")[2]
        if name == "hostname" or argv[:2] == ["uname", "-n"]:
            return self.to.whole("host", text).encode("utf-8", "surrogatepass")
        if name == "uname":
            text = re.sub(
                r"\ALinux (\S+) ",
                lambda match: "Linux %s " % self.names.name("host", match.group(1)),
                text,
            )
        addresses = name in ("ip", "hostname", "ss", "netstat", "resolvectl", "chronyc")
        text = self.to.text(self.to.settings("", text), addresses)
        if name in ("dmesg", "journalctl"):
            text = public.log_lines(text)
        return text.encode("utf-8", "surrogatepass")

    def nvml(self, document: Dict[str, Any]) -> Dict[str, Any]:
        calls = {}
        for function, answers in (document.get("calls") or {}).items():
            calls[function] = {
                key: dict(answer, value=self.nvml_value(function, answer["value"]))
                if "value" in answer
                else answer
                for key, answer in answers.items()
            }
        shown = {key: value for key, value in document.items() if key != "calls"}
        return dict(self.names.tree(shown), calls=calls) if document else {}

    def nvml_value(self, key: str, value: Any) -> Any:
        """An NVML answer; numbers that only one cluster or board has become zero, serials are renamed."""
        if re.search(r"(?i)clusteruuid|serial", key):
            if isinstance(value, str):
                return self.names.name("serial", value) if value.strip("\0") else value
            return [0] * len(value) if isinstance(value, list) else value
        if isinstance(value, dict):
            return {name: self.nvml_value(name, item) for name, item in value.items()}
        if isinstance(value, list):
            return [
                self.nvml_value(key, item) if isinstance(item, dict) else item for item in value
            ]
        return self.to.text(value) if isinstance(value, str) else value

    def answer(self, key: str, record: Dict[str, Any]) -> Dict[str, Any]:
        """An HTTP answer of a container engine: fields on the list only."""
        if "body" not in record:
            return record
        target = key.rpartition(" GET ")[2]
        try:
            value = json.loads(record["body"].decode("utf-8"))
        except (ValueError, RecursionError):
            return dict(record, body=b"(not JSON)")
        if record.get("status") != 200:
            return dict(
                record, body=json.dumps({"message": self.to.text(str(value)[:200])}).encode()
            )
        shown = docker_answer.allowed(target, value, self.engine_value)
        if shown is None:
            return {"error": "not recorded: no list says which of its fields may be"}
        return dict(record, body=json.dumps(shown).encode())

    def engine_value(self, kind: str, value: Any) -> Any:
        """One listed value of an engine's answer."""
        if isinstance(value, list):
            if kind == docker_answer.ENV:
                return [
                    self.to.variable(item) for item in variable.assignments(list(map(str, value)))
                ]
            if kind == docker_answer.ARGS:
                return [self.to.text(item) for item in secret.cut_arguments(list(map(str, value)))]
            return [self.engine_value(kind, item) for item in value]
        if kind == docker_answer.LABELS:
            return self.to.tree(public.labels(value))
        if not isinstance(value, str):
            return self.to.tree(value)
        if kind == docker_answer.IMAGE:
            return public.image(value, self.names)
        if kind == docker_answer.HOST:
            return self.names.name("host", value) if value else value
        if kind == docker_answer.CONTAINER:
            return self.container_name(value)
        if kind == docker_answer.PLACE:
            return public.place(self.to.text(value), self.names)
        return self.to.text(value, addresses=kind == docker_answer.ADDRESS)

    def container_name(self, text: str) -> str:
        """A container or network by name; the modes that name neither stay."""
        if text.startswith("/"):
            return "/" + self.names.name("container", text[1:])
        if text in ("", "none", "host", "bridge", "default", "private", "shareable"):
            return text
        if text.startswith("container:"):
            return "container:" + self.to.text(text[len("container:") :])
        return self.names.name("container", text)
