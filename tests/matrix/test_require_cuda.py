"""NVIDIA_REQUIRE_* is evaluated whole: space is OR, comma is AND, several variables are ANDed."""

from __future__ import annotations

import pytest

from doctor.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from doctor.matrix.require_cuda import require_cuda

IMAGE = (
    "cuda>=12.8 brand=tesla,driver>=470,driver<471 brand=tesla,driver>=535,driver<536 "
    "brand=nvidia,driver>=535,driver<536"
)


def ask(expression, driver="535.104.05", cuda="12.2", brand="tesla", arch=None):
    return require_cuda(
        expression,
        DriverVersion.parse(driver) if driver else None,
        CudaVersion.parse(cuda) if cuda else None,
        brand,
        ComputeCapability.parse(arch) if arch else None,
    )


@pytest.mark.parametrize(
    ("facts", "satisfied"),
    [
        ({}, True),
        ({"brand": "geforce"}, False),
        ({"driver": "530.30.02", "cuda": "12.1"}, False),
        ({"driver": "570.86.10", "cuda": "12.8", "brand": "geforce"}, True),
        ({"driver": "470.82.01", "cuda": "11.4"}, True),
        ({"brand": "NVIDIA"}, True),
        ({"brand": None}, None),
        ({"cuda": None}, True),
        ({"cuda": None, "brand": "geforce"}, None),
        ({"driver": None, "cuda": "13.0"}, True),
        ({"driver": None}, None),
    ],
)
def test_an_image_of_cuda_12_8(facts, satisfied):
    assert ask(IMAGE, **facts).satisfied is satisfied


def test_a_refusal_names_the_nearest_way_out_first():
    refused = ask(IMAGE, driver="530.30.02", cuda="12.1")
    assert refused.unmet[0] == "cuda>=12.8"


def test_an_unknown_names_what_to_find_out():
    assert ask(IMAGE, brand=None).unknown == ("brand=tesla", "brand=nvidia")


def test_variables_are_anded():
    both = {"NVIDIA_REQUIRE_CUDA": "cuda>=12.0", "NVIDIA_REQUIRE_DRIVER": "driver>=550"}
    assert ask(both).satisfied is False
    assert ask(both, driver="550.54.14", cuda="12.4").satisfied is True
    assert ask({**both, "PATH": "/bin"}, driver="550.54.14", cuda="12.4").satisfied is True


@pytest.mark.parametrize(("value", "satisfied"), [("true", True), ("1", True), ("false", False)])
def test_the_switch_that_skips_it(value, satisfied):
    image = {"NVIDIA_REQUIRE_CUDA": "cuda>=13.0", "NVIDIA_DISABLE_REQUIRE": value}
    answer = ask(image)
    assert answer.satisfied is satisfied
    assert answer.disabled is satisfied


def test_the_misspelt_switch_skips_nothing():
    image = {"NVIDIA_REQUIRE_CUDA": "cuda>=13.0", "NVIDIA_DISABLE_REQUIRES": "1"}
    assert ask(image).satisfied is False


@pytest.mark.parametrize(
    ("term", "satisfied"),
    [
        ("cuda=12.2", True),
        ("cuda!=12.2", False),
        ("cuda>12.2", False),
        ("cuda<=12.2", True),
        ("cuda<12", False),
        ("cuda>=12", True),
        ("driver>=535.104", True),
        ("arch>=8.0", True),
        ("arch>=9", False),
        ("brand!=geforce", True),
    ],
)
def test_terms(term, satisfied):
    assert ask(term, arch="8.6").satisfied is satisfied


def test_nothing_is_required():
    assert ask("").satisfied is True
    assert ask({}).satisfied is True


def test_a_term_nobody_understands_is_unknown():
    assert ask("moon>=1").satisfied is None
    assert ask("moon>=1 cuda>=12.0").satisfied is True
    assert ask("moon>=1,cuda>=13.0").satisfied is False
