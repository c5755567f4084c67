"""edit_toml changes the lines it is asked to change and no others; its reader agrees with tomllib."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from module_utils.toml_edit import Refused, edit, render
from module_utils.toml_read import Document, NotToml

tomllib = pytest.importorskip("tomllib")

TOOLKIT = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
disable-require = false

[nvidia-container-cli]
#debug = "/var/log/nvidia-container-toolkit.log"
environment = []   # none
no-cgroups = true

[nvidia-container-runtime]
runtimes = [
  "runc",  # the usual one
  "crun",
]

[nvidia-container-runtime.modes.csv]
mount-spec-path = "/etc/nvidia-container-runtime/host-files-for-container.d"
"""


def test_a_value_changes_in_its_place():
    got = edit(TOOLKIT, {"nvidia-container-cli": {"no-cgroups": False}})
    assert got == TOOLKIT.replace("no-cgroups = true", "no-cgroups = false")


def test_what_is_so_already_changes_nothing():
    assert (
        edit(TOOLKIT, {"nvidia-container-cli": {"no-cgroups": True, "environment": []}}) == TOOLKIT
    )
    assert edit(TOOLKIT, {}, [["nvidia-container-cli", "user"], ["no-such-table"]]) == TOOLKIT


def test_a_comment_behind_a_value_stays():
    got = edit(TOOLKIT, {"nvidia-container-cli": {"environment": ["A=1"]}})
    assert 'environment = ["A=1"]   # none\n' in got


def test_a_list_over_several_lines_is_replaced_whole():
    got = edit(TOOLKIT, {"nvidia-container-runtime": {"runtimes": ["runc"]}})
    assert 'runtimes = ["runc"]\n\n[nvidia-container-runtime.modes.csv]' in got


def test_a_key_joins_its_table_behind_the_last_key():
    got = edit(TOOLKIT, {"nvidia-container-cli": {"user": "root:video"}})
    assert 'no-cgroups = true\nuser = "root:video"\n\n[nvidia-container-runtime]' in got


def test_a_root_key_comes_before_the_first_table():
    got = edit(TOOLKIT, {"swarm-resource": "DOCKER_RESOURCE_GPU"})
    assert 'disable-require = false\nswarm-resource = "DOCKER_RESOURCE_GPU"\n\n[nvidia' in got


def test_a_table_that_is_not_there_comes_last():
    got = edit(
        TOOLKIT, {"nvidia-ctk": {"path": "nvidia-ctk"}, "plugins": {"io.containerd.cri": {"a": 1}}}
    )
    assert (
        got
        == TOOLKIT + '\n[nvidia-ctk]\npath = "nvidia-ctk"\n\n[plugins."io.containerd.cri"]\na = 1\n'
    )


def test_an_empty_text_gets_a_table():
    assert edit("", {"a": {"b": True}}) == "[a]\nb = true\n"
    assert edit("", {"a": 1}) == "a = 1\n"


def test_dotted_keys_and_inline_tables_are_extended_where_they_are():
    assert edit("a.b.c = 1\n[x]\n", {"a": {"b": {"d": 2}}}) == "a.b.c = 1\na.b.d = 2\n[x]\n"
    assert edit("t = { a = 1 } # why\n", {"t": {"b": 2}}) == "t = { a = 1, b = 2 } # why\n"


def test_indentation_follows_the_neighbours():
    text = '[plugins]\n  [plugins."a.b"]\n    x = 1\n'
    assert edit(text, {"plugins": {"a.b": {"y": 2}}}) == text + "    y = 2\n"


def test_removal_takes_the_line_or_the_table_and_leaves_comments():
    got = edit(
        TOOLKIT, {}, [["nvidia-container-cli", "no-cgroups"], ["nvidia-container-runtime", "modes"]]
    )
    assert "no-cgroups" not in got
    assert "csv" not in got
    assert "#debug" in got
    assert tomllib.loads(got)["nvidia-container-runtime"] == {"runtimes": ["runc", "crun"]}


def test_a_line_without_its_break_and_windows_line_ends():
    assert edit("[a]\nb = 1", {"a": {"c": 2}}) == "[a]\nb = 1\nc = 2\n"
    assert edit("[a]\r\nb = 1\r\n", {"a": {"c": 2}}) == "[a]\r\nb = 1\r\nc = 2\r\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a = ", {"a": 1}),
        ("a = 1\na = 2\n", {"b": 1}),
        ("[[hooks]]\npath = 1\n", {"hooks": {"path": 2}}),
        ("a = 1\n", {"a": {"b": 1}}),
        ("[a]\nb = 1\n", {"a": 3}),
        ("a = 1\n", {"b": None}),
        ("a = 1\n\n[b\n", {"a": 2}),
    ],
)
def test_what_is_refused(text, wanted):
    with pytest.raises(Refused):
        edit(text, wanted)


KEYS = st.text(string.ascii_lowercase + "._- ", min_size=1, max_size=4)
SCALARS = (
    st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(KEYS, SCALARS, max_size=2)
TABLES = st.recursive(
    st.dictionaries(KEYS, VALUES, max_size=4),
    lambda below: st.dictionaries(KEYS, below | VALUES, max_size=4),
)


def as_text(table, path=()):
    """Tables as headers, everything else as lines."""
    plain = {key: value for key, value in table.items() if not (isinstance(value, dict) and value)}
    lines = [f"{_key(key)} = {render(value)}  # kept" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, dict) and value:
            head = ".".join(_key(part) for part in (*path, key))
            lines += ["", f"[{head}]", "# kept", *as_text(value, (*path, key))]
    return lines


def _key(name):
    return render(name)


@given(TABLES, TABLES)
@settings(max_examples=150, deadline=None)
def test_an_edit_reads_back_as_the_merge_and_keeps_every_comment(before, wanted):
    text = "\n".join(as_text(before)) + "\n"
    assert tomllib.loads(text) == before
    try:
        got = edit(text, wanted)
    except Refused:
        return
    assert got.count("# kept") == text.count("# kept")
    assert tomllib.loads(got) == _merged(before, wanted)
    assert edit(got, wanted) == got


def _merged(before, wanted):
    result = dict(before)
    for key, value in wanted.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            result[key] = _merged(old, value)
        else:
            result[key] = value
    return result


PIECES = st.lists(
    st.sampled_from(
        ["a", "b", "=", " ", "\n", "[", "]", "[[", "]]", "{", "}", ".", ",", '"', "'", "1", "-", "e", "_", "0x1F", "true",
         "#", "\\", '"""', "'''", "1979-05-27", "07:32:00", "inf", "\t", "\r\n", '"a b"', "a.b = 1\n", "[a]\n", "[a.b]\n", "[[a]]\n"]
    ),
    max_size=14,
)  # fmt: skip


@given(PIECES)
@settings(max_examples=600, deadline=None)
def test_the_reader_never_takes_what_tomllib_refuses_and_agrees_where_both_read(pieces):
    text = "".join(pieces)
    try:
        known = tomllib.loads(text)
    except ValueError:
        with pytest.raises(NotToml):
            Document(text)
        return
    from module_utils.toml_edit import _same

    try:
        data = Document(text).data
    except NotToml:
        return
    assert _same(data, known)
