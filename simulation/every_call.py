"""Run one small program of each kind, with every single call of the store failing in every way."""

from collections.abc import Iterator

from simulation.faults import Scripted
from simulation.programs import KINDS, Author
from simulation.settings import Settings, chance_of
from simulation.world import Outcome, World

FATES = ("reject", "unknown", "crash_before", "crash_after")
"""Before, after (executed, and the caller is not told), and by crash on either side of the commit."""
SHARED_FATES = (*FATES, "late")
"""Also with a COMMIT that arrives after its connection was lost: a database server has such, a file does not."""


def failing(kind: str, at: int, fate: str, *, shared: bool = False) -> tuple[Outcome, int]:
    """A program of one kind, with call number `at` of the store failing; also how many calls there were."""
    settings = Settings(
        seed=KINDS.index(kind),
        shared=shared,
        inline=not shared,
        engines=2 if shared else 1,
        task_hands=2,
        activity_hands=2,
        cancels=0.0,
        terminations=0.0,
        fault_seconds=120,
    )
    author = Author(chance_of(settings.seed, "every call", kind))
    trouble = Scripted(at, fate)
    world = World(settings, programs=[author.single(kind, "w")], trouble=trouble)
    return world.live(), trouble.calls


def every_call(kind: str, *, shared: bool = False) -> Iterator[tuple[str, int, Outcome]]:
    """Each way, each call, and how that ended."""
    _, calls = failing(kind, 0, "reject", shared=shared)
    for fate in SHARED_FATES if shared else FATES:
        for at in range(1, calls + 1):
            yield fate, at, failing(kind, at, fate, shared=shared)[0]
