"""CI tries the same examples every time; a developer's run looks for new ones."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """What acts as root narrows the mask of its process; a test that calls it here must not narrow those after it."""
    mask = os.umask(0o022)
    os.umask(mask)
    yield
    os.umask(mask)
