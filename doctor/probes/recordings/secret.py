"""What must leave in no text: tokens, passwords, keys and the credentials of URLs. Identity stays; `redact` takes that."""

import re
from functools import lru_cache
from typing import Any, Callable, List, Match, Pattern, Sequence, Tuple

from doctor.probes.pattern import regex

HIDDEN = "(secret)"
"""What stands where a secret was; the rules leave it alone, so that cutting twice changes nothing."""

_NAME = (
    r"(?:[A-Za-z0-9_.\-]*[_.\-])?(?:token|secret|passwd|password|passphrase|pwd|credentials?|identitytoken|"
    r"registrytoken|(?:api|access|secret|private|auth|license)[_\-]?key)"
)
_NOT_SECRET_NAME = regex(
    r"(?i)(?:^|[_.\-])(?:bos|eos|pad|unk|sep|cls|mask|image|video|audio|stop|special|per|use|no|add|skip|max|min|num)"
    r"(?:[_.\-]\w+)*[_.\-]tokens?$"
)
"""Tokens of a tokenizer, and switches about tokens, are not secrets."""
_PLAIN_WORDS = frozenset(
    "a an the and or is are was to with without in on at of for from so that this not no it its if into as by has have "
    "must may can given set unset missing required file files before after when".split()
)
_HARMLESS = regex(r"(?i)(?:true|false|null|none|yes|no|\(set\)|\(secret\)|\d{1,5}|[$<{%*].*|)\Z")

