"""Orders that are held keep all promises, in worlds whose limits every program reaches."""

import pytest

from simulation.mutants.held_orders import HELD, small_limits
from simulation.mutants.planting import Mutant
from simulation.world import simulate


@pytest.mark.parametrize("seed", range(4))
def test_held_orders_hold_under_faults(seed: int):
    world = Mutant("none", "", small_limits, world=HELD)
    with world.planted():
        assert simulate(world.settings(seed)).violations == ()
