"""The simulation finds every planted bug within the bug's number of seeds."""

import pytest

from simulation.campaign import hunt
from simulation.mutants import MUTANTS, SINGLE_CONDITIONS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str):
    assert hunt(MUTANTS[name]) is not None, f"{name} ({MUTANTS[name].rule}) survived {MUTANTS[name].seeds} seeds"


def test_conditions_that_others_imply_are_known():
    assert {mutant.rule for mutant in SINGLE_CONDITIONS} == {"fused completion"}
