"""Reads the rows that a decision needs beside its own run.

`decide` is pure and reads nothing: the same run, request and moment always give the same decision. Most requests need
their run alone, and the cache has the run. Five kinds need more rows. These are read here, while the batch is loaded,
and passed to `decide` inside the request or the moment.

* Start a child, retry, restart: the newest runs of the workflow ids that are named (`named`).
* Commands with seqs that a polling worker chose: the seqs that are free (`_with_unused`).
* Continue as new: the inputs that the code has not taken (`_with_unread`, `_unseen_signals`).
* Continue as new from outside, with the same input: the run's input (`_input_of`).
* The end of a watched run: its closing event (`_with_endings`).
* Retry: the run's history, and the histories of children that were closed with it (`_with_histories`).

The rows are read before the decision, and an earlier request of the same batch may change them in between. Runs that
are named are looked up again when the request is decided; histories are checked by `decide`, and a missing history
raises `Unprepared`: the request is loaded and decided again in the next attempt. Reading under a lock instead would
serialize the batch for the sake of the rarest requests.
"""

import contextlib
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.commands import ContinueAsNew, StartChildWorkflow, UpdateResponse
from assay.core.model.errors import Invalid
from assay.core.model.events import Recorded
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import ParentClose
from assay.core.model.requests import AddWatcher, Advance, Deliver, Request, RestartAsNew, RetryFailed, Update
from assay.core.model.run import Run
from assay.core.rules.children import address, child_id
from assay.core.rules.retry_cut import concerned_children, cut_by, cut_of, is_end_by, refusal_of
from assay.core.rules.watches import as_exit
from assay.storage.ports import Store, StoredRun

Id = tuple[Namespace, WorkflowId]

PREFETCHING: Final = frozenset((StartChildWorkflow, ContinueAsNew, UpdateResponse))
"""Commands whose decision needs rows beside the run."""

PREFETCH_PAGE_EVENTS: Final = 10_000
"""Events of one kind that are read from a history at a time."""
NEAR_SEQS: Final = 50
"""Events with a smaller distance are read by one query."""
Numbered = cmd.ScheduleActivity | cmd.ScheduleTimer | cmd.RecordSideEffect
NUMBERED: Final[dict[type[Numbered], tuple[type[ev.Event], str, str]]] = {
    cmd.ScheduleActivity: (ev.ActivityScheduled, "activity_seq", "activity_mark"),
    cmd.ScheduleTimer: (ev.TimerScheduled, "timer_seq", "timer_mark"),
    cmd.RecordSideEffect: (ev.SideEffectRecorded, "side_effect_seq", "effect_mark"),
}
"""For each command with a seq: the event that records it, the event's field, and the run's field of the highest seq."""


def named(request: Request, run: Run) -> list[Id]:
    """Return the workflow ids whose newest runs a decision needs: children to start, the chain, a new run's id."""
    match request:
        case Advance():
            return [child_id(run, command) for command in request.commands if isinstance(command, StartChildWorkflow)]
        case RestartAsNew():
            names = (run.workflow_id, request.new_workflow_id or run.workflow_id)
            return [(run.namespace, name) for name in names]
        case RetryFailed():
            return [(run.namespace, run.workflow_id), *request.named]
    return []


def child_namespaces(requests: Iterable[tuple[Request, Run]]) -> set[str]:
    """Return the namespaces, other than their parents', in which requests start children."""
    found: set[str] = set()
    for request, run in requests:
        commands = request.commands if isinstance(request, Advance) else ()
        spaces = {command.namespace for command in commands if isinstance(command, StartChildWorkflow)}
        if spaces - {None} and isinstance(request, Advance):
            found.update(space for space in spaces if space is not None and space != run.namespace)
            found -= request.denied
    return found


async def prefetch(request: Request, run: Run, store: Store) -> tuple[Request, Sequence[StoredRun]]:
    """Return the request with the rows for its decision, and the further runs for the decision.

    Args:
        request: The request as it arrived.
        run: The run that the request is about.
        store: The store to read from.
    """
    if isinstance(request, Advance):
        if request.seen_seq < 0:
            request = await _with_unused(request, run, store)
        answered = [command.update_id for command in request.commands if isinstance(command, UpdateResponse)]
        if answered:
            states = await store.updates(run.run_id, answered)
            request = replace(request, updates={state.update_id: state for state in states})
        continuing = next((command for command in request.commands if isinstance(command, ContinueAsNew)), None)
        return request if continuing is None else await _with_unread(request, continuing, run, store), ()
    if isinstance(request, Update):
        known = await store.updates(run.run_id, [request.update_id])
        return (replace(request, known=known[0]) if known else request), ()
    if isinstance(request, RestartAsNew):
        if request.keep_input:
            request = replace(request, input=await _input_of(run, store), keep_input=False)
        return replace(request, signals=await _unseen_signals(run, store)), ()
    if isinstance(request, RetryFailed):
        return await _with_histories(request, run, store)
    if isinstance(request, Deliver):
        return await _with_endings(request, store), ()
    if isinstance(request, AddWatcher) and run.closed:
        for recorded in await store.events(run.run_id, run.last_seq - 1, limit=1):
            request = replace(request, ending=recorded.event)
    return request, ()


