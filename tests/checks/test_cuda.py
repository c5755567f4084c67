"""Which cause of a failed cuInit is named where two looks differ."""

from __future__ import annotations

from datetime import date

import msgspec
import pytest

from doctor.checks.areas import cuda
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.cuda import CudaFacts, CudaLook
from doctor.facts.model import Absent, Known, NotApplicable, Unknown
from doctor.facts.tree import Facts

K = Knowledge(date(2026, 11, 30))
LIB = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"


def facts(code: int, **changes: object) -> Facts:
    area = CudaFacts(
        scope=Known(CudaLook(code=code, library=LIB)),
        clean=Known(CudaLook(code=0, count=2, library=LIB)),
        visible_devices=Known("7"),
    )
    return Facts(cuda=msgspec.structs.replace(area, **changes))


@pytest.mark.parametrize("other", [0, 304, 999])
def test_variable_is_blamed_unless_the_clean_look_counts_none_either(other: int) -> None:
    f = facts(100, clean=Known(CudaLook(code=other, library=LIB)))
    assert cuda.visible_devices(f, K).state == "fail"


def test_variable_is_not_blamed_when_there_is_no_device_without_it() -> None:
    f = facts(100, clean=Known(CudaLook(code=100, library=LIB)))
    assert cuda.visible_devices(f, K).state == "pass"


def test_an_empty_variable_hides_every_gpu_whatever_else_was_seen() -> None:
    f = facts(100, clean=Unknown("no answer in time"), visible_devices=Known(""))
    assert cuda.visible_devices(f, K).state == "fail"


def test_every_code_has_exactly_one_named_cause_or_is_init_failed() -> None:
    named = {
        34: cuda.libcuda_stub,
        100: cuda.visible_devices,
        804: cuda.compat_unsupported,
    }
    for code in (1, 34, 46, 100, 304, 802, 803, 804, 999, 12345):
        f = facts(code)
        causes = [number for number, judge in named.items() if judge(f, K).state == "fail"]
        assert causes == ([code] if code in named else []), code


def test_compat_is_blamed_for_803_only_where_compat_answered() -> None:
    own = facts(803)
    assert cuda.libcuda_compat(own, K).state == "pass"
    through = Known(CudaLook(code=803, library="/usr/local/cuda-13.0/compat/libcuda.so.580.65.06"))
    assert cuda.libcuda_compat(facts(803, scope=through), K).state == "fail"


def test_no_library_to_load() -> None:
    f = facts(0, scope=Absent("libcuda.so.1"), clean=NotApplicable("there is no libcuda to load"))
    assert cuda.init_failed(f, K).state == "fail"
