"""edit_ini changes the lines it is asked to change: comments, order and spacing stay."""

from __future__ import annotations

import pytest
from module_utils.ini_edit import Refused, edit, read

REPO = """\
# the owner's
[cuda]
name = CUDA
baseurl = https://a.example/one
          https://b.example/two
gpgcheck = 0
; why not
[other]
enabled = 1
"""

UNIT = """\
[Service]
Environment=A=1
Environment=B=2
ExecStart=/usr/bin/x \\
  --flag
"""


def test_a_value_changes_in_its_place_and_takes_the_file_s_spacing():
    got = edit(REPO, {"cuda": {"gpgcheck": 1, "module_hotfixes": 1}})
    assert got == REPO.replace("gpgcheck = 0\n", "gpgcheck = 1\nmodule_hotfixes = 1\n")


def test_what_is_so_already_changes_nothing():
    assert edit(REPO, {"cuda": {"name": "CUDA", "gpgcheck": 0}, "other": {"enabled": 1}}) == REPO


def test_a_value_over_several_lines_is_one_value():
    assert read(REPO)["cuda"]["baseurl"] == ["https://a.example/one\nhttps://b.example/two"]
    got = edit(REPO, {"cuda": {"baseurl": "file:///mirror"}})
    assert "b.example" not in got
    assert read(UNIT)["Service"]["ExecStart"] == ["/usr/bin/x \\\n--flag"]


def test_a_new_section_comes_last():
    assert edit("[boot]\ncommand=x\n", {"automount": {"enabled": True}}) == (
        "[boot]\ncommand=x\n\n[automount]\nenabled=true\n"
    )
    assert edit("", {"boot": {"systemd": True}}) == "[boot]\nsystemd=true\n"


def test_a_list_stands_for_a_key_several_times():
    got = edit(UNIT, {"Service": {"Environment": ["A=1", "C=3"]}})
    assert read(got)["Service"]["Environment"] == ["A=1", "C=3"]
    assert edit(got, {"Service": {"Environment": ["A=1", "C=3"]}}) == got


def test_one_value_for_a_key_that_is_there_twice_is_refused():
    with pytest.raises(Refused):
        edit(UNIT, {"Service": {"Environment": "C=3"}})
    with pytest.raises(Refused):
        edit("", {"a": {"b": "one\ntwo"}})


def test_removal_takes_a_key_or_a_section():
    assert "gpgcheck" not in edit(REPO, {}, [["cuda", "gpgcheck"]])
    assert "[other]" not in edit(REPO, {}, [["other"]])
    assert edit(REPO, {}, [["none"], ["cuda", "none"]]) == REPO


def test_windows_line_ends_stay():
    assert (
        edit("[boot]\r\nsystemd=false\r\n", {"boot": {"systemd": True}})
        == "[boot]\r\nsystemd=true\r\n"
    )


def test_a_section_that_is_there_twice_is_one():
    got = edit("[a]\nx=1\n[b]\n[a]\ny=2\n", {"a": {"z": 3}})
    assert read(got)["a"] == {"x": ["1"], "y": ["2"], "z": ["3"]}
