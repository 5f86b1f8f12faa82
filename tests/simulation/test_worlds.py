"""The real engine, workers and core in seeded worlds: every invariant holds under every fault."""

import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from simulation.campaign import live_seed
from simulation.mutants.retries import CANCELLED, CAUGHT, FAMILIES
from simulation.settings import FAULTS, settings_of
from simulation.world import World, simulate

WORLDS = 300
BLOCK = 15
RETRIED = (FAMILIES, CANCELLED, CAUGHT, {**FAMILIES, "cancels": 0.7, "terminations": 0.5, "kinds": ("child", "act")})
DIGESTS = "from simulation.campaign import live_seed\nprint([live_seed(seed).digest for seed in (1, 2, 3, 5, 8, 13)])"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, WORLDS, BLOCK))
def test_every_rule_holds_in_every_world(first: int):
    for seed in range(first, first + BLOCK):
        assert live_seed(seed).violations == (), f"seed {seed}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(20))
def test_code_that_swaps_calls_is_stuck_and_exchanges_nothing(seed: int):
    world = World(msgspec.structs.replace(settings_of(seed), kinds=("swapped", "act", "inline"), cached_runs=1))
    assert world.live().violations == ()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", RETRIED, ids=lambda world: "-".join(world["kinds"]))
def test_every_rule_holds_where_clients_retry(world: dict[str, Any]):
    for seed in range(BLOCK):
        settings = msgspec.structs.replace(settings_of(seed), **world)
        assert simulate(settings).violations == (), f"seed {seed}"


@pytest.mark.timeout(300)
def test_a_seed_is_the_same_world_in_every_process():
    seen = set()
    for salt in ("1", "2"):
        done = subprocess.run(  # noqa: S603  # this file's own program
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(done.stdout)
    assert len(seen) == 1


@pytest.mark.parametrize("shared", [False, True])
def test_a_world_without_faults_needs_no_restart(shared: bool):
    outcome = simulate(settings_of(4, shared=shared, faults=()))
    assert outcome.violations == ()
    assert outcome.boots == settings_of(4, shared=shared, faults=()).engines


def test_seeds_try_every_fault_and_never_all_of_them():
    swarms = [settings_of(seed).faults for seed in range(200)]
    assert frozenset().union(*swarms) == frozenset(FAULTS)
    assert max(map(len, swarms)) < len(FAULTS)