async def _with_endings(request: Deliver, store: Store) -> Deliver:
    """Return the request with the closing events of the runs that its messages are about."""
    about = tuple({message.about for message in request.messages if message.about is not None})
    endings: dict[RunId, ev.Event] = {}
    for ended in await store.load(about, ()):
        for recorded in await store.events(ended.run_id, ended.last_seq - 1, limit=1):
            endings[ended.run_id] = recorded.event
    return replace(request, endings=endings)


async def _input_of(run: Run, store: Store) -> Payload:
    """Return the input of a run, from its first event."""
    for recorded in await store.events(run.run_id, 0, 1):
        if isinstance(recorded.event, ev.WorkflowStarted):
            return recorded.event.input
    return NULL


# Seqs of commands. A run holds the highest seq of each kind. This is enough for our SDK, which counts its commands: a
# higher seq is new, any other is a repetition. Polling workers choose their seqs freely and send recorded commands
# again, and any client may schedule an activity under any seq. There a seq below the highest may be a repetition or
# new, and only the history shows the difference. The history is read for these seqs alone.


async def _with_unused(request: Advance, run: Run, store: Store) -> Advance:
    """Return the request with its free seqs: below the highest of their kind, and not in the history."""
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
    """Return the seqs below an earlier or recorded one; a seq that rose within the same list is a repetition."""
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


# Inputs of a run that continues as new. No acknowledged message may be lost (I14): inputs not yet taken by the code go
# to the next run, in their order. Two cases:
#
# * The code closes the run itself. The worker lists the inputs that the code has received and not taken. Inputs that
#   came after the worker's last event (`seen_seq`) go along as well.
# * A caller restarts the run from outside. No worker takes part, so the run's own `seen_seq` decides: messages after
#   the last accepted turn are unseen and go along; earlier ones were available to the code.


async def _with_unread(request: Advance, command: ContinueAsNew, run: Run, store: Store) -> Advance:
    """Return the request with the inputs not taken by the code of the closing run."""
    seen = request.seen_seq if request.seen_seq >= 0 else run.task.granted_seq
    named = command.unread if command.unread is not None else command.unread_signals or ()
    seqs = {seq for seq in named if 0 < seq <= seen} | set(range(seen + 1, run.last_seq + 1))
    found = await _events_at(run, seqs, store)
    # The unread end of a child goes along as the end of any other workflow: the next run has no such child.
    exits = [as_exit(recorded, run.namespace) if recorded.seq <= seen else recorded for recorded in found]
    unread = [recorded for recorded in exits if recorded.event.goes_along]
    return replace(request, unread=tuple(unread), unread_until=run.last_seq)


async def _unseen_signals(run: Run, store: Store) -> tuple[Recorded, ...]:
    return tuple(await _events_at(run, set(run.unseen), store))


async def _events_at(run: Run, seqs: set[int], store: Store) -> list[Recorded]:
    """Return events by seq; seqs close to each other are read together."""
    found: list[Recorded] = []
    wanted = sorted(seqs)
    place = 0
    while place < len(wanted):
        first = last = place
        while last + 1 < len(wanted) and wanted[last + 1] - wanted[last] <= NEAR_SEQS:
            last += 1
        page = await store.events(run.run_id, wanted[first] - 1, wanted[last] - wanted[first] + 1)
        found += [recorded for recorded in page if recorded.seq in seqs]
        place = last + 1
    return found


# Histories of a retried run and of its children. A retry reopens children closed by their parent's end, therefore the
# tree below the run is read, level by level.


async def _with_histories(request: RetryFailed, run: Run, store: Store) -> tuple[RetryFailed, Sequence[StoredRun]]:
    """Return the request with the histories for its decision, and the newest runs of children to reopen.

    The decision computes again which children are reopened, on the runs as they are then. If a history is missing, it
    raises `Unprepared`, and the request is loaded and decided again.
    """
    if refusal_of(run) is not None:
        return request, ()
    tree = _Tree(store)
    history = await tree.read(run)
    with contextlib.suppress(Invalid):  # `from_seq` is not a valid cut: the decision refuses it without more rows
        await tree.descend(run, cut_of(run.status, history, request.from_seq))
    read = replace(request, histories=tree.histories, named=tuple(tree.names), complete=tree.complete)
    return read, tree.children


class _Tree:
    """The histories of a run and of the descendants closed by its end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.histories: dict[RunId, Sequence[Recorded]] = {}
        self.names: dict[Id, None] = {}
        self.children: list[StoredRun] = []
        self.complete = True
        """False if the tree has more children than one request may reopen."""

    async def descend(self, root: Run, cut: int) -> None:
        """Read the histories below a run, level by level, up to the limit of one request."""
        waiting = deque([(root, cut)])
        reached = 0
        while waiting:
            if reached > LIMITS.reopened_children:
                self.complete = False
                return
            parent, place = waiting.popleft()
            names = concerned_children(self.histories[parent.run_id], place, parent.namespace)
            self.names.update(names)
            found = await self._store.load((), tuple(names)) if names else ()
            self.children.extend(found)
            for child in found:
                below = await self._cut_of(child, address(parent))
                if below is not None:
                    waiting.append((child, below))
                    reached += 1

    async def _cut_of(self, child: Run, parent: str) -> int | None:
        """Return the seq at which a child's history is cut if the child may be reopened, or None."""
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
