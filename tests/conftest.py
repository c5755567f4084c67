"""CI tries the same examples every time; a developer's run looks for new ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # as a shell starts what runs in the background; children would ignore the Ctrl-C that they are sent
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """What acts as root narrows the mask of its process; a test that calls it here must not narrow those after it."""
    mask = os.umask(0o022)
    os.umask(mask)
    yield
    os.umask(mask)
