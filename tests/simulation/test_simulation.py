"""The real engine, workers and core in seeded worlds: the rules hold, and a planted bug breaks one of them."""

import itertools

import pytest

from assay.testing.simulation.mutants import MUTANTS
from assay.testing.simulation.settings import settings_of
from assay.testing.simulation.world import simulate

WORLDS = 120
BLOCK = 20
TWICE = 50
"""Every so manieth world is lived through twice."""
RARE = {"a key's answer rests on a batch that lost"}
"""Needs a coincidence that a hundred worlds seldom have; for `python -m assay.testing.simulation --mutant`."""


@pytest.mark.parametrize("first", range(0, WORLDS, BLOCK))
def test_every_rule_holds_in_every_world(first: int):
    for seed in range(first, first + BLOCK):
        outcome = simulate(settings_of(seed))
        assert outcome.violations == (), f"seed {seed}"
        if seed % TWICE == 0:
            assert simulate(settings_of(seed)).digest == outcome.digest, f"seed {seed} is not repeatable"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - RARE))
def test_a_planted_bug_is_found(name: str):
    mutant = MUTANTS[name]
    with mutant.planted():
        found = itertools.chain.from_iterable(
            simulate(mutant.settings(seed)).violations for seed in range(mutant.seeds)
        )
        assert next(found, None) is not None, f"{name} ({mutant.rule}) survived {mutant.seeds} seeds"
