"""Version types are total orders in their own world's sense and keep the text they read."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.facts.versions import (
    ComputeCapability,
    CudaVersion,
    DebVersion,
    DriverBranch,
    DriverVersion,
    GlibcVersion,
    KernelRelease,
    Pep440Version,
    RpmVersion,
    Specifier,
)

numbers = st.integers(0, 999).map(str)


def dotted(low: int, high: int) -> st.SearchStrategy[str]:
    return st.lists(numbers, min_size=low, max_size=high).map(".".join)


STRATEGIES = {
    DriverVersion: st.builds("{}.{}".format, st.integers(100, 999), dotted(1, 3)),
    DriverBranch: st.builds("{}{}".format, st.sampled_from(["", "R"]), st.integers(100, 999)),
    CudaVersion: st.builds("{}.{}".format, st.integers(1, 99), dotted(1, 2)),
    ComputeCapability: st.builds("{}.{}".format, st.integers(1, 99), st.integers(0, 9)),
    GlibcVersion: dotted(2, 3),
    KernelRelease: st.builds(
        "{}{}".format,
        dotted(2, 4),
        st.sampled_from(["", "-rc1", "-45-generic", "-100-generic", "-570.12.1.el9_6.x86_64", "+"]),
    ),
    DebVersion: st.builds(
        "{}{}{}".format,
        st.sampled_from(["", "1:", "2:"]),
        st.from_regex(r"[0-9][0-9a-z.+~]{0,8}", fullmatch=True),
        st.sampled_from(["", "-1", "-0ubuntu2~22.04.1", "-0ubuntu10"]),
    ),
    RpmVersion: st.builds(
        "{}{}{}".format,
        st.sampled_from(["", "1:", "3:"]),
        st.from_regex(r"[0-9][0-9a-z.~^_]{0,8}", fullmatch=True),
        st.sampled_from(["", "-1.el9", "-2.el10"]),
    ),
    Pep440Version: st.builds(
        "{}{}".format, dotted(1, 4), st.sampled_from(["", "rc1", ".post2", ".dev3", "+cu128"])
    ),
}


@pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)
def test_is_a_total_order(kind):
    @given(*[STRATEGIES[kind]] * 3)
    def holds(a, b, c):
        x, y, z = kind.parse(a), kind.parse(b), kind.parse(c)
        assert (x < y) + (x == y) + (x > y) == 1
        assert (x <= y) == (x < y or x == y)
        assert (x >= y) == (x > y or x == y)
        if x <= y and y <= z:
            assert x <= z
        if x == y:
            assert hash(x) == hash(y)
        low, _, high = sorted([x, y, z])
        assert low <= high

    holds()


@pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)
def test_keeps_its_text(kind):
    @given(STRATEGIES[kind])
    def holds(text):
        assert str(kind.parse(text)) == text
        assert kind.parse(str(kind.parse(text))) == kind.parse(text)

    holds()


RISING = {
    DriverVersion: ["470.82.01", "525.60.13", "535.104.05", "570.26", "580.65.06", "580.159.04"],
    CudaVersion: ["11.8.0", "12.1", "12.9.2", "12.10", "13.0", "13.0.2"],
    ComputeCapability: ["7.0", "7.5", "8.9", "9.0", "10.0", "10.3", "12.1"],
    GlibcVersion: ["2.5", "2.28", "2.34", "2.39"],
    KernelRelease: [
        "4.18.0-553.el8_10.x86_64",
        "5.14.0-70.el9.x86_64",
        "5.14.0-570.el9.x86_64",
        "6.8.0-45-generic",
        "6.8.0-100-generic",
        "6.12.0-55.el10",
        "7.0.0-rc1",
        "7.0.0",
    ],
    DebVersion: [
        "1.18.0~rc.1-1",
        "1.18.0-1",
        "1.18.0-1build1",
        "580.95.05-0ubuntu0.22.04.1",
        "580.126.20-0ubuntu0.22.04.1",
        "1:1.0-1",
        "1:24.0.7-0ubuntu2~22.04.1",
        "1:24.0.7-0ubuntu2",
        "2:0.1",
    ],
    RpmVersion: [
        "1.0~rc1-1",
        "1.0-1",
        "1.0^20250101-1",
        "1.0a-1",
        "1.0.1-1",
        "575.57.08-1.el9",
        "580.95.05-1.el9",
        "3:580.95.05-1.el9",
        "3:580.126.20-1.el9",
    ],
    Pep440Version: ["1.2.0rc3", "1.2.0", "1.2.0.post1", "2.9.0", "2.9.0+cu128", "2.10.0"],
}


@pytest.mark.parametrize("kind", RISING, ids=lambda kind: kind.__name__)
def test_known_orders(kind):
    for low, high in itertools.combinations(RISING[kind], 2):
        assert kind.parse(low) < kind.parse(high), (low, high)


def test_rpm_letters_end_and_separators():
    same = [("1.0", "1_0"), ("1.0", "1..0"), ("001", "1")]
    for one, two in same:
        assert RpmVersion.parse(one) == RpmVersion.parse(two)
    rising = [("1.0", "1.0.a"), ("a", "1"), ("1.0~", "1.0"), ("1.0~~", "1.0~")]
    for low, high in rising:
        assert RpmVersion.parse(low) < RpmVersion.parse(high)


def test_debian_letters_before_signs():
    for low, high in [("1.0a", "1.0+"), ("1.0~", "1.0"), ("1.0", "1.0a")]:
        assert DebVersion.parse(low) < DebVersion.parse(high)
    assert DebVersion.parse("1.0") == DebVersion.parse("0:1.0-0")


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="no dpkg here")
def test_debian_order_is_dpkgs():
    texts = [
        "1.0~rc1",
        "1.0",
        "1.0a",
        "1.0+b1",
        "1:0.5",
        "2.10",
        "2.9",
        "1.0-1~bpo1",
        "1.0-1",
        "0~",
    ]
    for one, two in itertools.product(texts, repeat=2):
        asked = subprocess.run(["dpkg", "--compare-versions", one, "lt", two], check=False)
        assert (DebVersion.parse(one) < DebVersion.parse(two)) == (asked.returncode == 0), (
            one,
            two,
        )


def test_trailing_zeros_do_not_count():
    assert CudaVersion.parse("13.0") == CudaVersion.parse("13.0.0")
    assert str(CudaVersion.parse("13.0.0")) == "13.0.0"
    assert DriverVersion.parse("580.95.05") == DriverVersion.parse("580.95.5")


def test_parts():
    assert DriverVersion.parse("580.95.05").branch == 580
    assert DriverBranch.parse("R580") == DriverBranch.parse("580")
    assert DriverBranch.parse("R580").number == 580
    cuda = CudaVersion.parse("12.6.3")
    assert (cuda.major, cuda.minor, str(cuda.release)) == (12, 6, "12.6")
    assert str(CudaVersion.from_driver_api(12040)) == "12.4"
    assert ComputeCapability.parse("12.1").sm == "sm_121"
    assert DebVersion.parse("1:24.0.7-0ubuntu2").upstream == "24.0.7"
    assert RpmVersion.parse("3:580.95.05-1.el9").upstream == "580.95.05"
    torch = Pep440Version.parse("2.11.0+cu130")
    assert (str(torch.public), torch.local) == ("2.11.0", "cu130")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DriverVersion, "580.95.x"),
        (DriverVersion, "v580"),
        (DriverBranch, "12"),
        (CudaVersion, "13"),
        (CudaVersion, "cu130"),
        (ComputeCapability, "sm_90"),
        (KernelRelease, "linux"),
        (DebVersion, ""),
        (DebVersion, "1.0 2"),
        (RpmVersion, "a b"),
        (Pep440Version, "6.8.0-45-generic"),
        (GlibcVersion, "2"),
        (Specifier, "newest"),
    ],
)
def test_refuses_with_a_sentence(kind, text):
    with pytest.raises(ValueError, match=f'"{text}" is not a'):
        kind.parse(text)


def test_kinds_do_not_mix():
    with pytest.raises(TypeError):
        assert DriverVersion.parse("580.95.05") < CudaVersion.parse("13.0")
    assert DriverVersion.parse("580.95.05") != RpmVersion.parse("580.95.05")


def test_specifiers_take_prereleases_and_local_labels():
    assert Specifier.parse(">=1.0").contains("1.2.0rc3")
    assert not Specifier.parse(">=1.0").contains("1.2.0rc3", prereleases=False)
    assert Specifier.parse("==2.9.0").contains("2.9.0+cu128")
    assert str(Specifier.parse("==2.18.1").exact) == "2.18.1"
    assert Specifier.parse(">=2.18.1").exact is None


def test_import_costs_no_packaging():
    code = "import sys, doctor.facts.versions; print('packaging' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"
