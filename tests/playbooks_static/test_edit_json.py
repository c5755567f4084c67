"""edit_json sets and removes values and keeps what it was not asked about."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from module_utils.json_edit import Refused, edit, merged

DAEMON = """\
{
    "log-driver": "journald",
    "runtimes": {
        "crun": {"path": "/usr/bin/crun"}
    }
}
"""


def test_objects_are_merged_and_order_and_indentation_stay():
    got = edit(
        DAEMON, {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}, "live-restore": True}
    )
    assert list(json.loads(got)) == ["log-driver", "runtimes", "live-restore"]
    assert list(json.loads(got)["runtimes"]) == ["crun", "nvidia"]
    assert '\n    "log-driver": "journald",\n' in got
    assert got.endswith("}\n")


def test_what_is_so_already_keeps_the_text_to_the_byte():
    assert edit(DAEMON, {"log-driver": "journald"}, [["hosts"], ["runtimes", "nvidia"]]) == DAEMON


def test_true_is_not_one():
    assert json.loads(edit('{"a": 1}\n', {"a": True})) == {"a": True}


def test_removal_takes_an_object_that_it_empties():
    text = '{"runtimes": {"nvidia": {"path": "x"}}, "a": 1}\n'
    assert edit(text, {}, [["runtimes", "nvidia"]]) == '{"a": 1}\n'


def test_nothing_and_an_empty_object_are_filled():
    assert edit("", {"a": 1}) == edit("{}\n", {"a": 1}) == '{\n  "a": 1\n}\n'


def test_no_line_break_is_added_at_the_end_of_a_text_without_one():
    assert edit('{\n\t"a": 1\n}', {"b": 2}) == '{\n\t"a": 1,\n\t"b": 2\n}'


@pytest.mark.parametrize(
    "text", ['{"a": 1,}', "[]", '{"a": 1, "a": 2}', "// no\n{}", "\ufeff{}", '"x"']
)
def test_what_is_refused(text):
    with pytest.raises(Refused):
        edit(text, {"b": 1})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3)
    ),
)
OBJECTS = st.dictionaries(st.text(max_size=3), JSON, max_size=4)


@given(OBJECTS, OBJECTS, st.sampled_from([None, 1, 2, 4, "\t"]))
def test_the_result_is_the_merge_and_a_second_edit_changes_nothing(before, wanted, indent):
    got = edit(json.dumps(before, indent=indent), wanted)
    assert json.loads(got) == merged(before, wanted)
    assert edit(got, wanted) == got