_SHAPES = (
    ("hf_", r"\bhf_[A-Za-z0-9]{16,}"),
    ("sk-", r"\bsk-[A-Za-z0-9_\-]{16,}"),
    ("nvapi-", r"\bnvapi-[A-Za-z0-9_\-]{16,}"),
    ("gh", r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    ("glpat-", r"\bglpat-[A-Za-z0-9_\-]{16,}"),
    ("dckr_pat_", r"\bdckr_pat_[A-Za-z0-9_\-]{16,}"),
    ("pypi-", r"\bpypi-[A-Za-z0-9_\-]{32,}"),
    ("xox", r"\bxox[abprs]-[A-Za-z0-9\-]{10,}"),
    ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    ("AIza", r"\bAIza[0-9A-Za-z_\-]{35}"),
    ("eyJ", r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*)?"),
    (
        "PRIVATE KEY",
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    ),
    ("grub.pbkdf2", r"\bgrub\.pbkdf2\.[\w.]+"),
)
"""A word that every match holds, and the shape: a text without the word is never searched."""

FLAG = regex(r"(?i)--?%s\Z" % _NAME)
"""A command-line option whose value is a secret."""


@lru_cache(maxsize=None)
def _compiled(pattern: str) -> Pattern[str]:
    return re.compile(pattern)


_WORTH = regex(
    r"://|token|secret|passw|passphrase|pwd|credential|key|auth|bearer|signature|sig=|hf_|sk-|nvapi-|gh[pousr]_|github_pat_|"
    r"glpat-|dckr_pat_|pypi-|xox|akia|aiza|eyj|grub\.pbkdf2",
    re.IGNORECASE,
)
"""Every secret's text holds one of these: a report has thousands of texts, and nearly none has."""


def cut(text: str) -> str:
    """The text without secrets. Idempotent; text without a secret comes back as it is."""
    if not _WORTH.search(text):
        return text
    low = text.lower()
    for rule in _RULES:
        if any(word in low for word in rule[0]):
            text = _compiled(rule[1]).sub(rule[2], text)
    for word, shape in _SHAPES:
        if word in text:
            text = _compiled(shape).sub(HIDDEN, text)
    return text


def cut_arguments(arguments: Sequence[str]) -> List[str]:
    """The same for an argument list, in which the value of `--api-key` is the next elements."""
    shown: List[str] = []
    hide = False
    for argument in arguments:
        if hide and not argument.startswith("-"):
            shown.append(argument if argument.startswith("$") else HIDDEN)
            continue
        name, equals, value = argument.partition("=")
        dashed = argument.startswith("-")
        hide = dashed and bool(FLAG.match(argument))
        if dashed and equals and FLAG.match(name) and not _HARMLESS.match(value):
            argument = name + "=" + HIDDEN
        shown.append(cut(argument))
    return shown


def is_secret_name(name: str) -> bool:
    """Whether a setting or variable of this name holds a secret."""
    return (
        bool(_WORTH.search(name))
        and bool(_compiled(r"(?i)(?:%s|auth|authorization|x-registry-auth)\Z" % _NAME).match(name))
        and not _NOT_SECRET_NAME.search(name)
    )


def cut_tree(value: Any) -> Any:
    """The same for nested JSON values: by key where a key says so, by text elsewhere."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, dict):
        return {
            cut(key) if isinstance(key, str) else key: (
                HIDDEN
                if isinstance(key, str)
                and isinstance(item, str)
                and is_secret_name(key)
                and not _HARMLESS.match(item)
                else cut_tree(item)
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(item, str) for item in value):
            return cut_arguments(value)
        return [cut_tree(item) for item in value]
    return value


def _named(match: Match[str]) -> str:
    name, between, value = match.group("name"), match.group("between"), match.group("value")
    bare = value.strip("\"'")
    if _NOT_SECRET_NAME.search(name.lstrip("-")) or _HARMLESS.match(bare):
        return match.group(0)
    if between[-1:].isspace() and bare.lower().strip(".,;:") in _PLAIN_WORDS:
        return match.group(0)  # prose: "start it with --api-key and ..."
    quote = value[0] if value[:1] in ("'", '"') else ""
    return name + between + quote + HIDDEN + (quote if value.endswith(quote) else "")


_VALUE = r"(?![\"']?\(secret\))(?P<value>\"[^\"\n]*\"?|'[^'\n]*'?|[^\s\"',;&|)\]}]+)"
_Rule = Tuple[Tuple[str, ...], str, Callable[[Match[str]], str]]
_NAMED_WORDS = ("token", "secret", "passwd", "password", "passphrase", "pwd", "credential") + tuple(
    kind + between + "key"
    for kind in ("api", "access", "secret", "private", "auth", "license")
    for between in ("", "_", "-")
)
"""Every name of _NAME holds one; "key" alone would search each signing key of a repository."""
_RULES: Tuple[_Rule, ...] = (
    (
        ("://",),
        r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.\-]*://)(?P<who>[^\s/@\"'<>]*(?:@[^\s/@\"'<>]*)*@)(?=[^\s@])",
        lambda match: match.group("scheme"),
    ),
    (
        ("authorization", "x-registry-auth", "x-api-key"),
        r"(?i)(?P<head>(?:proxy-)?authorization|x-registry-auth|x-api-key)(?P<between>[\"']?\s*[:=]\s*[\"']?)"
        r"(?!\(secret\))(?:(?:bearer|basic|token|digest)\s+)?[^\s\"',]+",
        lambda match: match.group("head") + match.group("between") + HIDDEN,
    ),
    (
        ("bearer",),
        r"(?i)(?P<head>\bbearer\s+)(?!\(secret\))(?=[^\s\"']*\d)[A-Za-z0-9._~+/\-]{8,}=*",
        lambda match: match.group("head") + HIDDEN,
    ),
    (
        _NAMED_WORDS,
        r"(?im)^(?P<name>[ \t]*%s)(?P<between>[ \t]+=[ \t]+)(?!\(secret\))(?P<value>\S.*)$" % _NAME,
        _named,
    ),
    (
        _NAMED_WORDS,
        r"(?i)(?P<name>(?<![A-Za-z0-9_.\-])-{0,2}%s)(?P<between>[\"']?\s*[=:]\s*)%s"
        % (_NAME, _VALUE),
        _named,
    ),
    (
        _NAMED_WORDS,
        r"(?i)(?P<name>(?<![A-Za-z0-9_.\-])--%s)(?P<between>[ \t]+)(?!-)%s" % (_NAME, _VALUE),
        _named,
    ),
    (
        ("password", "passwd"),
        r"(?i)(?P<name>\b(?:login\s+\S+\s+password|password_pbkdf2\s+\S+))(?P<between>\s+)%s"
        % _VALUE,
        _named,
    ),
    (
        ("signature", "sig=", "auth"),
        r"(?i)(?P<name>[?&](?:x-amz-signature|x-amz-credential|x-amz-security-token|signature|sig|auth))(?P<between>=)%s"
        % _VALUE,
        _named,
    ),
    (
        ('"auth"',),
        r"(?P<name>\"auth\")(?P<between>\s*:\s*)(?P<value>\"[^\"\n]*\"?)",
        _named,
    ),
)
"""Words of which the text must hold one, the rule, and what replaces a match."""
