"""Compare acknowledgements to clients and workers with the database at the end (I1, I3, I14), and check liveness."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from assay.core.model import events as ev
from assay.core.model.ids import RunId
from assay.core.model.replies import Started
from assay.engine.commit.idempotency import Rendered
from simulation.checks.histories import Archive, Life
from simulation.ledger import Sent
from simulation.programs import Step, expected, matches
from simulation.shown import shown
from simulation.tables import PLACE

if TYPE_CHECKING:
    from simulation.world import World


FROM_OUTSIDE = (
    ev.SignalReceived,
    ev.WorkflowCancelRequested,
    ev.TimerFired,
    ev.ActivityCompleted,
    ev.ActivityFailed,
    ev.ChildWorkflowCompleted,
)
"""Inputs that a turn cannot bring about by its own commands."""


def run_named(reply: object) -> RunId | None:
    """The run that a start's answer names, if it names one."""
    if isinstance(reply, Started):
        return reply.key.run_id
    if isinstance(reply, Rendered) and reply.status == 201:
        return RunId(reply.body.decode().split()[0])
    return None


def check_promises(world: "World", archive: Archive) -> None:
    """Everything that was said must be true."""
    for check in (
        _finished,
        _hands,
        _starts,
        _signals,
        _orders,
        _turns,
        _completions,
        _executions,
        _final_limits,
        _told,
        _results,
        _schedule,
    ):
        for problem in check(world, archive):
            world.ledger.violate(problem)


def _finished(world: "World", archive: Archive) -> Iterator[str]:
    """Check that every run ends once the faults are over."""
    for client in world.clients:
        if client.busy:
            yield f"liveness: {client.name} was still busy at {world.loop.time():.0f} s"
    for life in archive.lives.values():
        if life.end is None:
            last = life.history[-1]
            facts = {name: value for name, value in life.row.items() if name.startswith("task_") or name == "stuck"}
            yield f"liveness: {life.workflow_id} is open at {world.loop.time():.0f} s after {shown(last)}; {facts}"
    if archive.tables.rows["outbox_messages"]:
        yield f"liveness: {len(archive.tables.rows['outbox_messages'])} messages were never delivered"


def _hands(world: "World", archive: Archive) -> Iterator[str]:
    """Once nothing is open, every worker has all its slots free, and not one more."""
    settings = world.settings
    if any(life.end is None for life in archive.lives.values()):
        return
    for worker in world.living:
        if worker._activity_tasks._attempts:
            yield f"liveness: a worker still works on {list(worker._activity_tasks._attempts)}, which nobody wants"
        free = (worker.slots.tasks, worker.slots.activities)
        if free != (settings.task_hands, settings.activity_hands):
            yield f"liveness: a worker has {free} free slots of {settings.task_hands} and {settings.activity_hands}"


def _starts(world: "World", archive: Archive) -> Iterator[str]:
    for request_id, run_ids in world.ledger.started.items():
        for run_id in run_ids:
            if run_id not in archive.lives:
                yield f"I1 {request_id} was told of {run_id}, which does not exist"


def _signals(world: "World", archive: Archive) -> Iterator[str]:
    """I14: an acknowledged signal is there exactly once, a refused one is not there at all, and order is kept."""
    found: dict[str, Counter[RunId]] = {}
    acked = {sent.nonce for sent in world.ledger.signals if sent.acked}
    for life in archive.lives.values():
        latest: dict[str, int] = {}
        for recorded in life.of(ev.SignalReceived):
            name, nonce = _nonce(recorded.event)
            found.setdefault(nonce, Counter())[life.run_id] += 1
            number = int(nonce.rpartition("/")[2])
            if name == "noise" or nonce not in acked:
                continue
            if number < latest.get(name, 0):
                yield f"I14 signal {nonce} was overtaken in {life.workflow_id}"
            latest[name] = number
    for sent in world.ledger.signals:
        yield from _signal(sent, found.get(sent.nonce, Counter()))


def _nonce(event: ev.Event) -> tuple[str, str]:
    if not isinstance(event, ev.SignalReceived):
        raise TypeError(event)
    return event.signal, msgspec.json.decode(event.payload)["nonce"]


def _signal(sent: Sent, places: Counter[RunId]) -> Iterator[str]:
    if any(count > 1 for count in places.values()):
        yield f"I14 signal {sent.nonce} is recorded {max(places.values())} times"
    if sent.acked and not places:
        yield f"I1 signal {sent.nonce} was acknowledged and lost"
    if places and not sent.acked and not sent.unsure:
        yield f"I3 signal {sent.nonce} was refused and recorded"


def _orders(world: "World", archive: Archive) -> Iterator[str]:
    for run_id in world.ledger.acked_cancels:
        if run_id not in archive.lives or not archive.lives[run_id].row["cancel_seq"]:
            yield f"I1 the cancel of {run_id} was acknowledged and lost"
    for run_id in world.ledger.acked_terminations:
        if run_id not in archive.lives or not isinstance(archive.lives[run_id].end, ev.WorkflowTerminated):
            yield f"I1 the termination of {run_id} was acknowledged and lost"


