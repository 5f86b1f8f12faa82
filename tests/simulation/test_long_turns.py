"""Turns that are sent in parts keep all promises, in worlds whose messages have one or two commands."""

import msgspec
import pytest

from simulation.settings import settings_of
from simulation.world import simulate


@pytest.mark.parametrize("seed", range(6))
def test_long_turns_hold_under_faults(seed: int):
    settings = msgspec.structs.replace(settings_of(seed), part_commands=1 + seed % 2)
    assert simulate(settings).violations == ()
