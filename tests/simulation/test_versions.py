"""Versions of changes keep their rules in worlds with faults, whose workers deploy another version at each call."""

import msgspec
import pytest

from simulation.mutants.versions import VERSIONED
from simulation.settings import settings_of
from simulation.world import simulate


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_every_rule_holds_for_versions(first: int):
    for seed in range(first, first + 10):
        settings = msgspec.structs.replace(settings_of(seed), **VERSIONED)
        assert simulate(settings).violations == (), f"seed {seed}"
