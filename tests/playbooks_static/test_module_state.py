"""module_state writes only what no other file says, and keeps the other lines of its own."""

from __future__ import annotations

import pytest
from module_utils import kernel_modules as modules

DISTRO = "# from the package\nblacklist nouveau\noptions nouveau \\\n  modeset=0\nalias x off\n"


def test_what_another_file_says_is_left_out():
    assert modules.blacklist_lines(
        ["nouveau", "nova-core"], {"nouveau": "modeset=0"}, [DISTRO]
    ) == ["blacklist nova_core"]
    assert modules.blacklist_lines(["nouveau"], {"nouveau": "modeset=0"}, []) == [
        "blacklist nouveau",
        "options nouveau modeset=0",
    ]


def test_a_comment_blacklists_nothing():
    assert modules.blacklisted(["# blacklist nouveau\n#blacklist nova_core\n"]) == set()


def test_lines_are_added_once_behind_the_owner_s():
    text = modules.with_lines(
        "# mine\nblacklist  nouveau", ["blacklist nouveau", "blacklist nova_core"]
    )
    assert text == "# mine\nblacklist  nouveau\nblacklist nova_core\n"
    assert modules.with_lines(text, ["blacklist nova_core"]) == text


def test_modules_that_load_at_boot_are_read():
    assert modules.loaded_at_boot(["# no\n; no\nib-umad\n\nmlx5_ib\n"]) == {"ib_umad", "mlx5_ib"}


def test_dash_and_underscore_are_one():
    assert modules.in_way(["nova-core", "nouveau"], ["nova_core", "ext4"]) == ["nova_core"]


@pytest.mark.parametrize("name", ["a b", "a;b", "", "../x", "a\nb"])
def test_a_word_that_is_no_module_is_refused(name):
    with pytest.raises(modules.Refused):
        modules.plain(name)
    with pytest.raises(modules.Refused):
        modules.blacklist_lines([name], {}, [])


def test_options_of_several_lines_are_refused():
    with pytest.raises(modules.Refused):
        modules.blacklist_lines([], {"nvidia": "a=1\ninstall nvidia /bin/sh"}, [])
