"""What a decision needs read first, beyond the run it is about.

Most requests are decided with their run alone. Five kinds need more, which is read here while the batch is loaded and
passed along in the request or the moment: `decide` itself reads nothing.

* Children that are started, runs that a retry or a restart names: the newest runs of their ids (`named`).
* Commands with numbers that a polling worker chose itself: the numbers that are free (`_with_unused`).
* A run that continues as new: the signals that its code has not consumed (`_with_unread`, `_unseen_signals`).
* A run that is continued from outside with the input it has: that input (`_input_of`).
* A run that is retried: its history, and those of the children that ended with it (`_with_histories`).
"""

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.commands import ContinueAsNew, StartChildWorkflow
from assay.core.model.errors import Invalid
from assay.core.model.events import Recorded
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import ParentClose
from assay.core.model.requests import Advance, Request, RestartAsNew, RetryFailed
from assay.core.model.run import Run
from assay.core.rules.children import address
from assay.core.rules.retry_cut import concerned_children, cut_by, cut_of, is_end_by, refusal_of
from assay.storage.ports import Store, StoredRun

Id = tuple[Namespace, WorkflowId]

PREFETCHING: Final = frozenset((StartChildWorkflow, ContinueAsNew))
"""Commands that need more than their run to be decided."""

PREFETCH_PAGE_EVENTS: Final = 10_000
Numbered = cmd.ScheduleActivity | cmd.ScheduleTimer | cmd.RecordSideEffect
NUMBERED: Final[dict[type[Numbered], tuple[type[ev.Event], str, str]]] = {
    cmd.ScheduleActivity: (ev.ActivityScheduled, "activity_seq", "activity_mark"),
    cmd.ScheduleTimer: (ev.TimerScheduled, "timer_seq", "timer_mark"),
    cmd.RecordSideEffect: (ev.SideEffectRecorded, "side_effect_seq", "effect_mark"),
}
"""What is recorded for each command that has a seq of its own, under which name, and where the highest one stands."""


def named(request: Request, run: Run) -> list[Id]:
    """The workflow ids whose newest runs a decision needs: of children to start, of the chain, of one to begin."""
    names: list[str] = []
    match request:
        case Advance():
            names = [command.workflow_id for command in request.commands if isinstance(command, StartChildWorkflow)]
        case RestartAsNew():
            names = [run.workflow_id, request.new_workflow_id or run.workflow_id]
        case RetryFailed():
            names = [run.workflow_id, *request.named]
    return [(run.namespace, WorkflowId(name)) for name in names]


async def prefetch(request: Request, run: Run, store: Store) -> tuple[Request, Sequence[StoredRun]]:
    """Return the request together with what its decision needs, and the runs that it needs beside its own."""
    if isinstance(request, Advance):
        if request.seen_seq < 0:
            request = await _with_unused(request, run, store)
        continuing = next((command for command in request.commands if isinstance(command, ContinueAsNew)), None)
        return request if continuing is None else await _with_unread(request, continuing, run, store), ()
    if isinstance(request, RestartAsNew):
        if request.keep_input:
            request = replace(request, input=await _input_of(run, store), keep_input=False)
        return replace(request, signals=await _unseen_signals(run, store)), ()
    if isinstance(request, RetryFailed):
        return await _with_histories(request, run, store)
    return request, ()


# Numbers of commands. A run knows the highest seq of each kind, which is enough for code that counts, as our SDK does.
# Polling workers choose their seqs and send old commands again, and any client may schedule an activity under any seq.


async def _input_of(run: Run, store: Store) -> Payload:
    """Return the input of a run, from its first event."""
    for recorded in await store.events(run.run_id, 0, 1):
        if isinstance(recorded.event, ev.WorkflowStarted):
            return recorded.event.input
    return NULL


