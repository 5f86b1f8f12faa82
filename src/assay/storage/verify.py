"""Find violations of the invariants in a store, live or copied, without changing the store: `assay verify`.

Checks of single rows are queries over the whole database. Histories are read run by run, folded again and compared with
the tables. A run may change while it is read, therefore a flaw is reported only if a second read confirms the flaw.
"""

from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.events import Recorded
from assay.core.model.ids import SECOND, RunId, Time
from assay.core.model.run import Activity
from assay.storage.changes import StoredRun
from assay.storage.histories import Flaw, decided_activities, flaws, open_timers, scheduled_activities
from assay.storage.sql import activity_rows, checks, queries, rows
from assay.storage.sql.reads import SqlReads

OVERDUE_TIME: Time = 60 * SECOND
"""The age from which a due deadline or an undelivered message counts as overdue."""

RUNS_PER_PAGE = 200
EVENTS_PER_GROUP = 5_000


class Violation(msgspec.Struct, frozen=True):
    """A violated invariant: its number, the run, and a sentence."""

    invariant: str
    run_id: str
    message: str


class _RunRows(msgspec.Struct):
    """The rows of a run in all tables."""

    run: StoredRun
    followed_from: str | None = None
    """The previous run that the next run of the chain names."""
    size: int = 0
    unreadable: str | None = None
    history: list[Recorded] = msgspec.field(default_factory=list)
    open: list[Activity] = msgspec.field(default_factory=list)
    closed: list[Activity] = msgspec.field(default_factory=list)
    deadlines: dict[tuple[str, int], Time] = msgspec.field(default_factory=dict)


async def verify(store: SqlReads, now: Time, *, patience: Time = OVERDUE_TIME) -> AsyncIterator[Violation]:
    """Yield every violation in a store.

    Args:
        store: The reads of the store.
        now: The present in engine time.
        patience: The age from which deadlines and messages are overdue.
    """
    for invariant, sentence, question in checks.ROW_CHECKS:
        for row in await store.query(question):
            yield Violation(invariant, row[0], sentence.format(*row))
    for invariant, sentence, question in checks.OVERDUE_CHECKS:
        for row in await store.query(question, now, patience):
            yield Violation(invariant, row[0], sentence.format(*row))
    for run_id in await _stuck(store):
        yield Violation("L1", run_id, "the run is open, but nothing is left that could go on")
    async for runs in _groups(store):
        async for violation in _confirmed(store, runs):
            yield violation


async def _stuck(store: SqlReads) -> list[str]:
    """Return open runs without a task, an activity, a timer, a child, a message or an awaited signal."""
    suspects = [RunId(run_id) for (run_id,) in await store.query(checks.STUCK_RUNS)]
    return [run.run_id for run in await store.load(suspects, ()) if not run.children]


async def _groups(store: SqlReads) -> AsyncIterator[list[StoredRun]]:
    """Yield all runs, in groups whose histories fit into memory together."""
    last = ""
    while page := await store.query(checks.RUNS_AFTER, last, RUNS_PER_PAGE):
        group: list[StoredRun] = []
        for run in map(rows.run_of, page):
            if group and sum(member.last_seq for member in group) + run.last_seq > EVENTS_PER_GROUP:
                yield group
                group = []
            group.append(run)
        yield group
        last = page[-1][0]


async def _confirmed(store: SqlReads, runs: Sequence[StoredRun]) -> AsyncIterator[Violation]:
    """Yield the flaws of these runs that a second read finds as well."""
    suspects = await _flawed(store, runs)
    if not suspects:
        return
    page = await store.query(queries.RUNS_BY_ID, store.dialect.texts(tuple(suspects)))
    again = await _flawed(store, [rows.run_of(row) for row in page])
    for run_id, found in suspects.items():
        for invariant, message in found:
            if (invariant, message) in again.get(run_id, ()):
                yield Violation(invariant, run_id, message)


async def _flawed(store: SqlReads, runs: Sequence[StoredRun]) -> dict[RunId, list[Flaw]]:
    kept = await _read(store, runs)
    found = {run_id: list(_flaws(everything)) for run_id, everything in kept.items()}
    return {run_id: wrong for run_id, wrong in found.items() if wrong}


async def _read(store: SqlReads, runs: Sequence[StoredRun]) -> dict[RunId, _RunRows]:
    kept = {run.run_id: _RunRows(run) for run in runs}
    wanted = store.dialect.texts(tuple(kept))
    for run_id, *row in await store.query(checks.HISTORIES, wanted):
        try:
            kept[run_id].history.append(rows.recorded(row))
        except Invalid as error:
            kept[run_id].unreadable = str(error)
        kept[run_id].size += len(row[3]) + len(row[4] or b"")
    for run_id, kind, ref, due in await store.query(checks.ALL_DEADLINES, wanted):
        kept[run_id].deadlines[kind, ref] = due
    for cells in await store.query(checks.ALL_ACTIVITIES, wanted):
        run_id, activity = activity_rows.activity_of(cells)
        (kept[run_id].open if activity_rows.is_open(cells) else kept[run_id].closed).append(activity)
    following = {run.next_run_id: run.run_id for run in runs if run.next_run_id is not None}
    if following:
        for next_run_id, data in await store.query(checks.FIRST_EVENTS, store.dialect.texts(tuple(following))):
            kept[following[next_run_id]].followed_from = rows.start_of(data).previous_run_id
    return kept


def _flaws(kept: _RunRows) -> Iterator[Flaw]:
    if kept.unreadable is not None:
        yield "I20", kept.unreadable
        return
    yield from flaws(kept.run, kept.history)
    yield from _activities(kept)
    if not kept.run.closed:
        yield from _deadlines(kept)
    if kept.run.history_bytes != kept.size:
        yield "I2", f"history_bytes is {kept.run.history_bytes}, its events have {kept.size}"
    if kept.followed_from not in (None, kept.run.run_id):
        yield "I18", f"the run continues as {kept.run.next_run_id}, which follows {kept.followed_from}"


def _activities(kept: _RunRows) -> Iterator[Flaw]:
    decided = decided_activities(kept.history)
    for activity in kept.open:
        if activity.seq in decided:
            yield "I6", f"activity {activity.seq} is open although its outcome is recorded"
    for activity in (*kept.open, *kept.closed):
        most = activity.options.retry.max_attempts
        if most and activity.attempt > most:
            yield "I8", f"activity {activity.seq} was started {activity.attempt} times, {most} are allowed"
    known = {activity.seq for activity in (*kept.open, *kept.closed)}
    for seq in scheduled_activities(kept.history) - known:
        yield "I2", f"activity {seq} is scheduled but has no row"


def _deadlines(kept: _RunRows) -> Iterator[Flaw]:
    """Check that the run's deadline is not after its first time-out, and that each open timer has a deadline."""
    clocks = (kept.run.deadline(), *(activity.deadline() for activity in kept.open))
    due = min((clock for clock in clocks if clock is not None), default=None)
    found = kept.deadlines.get(("run", 0))
    if due is not None and (found is None or found > due):
        yield "I12", f"the deadline of the run is {found}, its first time-out is {due}"
    timers = open_timers(kept.history)
    armed = {ref for kind, ref in kept.deadlines if kind == "timer"}
    for seq in timers ^ armed:
        yield "I10", f"timer {seq} {'runs without a deadline' if seq in timers else 'has a deadline but does not run'}"
