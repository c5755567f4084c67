"""Fixtures of the stand-in hosts: one engine a session, one container a module for looks, a fresh one for each change."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.playbooks.cures import VERIFIED, claimed
from tests.playbooks.standins.engine import engine, missing
from tests.playbooks.standins.fleet import Fleet
from tests.playbooks.standins.host import Host

LINUX = ("ubuntu2204", "ubuntu2404", "rocky9", "rocky10")
Start = Callable[..., AbstractContextManager[Host]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """What a test says it cures, its runs have verified."""
    VERIFIED.clear()
    yield
    assert claimed(item.iter_markers()) <= VERIFIED


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The engine, the network and the mirror."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with engine() as started:
        yield Fleet(started, tmp_path_factory.mktemp("fleet"))


@pytest.fixture
def start(fleet: Fleet) -> Start:
    """Start a fresh host: `with start("rocky9", gpus=1) as host`."""
    return fleet.host


@pytest.fixture(scope="module")
def shared(fleet: Fleet) -> Iterator[Callable[[str], Host]]:
    """A host of a distribution that a module's tests only look at."""
    with ExitStack() as stack:
        hosts: dict[str, Host] = {}

        def of(flavor: str) -> Host:
            if flavor not in hosts:
                hosts[flavor] = stack.enter_context(fleet.host(flavor))
            return hosts[flavor]

        yield of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place for inventories and known_hosts files."""
    return tmp_path
