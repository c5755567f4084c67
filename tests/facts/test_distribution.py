"""Distributions from os-release: family, release and the repository NVIDIA has for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.facts.distribution import _plain_fields, _shell_fields, parse
from doctor.simulate.distributions import release


@pytest.mark.parametrize(
    ("name", "family", "major", "repository"),
    [
        ("ubuntu-24.04", "debian", "24", "ubuntu2404"),
        ("debian-12", "debian", "12", "debian12"),
        ("rocky-9.6", "rhel", "9", "rhel9"),
        ("almalinux-10", "rhel", "10", "rhel10"),
        ("rhel-8.10", "rhel", "8", "rhel8"),
        ("fedora-44", "rhel", "44", "fedora44"),
        ("amzn-2023", "rhel", "2023", "amzn2023"),
    ],
)
def test_release(name: str, family: str, major: str, repository: str) -> None:
    found = parse(release(name).os_release)
    assert (found.family, found.major, found.repository) == (family, major, repository)


def test_a_derivative_has_the_family_it_is_like() -> None:
    found = parse('ID=neon\nID_LIKE="ubuntu debian"\nVERSION_ID="24.04"\n')
    assert found.family == "debian"
    assert not found.is_enterprise


def test_quotes_escapes_and_comments_are_shell() -> None:
    found = parse('# x\nID=\'rocky\'\nVERSION_ID=9.6\nPRETTY_NAME="Rocky \\"Blue\\" 9.6"\n')
    assert found.pretty == 'Rocky "Blue" 9.6'
    assert found.version == "9.6"


@pytest.mark.parametrize("text", ["", "NAME=x\n", "\n\n"])
def test_without_an_id_it_is_no_distribution(text: str) -> None:
    with pytest.raises(ValueError, match="ID"):
        parse(text)


def test_a_rolling_release_has_no_version() -> None:
    found = parse("ID=arch\nPRETTY_NAME=Arch\n")
    assert (found.family, found.version, found.major) == ("arch", "", "")


LINES = st.text(alphabet=st.sampled_from("ID_v9.=\"'\\$`# \t\r\n\u00a0\x0b\u00e9"), max_size=40)


@given(LINES)
def test_what_is_read_without_a_shell_is_what_a_shell_reads(text: str) -> None:
    plain = _plain_fields(text)
    if plain is not None:
        assert {key: _shell_fields(text).get(key) for key in plain} == plain


@pytest.mark.parametrize("name", ["ubuntu-24.04", "debian-12", "rocky-9.6", "fedora-44"])
def test_what_distributions_write_needs_no_shell(name: str) -> None:
    assert _plain_fields(release(name).os_release) is not None