def _turns(world: "World", archive: Archive) -> Iterator[str]:
    """I7: no turn is accepted once a later lease was given; I1: an accepted turn is in the history."""
    for run_id, turns in world.ledger.turns.items():
        for turn in turns:
            if run_id not in archive.lives or turn.last_seq > len(archive.lives[run_id].history):
                yield f"I1 a turn of {run_id} was accepted and lost"
                continue
            history = archive.lives[run_id].history[turn.known : turn.last_seq]
            unknown = [recorded.event for recorded in history if isinstance(recorded.event, FROM_OUTSIDE)]
            if history and isinstance(history[-1].event, ev.WorkflowContinuedAsNew):
                unknown = [event for event in unknown if not event.goes_along]  # the next run has the others
            if turn.must_know and unknown:
                yield f"I14 {run_id} was closed by code that did not know of everything after {turn.known}"
            for epoch, last_seq in world.ledger.grants[run_id]:
                if turn.epoch < epoch and turn.last_seq > last_seq:
                    yield f"I7 {run_id} took a turn of epoch {turn.epoch} after epoch {epoch} began"


def _completions(world: "World", archive: Archive) -> Iterator[str]:
    """I8: a result is recorded from the attempt that was the current one."""
    for (run_id, seq), attempts in world.ledger.completions.items():
        row = archive.activities.get((run_id, seq))
        if row is None or row["status"] != "COMPLETED":
            yield f"I1 the result of activity {seq} of {run_id} was accepted and lost"
        elif attempts != {row["attempt_id"]}:
            yield f"I8 activity {seq} of {run_id} took results of {attempts}, its attempt is {row['attempt_id']}"


def _executions(world: "World", archive: Archive) -> Iterator[str]:
    """I8: what is recorded was executed, and no attempt more than once unless it was given back."""
    ledger = world.ledger
    for (run_id, seq), row in archive.activities.items():
        attempts = ledger.executions.get((run_id, row["id"]), [])
        if row["status"] == "COMPLETED" and not attempts and not _inherited(archive, run_id, seq):
            yield f"I8 activity {seq} of {run_id} has a result and was never executed"
        repeated = len(attempts) - len(set(attempts))
        if repeated > ledger.released[run_id, seq]:
            yield f"I8 activity {seq} of {run_id} was executed as {attempts}"


def _inherited(archive: Archive, run_id: RunId, seq: int) -> bool:
    """Return whether a reopened run has this result from the run before it."""
    start = archive.lives[run_id].start
    before = None if start.reopening is None or start.previous_run_id is None else start.previous_run_id
    row = None if before is None else archive.activities.get((before, seq))
    return row is not None and row["status"] == "COMPLETED"


def _final_limits(world: "World", archive: Archive) -> Iterator[str]:
    """Check that an activity ends when it was not begun or not completed in time."""
    place = PLACE["attempts"]
    ended = {row["id"]: row for row in archive.activities.values()}
    for row in archive.tables.rows["attempts"].values():
        final = row[place["outcome"]] in ("schedule_to_start", "schedule_to_close")
        activity = ended[row[place["activity_id"]]]
        if final and activity["status"] != "FAILED":
            yield f"time-outs: activity {activity['seq']} of {activity['run_id']} went on after {row[place['outcome']]}"


def _told(world: "World", archive: Archive) -> Iterator[str]:
    """I5: whoever waited for an end was told the end that is recorded."""
    for run_id, event in world.ledger.results.items():
        if run_id not in archive.lives or archive.lives[run_id].end != event:
            yield f"I5 a client was told that {run_id} ended with {shown(event)}"


def _results(world: "World", archive: Archive) -> Iterator[str]:
    """Every program ends as the model says, unless somebody interfered."""
    for program in world.programs:
        chain = archive.chain(program["id"])
        if chain and chain[-1].end is not None:
            yield from _result(world, program, chain[-1])
        elif not chain:
            yield f"liveness: {program['id']} was never started"


def _result(world: "World", program: Step, life: Life) -> Iterator[str]:
    end: Any = life.end
    if isinstance(end, ev.WorkflowCancelled) and life.workflow_id in world.ledger.cancels:
        return
    if isinstance(end, ev.WorkflowFailed) and program.get("retry") and life.workflow_id in world.ledger.cancels:
        return  # whoever was asked to end is not tried again
    impatient = world.ledger.terminations | world.ledger.cancels  # a cancel may have a deadline
    if isinstance(end, ev.WorkflowTerminated) and life.workflow_id in impatient:
        return
    if not isinstance(end, ev.WorkflowCompleted):
        yield f"model: {life.workflow_id} ended with {shown(end)}"
    elif not matches(expected(program), msgspec.json.decode(end.result)):
        yield f"model: {life.workflow_id} returned {shown(end.result)}, not {expected(program)}"


def _schedule(world: "World", _archive: Archive) -> Iterator[str]:
    """I11: every due time is accounted for."""
    yield from world.keeper.check()
