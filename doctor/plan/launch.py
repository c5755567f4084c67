"""A command line or compose file that is about to be run: containers, engine commands and their options. Reads, and judges nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import UsageError
from doctor.plan.container_line import Container, parse_run, parse_service
from doctor.plan.want import ImageWant

MAX_FILE = 256 * 1024
EXAMPLE = (
    "write launch:'vllm serve MODEL ...', launch:'docker run ... IMAGE ...' or launch:compose.yml"
)
_TAG = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:\.post\d+|rc\d+)?)")
_BREAKS = {";", "|", "||", "&&", ">", ">>", "<"}


class EngineCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One engine and its options. `version` is known where an image's tag says it."""

    command: str
    """vllm serve or trtllm-serve."""
    model: str | None = None
    options: dict[str, str | None] = {}
    """--name -> value; None for a switch."""
    image: str | None = None
    version: str | None = None
    env: dict[str, str] = {}
    container: Container | None = None

    def number(self, *names: str) -> int | None:
        """The value of the first option that is there, with 8k and 1M as vLLM reads them."""
        for name in names:
            value = self.options.get(name)
            match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", value or "")
            if match:
                factor = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20}[match[2]]
                return int(float(match[1]) * factor)
        return None

    def has(self, *names: str) -> bool:
        """Whether an option is there."""
        return any(name in self.options for name in names)

    @property
    def gpus(self) -> int:
        """GPUs that it will want on this host."""
        tensor = (
            self.number("--tensor-parallel-size", "--tensor_parallel_size", "--tp_size", "-tp") or 1
        )
        pipeline = (
            self.number("--pipeline-parallel-size", "--pipeline_parallel_size", "--pp_size", "-pp")
            or 1
        )
        data = self.number("--data-parallel-size", "-dp") or 1
        return tensor * pipeline * data


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a launch starts."""

    containers: tuple[Container, ...] = ()
    engines: tuple[EngineCommand, ...] = ()

    def image_wants(self, spec: str) -> list[ImageWant]:
        """Its images, as if each had been asked for."""
        return [ImageWant(spec=spec, ref=item.image) for item in self.containers]

    def summary(self) -> str:
        """What it starts, in a line."""
        parts = [
            f"{item.command} {item.model or ''}".strip()
            + (f" in {item.image}" if item.image else "")
            for item in self.engines
        ]
        bare = [
            item.image
            for item in self.containers
            if not any(engine.container is item for engine in self.engines)
        ]
        return ", ".join([*parts, *bare]) or "nothing that is known here"


def read_launch(argument: str) -> Launch:
    """A line or a compose file, or UsageError with what is wrong."""
    path = Path(argument)
    if re.fullmatch(r"[^\s'\"]+\.ya?ml", argument):
        return _compose(path)
    try:
        lexer = shlex.shlex(argument.replace("\\\n", " "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError as error:
        raise UsageError(
            f"--want launch: the line cannot be split: {error}", "close its quotes"
        ) from None
    while words and words[-1] in ("&", ";"):
        words.pop()
    broken = next((word for word in words if word in _BREAKS), None)
    if broken is not None:
        raise UsageError(
            f"--want launch: {broken} makes it more than one command", "give one command"
        )
    return _line(words)


def _line(words: Sequence[str]) -> Launch:
    env, rest = _leading_environment(words)
    for position, word in enumerate(rest[:4]):
        name = word.rpartition("/")[2]
        if name in ("docker", "podman", "nerdctl") and "run" in rest[position + 1 : position + 3]:
            container = parse_run(rest, rest.index("run", position) + 1)
            engine = _engine_in(container)
            return Launch(containers=(container,), engines=(engine,) if engine else ())
    engine = _engine(rest, env)
    if engine is None:
        raise UsageError(
            f"--want launch: {' '.join(rest[:2]) or 'the line'} is no engine and no container",
            EXAMPLE,
        )
    return Launch(engines=(engine,))


def _leading_environment(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    env: dict[str, str] = {}
    rest = list(words)
    while rest and (
        rest[0] in ("sudo", "env", "exec", "nohup")
        or re.fullmatch(r"[A-Za-z_]\w*=.*", rest[0], re.DOTALL)
    ):
        word = rest.pop(0)
        if "=" in word:
            name, _, value = word.partition("=")
            env[name] = "(set)" if re.search("KEY|TOKEN|SECRET", name, re.IGNORECASE) else value
    return env, rest


def _engine(words: Sequence[str], env: dict[str, str]) -> EngineCommand | None:
    """`vllm serve`, the older module, or trtllm-serve."""
    for position, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name == "vllm" and words[position + 1 : position + 2] == ["serve"]:
            return _command("vllm serve", words[position + 2 :], env)
        if word == "vllm.entrypoints.openai.api_server":
            return _command("vllm serve", words[position + 1 :], env)
        if name == "trtllm-serve":
            start = position + 1 + (words[position + 1 : position + 2] == ["serve"])
            return _command("trtllm-serve", words[start:], env)
    return None


def _command(command: str, words: Sequence[str], env: dict[str, str]) -> EngineCommand:
    options: dict[str, str | None] = {}
    model: str | None = None
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-") or re.fullmatch(r"-\d+(\.\d+)?", word):
            model = model or word
            continue
        name, equals, value = word.partition("=")
        if command == "vllm serve":
            name = name.replace("_", "-")
        if equals:
            options[name] = value
        elif position < len(words) and not re.match(r"-{1,2}[A-Za-z]", words[position]):
            options[name] = words[position]
            position += 1
        else:
            options[name] = None
    for secret in ("--api-key", "--hf-token"):
        if options.get(secret):
            options[secret] = "(set)"
    return EngineCommand(
        command=command, model=options.get("--model") or model, options=options, env=env
    )


def _engine_in(container: Container) -> EngineCommand | None:
    """The engine of a container: its command, or what its image starts by itself."""
    name, _, tag = container.image.partition("@")[0].rpartition(":")
    words = [*shlex.split(container.entrypoint or ""), *container.args]
    found = _engine(words, container.env)
    if found is None and name.endswith("vllm-openai"):
        found = _command(
            "vllm serve", [item for item in container.args if item != "serve"], container.env
        )
    if found is None:
        return None
    match = _TAG.match(tag)
    version = match[1] if match and re.search(r"vllm-openai$|tensorrt-llm/release$", name) else None
    return msgspec.structs.replace(
        found, image=container.image, version=version, container=container
    )


def _compose(path: Path) -> Launch:
    import yaml

    hint = "name a compose file with services"
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE:
            raise UsageError(f"{path}: not a compose file of at most {MAX_FILE // 1024} KiB", hint)
        document: Any = yaml.safe_load(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint) from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise UsageError(f"{path}: not valid YAML", hint) from None
    services = document.get("services") if isinstance(document, dict) else None
    if not isinstance(services, dict) or not services:
        raise UsageError(f"{path}: has no services", hint)
    containers = [
        found
        for name, service in list(services.items())[:64]
        if isinstance(service, dict) and (found := parse_service(str(name), service)) is not None
    ]
    if not containers:
        raise UsageError(f"{path}: no service names an image", hint)
    engines = [engine for item in containers if (engine := _engine_in(item)) is not None]
    return Launch(containers=tuple(containers), engines=tuple(engines))
