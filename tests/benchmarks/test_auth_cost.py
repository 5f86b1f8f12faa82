"""Wrong keys cost an engine no more than right ones."""

import asyncio

import pytest

from benchmarks.auth_cost import measure_keys
from benchmarks.environments import HOME


@pytest.mark.quiet
def test_wrong_keys_cost_no_more_than_right_ones():
    HOME.mkdir(exist_ok=True)
    assert asyncio.run(measure_keys(1_000))