async def _with_unused(request: Advance, run: Run, store: Store) -> Advance:
    """Return the request with those of its seqs that are below the highest of their kind, and free all the same."""
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
    while page := await store.events(run.run_id, after, PREFETCH_PAGE_EVENTS, kind):
        found |= {getattr(recorded.event, name) for recorded in page}
        after = page[-1].seq
    return found


# Signals of a run that continues as new.


async def _with_unread(request: Advance, command: ContinueAsNew, run: Run, store: Store) -> Advance:
    """Return the request with the signals and the cancel request that the code of the closing run has not consumed."""
    # A worker that names none has seen all of them: otherwise its closing command is refused.
    seqs = frozenset(command.unread_signals or ())
    unread = [recorded for recorded in await _signals(run, store) if recorded.seq in seqs]
    if run.cancel_seq in seqs:
        unread = sorted([*unread, *await _cancel(run, store)], key=lambda recorded: recorded.seq)
    return replace(request, unread=tuple(unread))


async def _unseen_signals(run: Run, store: Store) -> tuple[Recorded, ...]:
    return tuple(recorded for recorded in await _signals(run, store) if recorded.seq > run.seen_seq)


async def _cancel(run: Run, store: Store) -> Sequence[Recorded]:
    return await store.events(run.run_id, run.cancel_seq - 1, limit=1)


async def _signals(run: Run, store: Store) -> list[Recorded]:
    if run.signals == 0:
        return []
    return list(await store.events(run.run_id, kind="SignalReceived"))


# Histories of a run that is retried, and of its children.


async def _with_histories(request: RetryFailed, run: Run, store: Store) -> tuple[RetryFailed, Sequence[StoredRun]]:
    """Return the request with all that its decision needs, and the newest runs of the children it may reopen.

    The decision works out anew which children are reopened. If a history is missing then, it raises `Unprepared`, and
    the request is loaded and decided again.
    """
    if refusal_of(run) is not None:
        return request, ()
    tree = _Tree(store)
    history = await tree.read(run)
    with contextlib.suppress(Invalid):  # the decision refuses a cut that is none, and needs no more for that
        await tree.descend(run, cut_of(run.status, history, request.from_seq))
    read = replace(request, histories=tree.histories, named=tuple(tree.names), complete=tree.complete)
    return read, tree.children


class _Tree:
    """The histories of a run and of those below it that its end has ended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.histories: dict[RunId, Sequence[Recorded]] = {}
        self.names: dict[WorkflowId, None] = {}
        self.children: list[StoredRun] = []
        self.complete = True

    async def descend(self, root: Run, cut: int) -> None:
        """Read what there is below a run, level by level, as far as one request may reach."""
        waiting = deque([(root, cut)])
        reached = 0
        while waiting:
            if reached > LIMITS.reopened_children:
                self.complete = False
                return
            parent, place = waiting.popleft()
            names = concerned_children(self.histories[parent.run_id], place)
            self.names.update(names)
            found = await self._store.load((), [(parent.namespace, name) for name in names]) if names else ()
            self.children.extend(found)
            for child in found:
                below = await self._cut_of(child, address(parent))
                if below is not None:
                    waiting.append((child, below))
                    reached += 1

    async def _cut_of(self, child: Run, parent: str) -> int | None:
        """Return where a child's history is cut if it may be reopened."""
        link = child.start.parent
        if link is None or (not child.closed and link.close_policy is ParentClose.ABANDON):
            return None
        if child.closed:
            last = await self._store.events(child.run_id, child.last_seq - 1, limit=1)
            if not last or not is_end_by(parent, last[-1].event):
                self.histories[child.run_id] = last
                return None
        return cut_by(parent, await self.read(child))

    async def read(self, run: Run) -> Sequence[Recorded]:
        """Return the whole history of a run."""
        found: list[Recorded] = []
        while page := await self._store.events(run.run_id, found[-1].seq if found else 0):
            found.extend(page)
        self.histories[run.run_id] = found
        return found
