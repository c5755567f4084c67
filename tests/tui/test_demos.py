"""Ten demos: each is judged through the real line, and the person sees its root cause first."""

from __future__ import annotations

import pytest

from doctor import engine
from doctor.checks.finding import Severity
from doctor.demos import catalog
from doctor.errors import UsageError

ROOTS = {
    "healthy-h200": None,
    "library-mismatch": "driver.library-mismatch",
    "nouveau": "driver.gpu-held-by-other-module",
    "fabric-manager": "fabric.manager-version",
    "wsl2-linux-driver": "wsl.linux-driver-installed",
    "shm-tensor-parallel": "shm.too-small-for-nccl",
    "stale-cdi": "container.cdi-stale",
    "secure-boot": "driver.module-refused",
    "docker-not-restarted": "container.daemon-not-restarted",
    "compat-in-image": "cuda.libcuda-compat",
}


def test_there_are_ten_and_each_has_a_title_and_a_source() -> None:
    assert set(catalog.names()) == set(ROOTS)
    for name in catalog.names():
        document = catalog.read(name)
        assert set(document) == {"title", "source", "host"}
        assert document["source"].startswith("https://")


@pytest.mark.parametrize("name", sorted(ROOTS))
def test_the_root_cause_comes_first(name: str) -> None:
    source, day = catalog.opened(name)
    report = engine.check(source, engine.Options(as_of=day, label=name))
    errors = [item.id for item in report.roots if item.severity is Severity.ERROR]
    root = ROOTS[name]
    if root is None:
        assert report.verdict == "healthy"
    else:
        assert errors[0] == root
        assert report.next is not None
        assert report.next.id == root


def test_a_wrong_name_gets_the_nearest() -> None:
    with pytest.raises(UsageError, match="no demo") as caught:
        catalog.read("nouvau")
    assert "nouveau" in caught.value.hint
