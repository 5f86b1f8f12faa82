"""Which commands of a turn come out of order, and which only repeat what is recorded already (wire section 2).

A run knows the highest seq of each kind, which is enough for code that counts, as our SDK does. Workers of the original
choose their seqs and send old commands again, and anybody may schedule an activity under any seq.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from assay.core import commands as cmd
from assay.core import events as ev
from assay.core.requests import Advance, Request
from assay.core.run import Run
from assay.storage.store import Store

PAGE: Final = 10_000
Numbered = cmd.ScheduleActivity | cmd.ScheduleTimer | cmd.RecordSideEffect
NUMBERED: Final[dict[type[Numbered], tuple[type[ev.Event], str, str]]] = {
    cmd.ScheduleActivity: (ev.ActivityScheduled, "activity_seq", "activity_mark"),
    cmd.ScheduleTimer: (ev.TimerScheduled, "timer_seq", "timer_mark"),
    cmd.RecordSideEffect: (ev.SideEffectRecorded, "side_effect_seq", "effect_mark"),
}
"""What is recorded for each command that has a seq of its own, under which name, and where the highest one stands."""


def may_repeat(request: Request) -> bool:
    """Does a request come from a worker that replays elsewhere and may send what it sent before?"""
    return (
        isinstance(request, Advance) and request.seen_seq < 0 and any(isinstance(c, Numbered) for c in request.commands)
    )


async def with_unused(request: Request, run: Run, store: Store) -> Request:
    """The request together with those of its seqs that are below the highest of their kind, and free all the same."""
    if not isinstance(request, Advance):
        return request
    low: set[tuple[str, int]] = set()
    taken: set[tuple[str, int]] = set()
    numbered = [command for command in request.commands if isinstance(command, Numbered)]
    for kind, (event, name, mark) in NUMBERED.items():
        found = _low([command.seq for command in numbered if type(command) is kind], getattr(run, mark))
        if found:
            low |= {(event.recorded_name, seq) for seq in found}
            taken |= {(event.recorded_name, seq) for seq in await _recorded(run, event.recorded_name, name, store)}
    return replace(request, unused=frozenset(low - taken)) if low else request


def _low(seqs: Sequence[int], highest: int) -> set[int]:
    """Those that come after a higher one, and not for the second time."""
    low: set[int] = set()
    rising: set[int] = set()
    for seq in seqs:
        if seq > highest:
            highest = seq
            rising.add(seq)
        elif seq not in rising:
            low.add(seq)
    return low


async def _recorded(run: Run, kind: str, name: str, store: Store) -> set[int]:
    found: set[int] = set()
    after = 0
    while page := await store.events(run.run_id, after, PAGE, kind):
        found |= {getattr(recorded.event, name) for recorded in page}
        after = page[-1].seq
    return found
