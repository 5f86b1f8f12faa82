"""What the event stream tells of each row of the journal, under which number, and how that looks (wire 1.7).

Each row has 1,024 numbers: what has caused the first event of a run comes one before 1,024 times the row's id, an event
has that number itself, and what is derived from it comes after. The things that a note tells are counted from there. So
a frame has the same number whenever it is sent, and by whichever engine.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from assay.core.ids import Time, seconds
from assay.core.schedule import Fire
from assay.engine.stream import Claim, Entry, News, Note
from assay.wire import responses
from assay.wire.stream_kinds import RUNNING, cause_of, facts_of, kind_of

NUMBERS_PER_ROW: Final = 1_024
CAUSE, EVENT, CLAIMED = -1, 0, 1
"""What the numbers around an event stand for."""


class Told(msgspec.Struct):
    """What becomes a frame, if somebody wants it; only then its facts are made."""

    number: int
    kind: str
    time: Time
    namespace: str
    facts: Callable[[], dict[str, Any]]
    workflow_id: str = ""
    run_id: str | None = None
    workflow_type: str | None = None


def row_of(number: int) -> int:
    """The row of the journal that a number belongs to."""
    return (number - CAUSE) // NUMBERS_PER_ROW


def last_of(row_id: int) -> int:
    """The last number of a row: whoever has seen that goes on with the next one."""
    return (row_id + 1) * NUMBERS_PER_ROW + CAUSE - 1


def told_of(news: News) -> Iterator[Told]:
    """All that is told of a row, by number."""
    first = news.id * NUMBERS_PER_ROW
    if isinstance(news, Note):
        for number, claim in enumerate(news.claims, first):
            yield _claimed(claim, news.time, number)
        for number, fire in enumerate(news.fires, first):
            kind = f"schedule_{fire.outcome}"
            yield Told(number, kind, fire.fired_at, fire.namespace, partial(_unfired, fire))
        return
    cause = cause_of(news.kind, news.data)
    if cause is not None:
        yield _of_run(news, first + CAUSE, cause[0], news.time, cause[1].copy)
    yield _of_run(news, first + EVENT, kind_of(news.kind), news.time, partial(_facts, news))
    if news.claimed:
        yield _claimed(news, news.time, first + CLAIMED)


def _of_run(run: Entry | Claim, number: int, kind: str, time: Time, facts: Callable[[], dict[str, Any]]) -> Told:
    return Told(number, kind, time, run.namespace, facts, run.workflow_id, run.run_id, run.workflow_type)


def _claimed(run: Entry | Claim, time: Time, number: int) -> Told:
    return _of_run(run, number, RUNNING, time, lambda: {"task_queue": run.task_queue})


def _facts(entry: Entry) -> dict[str, Any]:
    return {**facts_of(entry.kind, entry.payload), "event_seq": entry.seq, "event": entry.kind}


def _unfired(fire: Fire) -> dict[str, Any]:
    told = {"schedule": fire.schedule, "due_at": seconds(fire.due_at), "outcome": fire.outcome, "reason": fire.reason}
    return {**told, "trigger": fire.trigger, "until": None if fire.until is None else seconds(fire.until)}


def frame_of(told: Told) -> bytes:
    """The frame, in the shapes of both lines of the original."""
    named = {"workflow_id": told.workflow_id, "run_id": told.run_id} if told.run_id is not None else {}
    data = responses.StreamEvent(
        id=told.number,
        ts=seconds(told.time),
        namespace=told.namespace,
        subsystem="workflow",
        kind=told.kind,
        event_type=told.kind,
        workflow_id=told.workflow_id,
        run_id=told.run_id,
        workflow_type=told.workflow_type,
        payload={"namespace": told.namespace, **named, **told.facts()},
    )
    # JSON has no line breaks inside, and kinds are words: nothing a caller named can end a field (S34)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (told.number, told.kind.encode(), msgspec.json.encode(data))
