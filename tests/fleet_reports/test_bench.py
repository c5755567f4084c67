"""The cost of a host does not grow with the fleet, in any format; the full measurement is `python -m tests.fleet_reports.bench`."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.report.formats import FORMATS
from tests.fleet_reports.bench import growth, measure


@pytest.mark.bench
@pytest.mark.timeout(600)
def test_a_further_host_costs_the_same(tmp_path: Path) -> None:
    found = measure([100, 600, 1800], FORMATS, tmp_path)
    for format_, runs in found.items():
        slow = (runs[1800].processor - runs[600].processor) / 1200 > 0.0005
        # a cost that grows with the fleet would give 3.4; below half a millisecond it is noise
        assert growth(runs) < 2.5 or not slow, format_
        assert runs[1800].mebibytes < 200
