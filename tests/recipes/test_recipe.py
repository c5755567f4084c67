"""A recipe says what it needs, quotes what it is given, and is listed where people look."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from doctor.cli.main import run
from doctor.errors import UsageError
from doctor.recipes import recipe as book
from tests.recipes.fake import HOSTILE, NEEDED, made

ALL = sorted(book.recipes())


@pytest.mark.parametrize("name", ALL)
def test_needs_what_has_no_default_and_says_so(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = [word.partition("=")[0] for word in NEEDED.get(name, [])]
    without = [key for key, item in book.recipe(name).variables.items() if item.default is None]
    assert sorted(needed) == sorted(without)
    assert run(["recipe", name]) == (2 if needed else 0)
    said = capsys.readouterr()
    if needed:
        assert said.out == ""
        assert f"needs {needed[0]}" in said.err
        assert f"doctor recipe {name} --set {needed[0]}=" in said.err
    else:
        assert said.out.endswith("\n")


@pytest.mark.parametrize("name", ALL)
def test_every_variable_changes_the_file(name: str) -> None:
    other = {
        "allow": "irreversible", "unsure": "leave", "resume": "yes", "limit": "7", "gpus": "8", "wait": "77", "pause": "7",
        "interval": "77", "delay": "7s", "schedule": "weekly", "cron": "1 2 3 4 5", "selector": "other=1", "unit": "other.service",
    }  # fmt: skip
    folders = ("home", "doctor", "collector", "slurm", "inventory")
    before = made(name)
    for key in book.recipe(name).variables:
        said = other.get(key, "/else/where" if key in folders else "other")
        rest = [word for word in NEEDED.get(name, []) if not word.startswith(f"{key}=")]
        assert book.render(book.recipe(name), [*rest, f"{key}={said}"]) != before, key


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_made_up(name: str) -> None:
    """No version of somebody's action, no image, no address: these the user says."""
    text = made(name)
    assert not re.search(r"@v\d|:latest|uses:|https?://", text)
    if name.startswith("kubernetes"):
        assert text.count("image: ") == 1


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (["packge=x"], "did you mean package?"),
        (["package"], "not NAME=VALUE"),
        (["package=a", "package=b"], "said 2 times"),
        (["package=a\nb"], "control character"),
        (["package=a", "allow=everything"], "allow cannot be 'everything'"),
        (["package=a", "home=relative"], "home cannot be 'relative'"),
        (["package=a", "home=/a b"], "home cannot be"),
    ],
)
def test_wrong_values_are_refused(said: list[str], words: str) -> None:
    with pytest.raises(UsageError) as error:
        book.render(book.recipe("cloud-init"), said)
    assert words in error.value.message + error.value.hint


def test_unknown_recipe_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipe", "cloudinit"]) == 2
    assert "did you mean cloud-init?" in capsys.readouterr().err


def test_list_has_every_recipe_and_what_each_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipe"]) == 0
    said = capsys.readouterr().out
    assert run(["recipe", "--list"]) == 0
    assert capsys.readouterr().out == said
    for name, item in book.recipes().items():
        assert re.search(rf"^{name} +{re.escape(item.title)}$", said, re.MULTILINE)
    assert run(["recipe", "slurm-prolog", "--list"]) == 0
    said = capsys.readouterr().out
    assert all(key in said for key in book.recipe("slurm-prolog").variables)


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "prolog"
    assert run(["recipe", "slurm-prolog", "-o", str(out)]) == 0
    assert out.read_text() == made("slurm-prolog")


def test_a_value_that_no_filter_quoted_is_an_error() -> None:
    env = book._environment()
    value = book.Given("x")
    for source in ("{= a =}", "{= a | plain =}"):
        with pytest.raises(TypeError):
            env.from_string(source).render(a=value)
    assert env.from_string("{= a | sh =}").render(a=book.Given("a b")) == "'a b'"


def test_every_value_passes_a_filter() -> None:
    """Methods of strings and concatenation would give plain text: none is used."""
    for path in [*book.FOLDER.glob("*.j2"), *(book.FOLDER / "parts").iterdir()]:
        for inside in re.findall(r"\{=(.*?)=\}", path.read_text()):
            assert re.fullmatch(
                r' (\w+( \| (sh|yaml|unit|plain|label|kubernetes))+|"yes" if unsure == "drain" else "unsure") ',
                inside,
            ), f"{path.name}: {inside}"


def test_yaml_recipes_keep_values_whole() -> None:
    job = yaml.safe_load(made("kubernetes-job", f"want={HOSTILE}"))
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command == ["doctor", "check", "--want", HOSTILE.replace("$(", "$$(")]


def test_units_keep_values_whole() -> None:
    line = next(
        line
        for line in made("systemd-service", f"want={HOSTILE}").splitlines()
        if line.startswith("ExecStart=")
    )
    said = line.partition("--want ")[2]
    assert said[0] == said[-1] == '"'
    back = (
        said[1:-1].replace("%%", "%").replace("$$", "$").replace('\\"', '"').replace("\\\\", "\\")
    )
    assert back == HOSTILE


def test_verb_starts_without_what_only_rendering_needs() -> None:
    code = "import sys, doctor.cli.verbs.recipe\nprint({'jinja2', 'yaml'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
