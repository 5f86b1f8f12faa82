"""What a seed decides before anything runs: the topology, the load, and which faults happen at all (swarm testing)."""

import random
from collections.abc import Iterable

import msgspec

from assay.core.model.limits import CACHE_BYTES, LIMITS
from simulation.programs import KINDS, WATCHING

FAULTS = (
    "reject",  # the store refuses a write, cleanly
    "unknown",  # the store does not answer a COMMIT, which it has executed, never receives, or receives later
    "unread",  # the store fails to answer a question
    "slow_store",
    "crash_before",  # the engine dies just before a commit
    "crash_after",  # the engine dies just after a commit
    "kill_engine",
    "stop_engine",  # politely: a rolling restart
    "pause_engine",
    "kill_worker",
    "stop_worker",
    "pause_worker",
    "lose",  # messages
    "delay",
    "repeat",
    "cut",  # a link for a while
    "clock",  # engines' clocks differ from boot to boot, workers' from the engine's
    "step_clock",  # wall clocks are set forward, back, and back again
    "hiccup",  # callbacks that take long
    "mute",  # hints between engines are lost
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One seed's world."""

    seed: int
    shared: bool = False
    inline: bool = True
    engines: int = 1
    local_workers: int = 1
    remote_workers: int = 0
    task_hands: int = 8
    activity_hands: int = 8
    cached_runs: int = 1_000
    engine_cache: int = 10_000
    engine_cache_bytes: int = CACHE_BYTES
    payload_bytes: int = 0
    """How much longer the inputs and signals of clients are than they have to be."""
    ready_page: int = 1_000
    """Entries of ready work that an engine reads at a time."""
    unserved: int = 0
    """Runs of types and on task queues that no worker serves; more than a page of them must hide nothing."""
    part_commands: int = LIMITS.commands
    """How many commands of a turn a worker sends in one message."""
    programs: int = 4
    kinds: tuple[str, ...] = ()
    """The kinds of steps in programs; empty for all."""
    again: float = 0.2
    """How likely it is that a program continues as new."""
    cancels: float = 0.15
    terminations: float = 0.08
    retries: float = 0.0
    """How likely it is that a client retries a run that was cancelled or terminated."""
    faults: frozenset[str] = frozenset()
    fault_seconds: int = 30
    heal_seconds: int = 240

    def has(self, fault: str) -> bool:
        """Does this fault happen here?"""
        return fault in self.faults


WATCHING_SEEDS = 0.25
"""The share of worlds whose programs watch other workflows as well."""


def chance_of(seed: int, *purpose: object) -> random.Random:
    """A random source of its own for each purpose, so that one more draw here changes nothing elsewhere."""
    return random.Random(":".join(map(str, (seed, *purpose))))  # noqa: S311  # repeatable on purpose


def settings_of(seed: int, *, shared: bool | None = None, faults: Iterable[str] | None = None) -> Settings:
    """The world of a seed; `shared` and `faults` narrow it down."""
    chance = chance_of(seed, "settings")
    is_shared = chance.random() < 0.5 if shared is None else shared
    swarm = [fault for fault in FAULTS if fault != "step_clock" and chance.random() < 0.5]
    if chance_of(seed, "step_clock").random() < 0.4:
        swarm.append("step_clock")
    sizes = chance_of(seed, "sizes")
    remote = chance.choice((0, 0, 1, 2))
    engines = chance.choice((2, 2, 3)) if is_shared else 1
    local = chance.choice((0, 1)) if remote else 1
    return Settings(
        seed=seed,
        shared=is_shared,
        inline=not is_shared and chance.random() < 0.5,
        engines=engines,
        local_workers=local,
        remote_workers=remote,
        task_hands=chance.choice((1, 2, 8)),
        activity_hands=chance.choice((1, 2, 8)),
        cached_runs=chance.choice((1, 3, 1_000)),
        engine_cache=chance.choice((1, 3, 10_000)),
        engine_cache_bytes=sizes.choice((CACHE_BYTES, 150_000)),
        payload_bytes=sizes.choice((0, 0, 25_000, 70_000)),
        programs=chance.choice((2, 3, 4, 5)),
        kinds=(*KINDS, *WATCHING) if chance_of(seed, "watching").random() < WATCHING_SEEDS else (),
        ready_page=chance_of(seed, "ready_page").choice((1, 2, 5, 1_000)),
        unserved=chance_of(seed, "unserved").choice((0, 0, 0, 12)),
        part_commands=chance_of(seed, "part_commands").choice((1, 2, 3, LIMITS.commands, LIMITS.commands)),
        faults=frozenset(swarm if faults is None else faults),
        fault_seconds=chance.choice((10, 20, 40)),
    )
