"""Memory follows the bounds of the engine, not payloads of runs; the large form is `python -m benchmarks.bounds`."""

import sys
from pathlib import Path

import pytest

from benchmarks.bounds import Sizes, measure_list, measure_open

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of other processes")

ROOT = Path(__file__).parents[2]
SMALL = Sizes(open_runs=30, listed_runs=12)
PAYLOADS_MEGABYTES = SMALL.open_runs * SMALL.payload_bytes / 1_000_000


def test_open_runs_with_large_inputs_do_not_stay_in_memory():
    found = measure_open(ROOT, SMALL)
    assert found["rss_mb"] - found["idle_mb"] < PAYLOADS_MEGABYTES / 2


def test_a_list_of_runs_with_large_inputs_is_bounded_for_one_and_for_four():
    found = measure_list(ROOT, SMALL)
    assert found["bytes_1_mb"] < 12
    assert found["above_1_mb"] < 100
    assert found["above_4_mb"] < 250
