"""Recipes are files with a head that names their variables. A value is checked, and gets into a file only through a filter that quotes it.

A recipe is `NAME.j2`: YAML between `{#` and `#}`, then the text, with `{= value | filter =}` (other systems have the usual braces for
themselves). With `verbatim` in its head the text is another file, taken as it is.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import UsageError

FOLDER = Path(__file__).resolve().parent
ENDING = ".j2"
_HEAD = re.compile(r"\A\{#\n(.*?)^#\}\n", re.DOTALL | re.MULTILINE)


class Variable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What whoever uses a recipe may or must say. Without a default it must be said."""

    say: str
    default: str | list[str] | None = None
    pattern: str = ""
    """Regular expression that each value has to match whole."""
    many: bool = False
    """Whether it may be said several times."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file for another system."""

    name: str
    title: str
    file: str
    """What the file is called where it is used."""
    needs: str = ""
    """What has to be there for it to work."""
    tried: str = ""
    """What it was tried with, and what not."""
    variables: dict[str, Variable] = {}
    verbatim: str = ""


class Given(str):
    """A value that was given; only a filter makes text of it."""

    checked: bool = False
    """Whether a pattern held it."""


def recipes() -> dict[str, Recipe]:
    """All of them by name."""
    return {
        path.name.removesuffix(ENDING): _read(path) for path in sorted(FOLDER.glob(f"*{ENDING}"))
    }


def recipe(name: str) -> Recipe:
    """One by its name. UsageError with the nearest where there is none."""
    path = FOLDER / f"{name}{ENDING}"
    known = [item.name.removesuffix(ENDING) for item in FOLDER.glob(f"*{ENDING}")]
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else "doctor recipe --list"
        raise UsageError(f"no recipe is called {name!r}", hint)
    return _read(path)


def _read(path: Path) -> Recipe:
    import yaml

    found = _HEAD.match(path.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{path} has no head")
    head = yaml.safe_load(found[1])
    return msgspec.convert({**head, "name": path.name.removesuffix(ENDING)}, Recipe)


def values(asked: Recipe, said: Sequence[str]) -> dict[str, Given | list[Given]]:
    """NAME=VALUE words and defaults -> every variable's value. UsageError for what is unknown, wrong or not said."""
    heard: dict[str, list[str]] = {}
    for word in said:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(
                f"--set {word!r} is not NAME=VALUE", f"doctor recipe {asked.name} --list"
            )
        if name not in asked.variables:
            near = get_close_matches(name, asked.variables, 1)
            names = ", ".join(asked.variables) or "none"
            hint = f"did you mean {near[0]}?" if near else f"its variables: {names}"
            raise UsageError(f"recipe {asked.name} has no variable {name!r}", hint)
        heard.setdefault(name, []).append(value)
    found: dict[str, Given | list[Given]] = {}
    for name, variable in asked.variables.items():
        texts = heard[name] if name in heard else _default(asked, name, variable)
        if len(texts) > 1 and not variable.many:
            raise UsageError(f"{name} was said {len(texts)} times", "it has one value")
        each = [_checked(name, variable, text) for text in texts]
        found[name] = each if variable.many else each[0]
    return found


def _default(asked: Recipe, name: str, variable: Variable) -> list[str]:
    if variable.default is None:
        raise UsageError(
            f"recipe {asked.name} needs {name}: {variable.say}",
            f"doctor recipe {asked.name} --set {name}=...",
        )
    return [variable.default] if isinstance(variable.default, str) else variable.default


def _checked(name: str, variable: Variable, text: str) -> Given:
    if not text.isprintable():
        raise UsageError(f"{name} has a control character", "one line of text")
    if variable.pattern and not re.fullmatch(variable.pattern, text):
        raise UsageError(
            f"{name} cannot be {text!r}: {variable.say}", f"it matches {variable.pattern}"
        )
    value = Given(text)
    value.checked = bool(variable.pattern)
    return value


def render(asked: Recipe, said: Sequence[str] = ()) -> str:
    """The file, filled."""
    given = values(asked, said)
    if asked.verbatim:
        return (FOLDER / asked.verbatim).read_text(encoding="utf-8")
    text = (FOLDER / f"{asked.name}{ENDING}").read_text(encoding="utf-8")
    made: str = _environment().from_string(_HEAD.sub("", text, count=1)).render(given)
    return made


def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from jinja2.filters import do_indent

    made = Environment(  # noqa: S701 - no HTML: every value passes a filter of its place
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        variable_start_string="{=",
        variable_end_string="=}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_quoted,
    )
    made.filters = {**FILTERS, "indent": do_indent}
    return made


def _quoted(value: Any) -> Any:
    if isinstance(value, Given):
        raise TypeError(f"{str.__str__(value)!r} was not quoted")
    return value


def _plain(value: Given) -> str:
    if not value.checked:
        raise TypeError(f"{str.__str__(value)!r} has no pattern, so it has to be quoted")
    return str.__str__(value)


def _unit(value: Given) -> str:
    """A word of a unit's command line: specifiers and variables escaped, quoted where it has to be."""
    text = str.__str__(value).replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[\w@%+=:,./-]+", text):
        return text
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


def _heredoc(text: str) -> str:
    """A shell script in HCL in which nothing is a template. Packer reads templates once or twice, so two braces never meet: quotes part them."""
    return re.sub(r"\{(?=\{)", "{''", text).replace("${", "$${").replace("%{", "%%{")


def _kubernetes(text: str) -> Any:
    """An argument or a script in which Kubernetes puts no variable."""
    return _same(text, str.__str__(text).replace("$(", "$$("))


def _github(text: str) -> str:
    """A script in which GitHub finds no expression."""
    return text.replace("${{", "${{ '${{' }}")


def _label(value: Given) -> str:
    key, _, found = str.__str__(value).partition("=")
    return f"{json.dumps(key)}: {json.dumps(found)}"


def _same(before: str, text: str) -> str:
    """Text is as quoted as it was before."""
    if not isinstance(before, Given):
        return text
    value = Given(text)
    value.checked = before.checked
    return value


FILTERS: Mapping[str, Any] = {
    "sh": lambda value: shlex.quote(str.__str__(value)),
    "yaml": lambda value: json.dumps(str.__str__(value)),
    "label": _label,
    "heredoc": _heredoc,
    "kubernetes": _kubernetes,
    "github": _github,
    "unit": _unit,
    "plain": _plain,
}
"""Filter -> how a value is written where it stands. There are no others."""
