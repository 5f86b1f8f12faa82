"""The frames of the event stream: the frames of a journal row, their numbers and their bytes.

Each row has 1,024 numbers. The frame of an event has the number 1,024 times the row's id; the frame of its cause has
the number before, derived frames have the numbers after. The items of a note are counted from the same number. A frame
therefore has the same number and the same bytes for all readers, at any time and on any engine.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from assay.core.model.ids import Time, seconds
from assay.core.schedules.model import Fire
from assay.engine.stream import Claim, JournalEntry, JournalRow, Note
from assay.wire import responses
from assay.wire.stream_kinds import RUNNING, cause_of, facts_of, kind_of

NUMBERS_PER_ROW: Final = 1_024
CAUSE, EVENT, CLAIMED = -1, 0, 1
"""Offsets of the frames of a row from the number of its event."""


class StreamFrame(msgspec.Struct):
    """A frame of the event stream. Its bytes are encoded when the first reader needs them."""

    number: int
    kind: str
    time: Time
    namespace: str
    facts: Callable[[], dict[str, Any]]
    workflow_id: str = ""
    run_id: str | None = None
    workflow_type: str | None = None
    body: bytes | None = None


def row_of(number: int) -> int:
    """Return the journal row of a number."""
    return (number - CAUSE) // NUMBERS_PER_ROW


def last_of(row_id: int) -> int:
    """Return the last number of a row: a client with this cursor continues with the next row."""
    return (row_id + 1) * NUMBERS_PER_ROW + CAUSE - 1


def frames_of(news: JournalRow) -> Iterator[StreamFrame]:
    """Return the frames of a row, by number."""
    first = news.id * NUMBERS_PER_ROW
    if isinstance(news, Note):
        for number, claim in enumerate(news.claims, first):
            yield _claimed(claim, news.time, number)
        for number, fire in enumerate(news.fires, first):
            kind = f"schedule_{fire.outcome}"
            yield StreamFrame(number, kind, fire.fired_at, fire.namespace, partial(_unfired, fire))
        return
    cause = cause_of(news.kind, news.data)
    if cause is not None:
        yield _of_run(news, first + CAUSE, cause[0], news.time, cause[1].copy)
    yield _of_run(news, first + EVENT, kind_of(news.kind), news.time, partial(_facts, news))
    if news.claimed:
        yield _claimed(news, news.time, first + CLAIMED)


def _of_run(
    run: JournalEntry | Claim, number: int, kind: str, time: Time, facts: Callable[[], dict[str, Any]]
) -> StreamFrame:
    return StreamFrame(number, kind, time, run.namespace, facts, run.workflow_id, run.run_id, run.workflow_type)


def _claimed(run: JournalEntry | Claim, time: Time, number: int) -> StreamFrame:
    return _of_run(run, number, RUNNING, time, lambda: {"task_queue": run.task_queue})


def _facts(entry: JournalEntry) -> dict[str, Any]:
    return {**facts_of(entry.kind, entry.payload), "event_seq": entry.seq, "event": entry.kind}


def _unfired(fire: Fire) -> dict[str, Any]:
    facts = {"schedule": fire.schedule, "due_at": seconds(fire.due_at), "outcome": fire.outcome, "reason": fire.reason}
    return {**facts, "trigger": fire.trigger, "until": None if fire.until is None else seconds(fire.until)}


def body_of(frame: StreamFrame) -> bytes:
    """Return the bytes of a frame."""
    if frame.body is None:
        frame.body = _encoded(frame)
    return frame.body


def _encoded(frame: StreamFrame) -> bytes:
    named = {"workflow_id": frame.workflow_id, "run_id": frame.run_id} if frame.run_id is not None else {}
    data = responses.StreamEvent(
        id=frame.number,
        ts=seconds(frame.time),
        namespace=frame.namespace,
        subsystem="workflow",
        kind=frame.kind,
        event_type=frame.kind,
        workflow_id=frame.workflow_id,
        run_id=frame.run_id,
        workflow_type=frame.workflow_type,
        payload={"namespace": frame.namespace, **named, **frame.facts()},
    )
    # JSON has no line breaks and kinds are fixed words, so a name chosen by a caller cannot end a field.
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (frame.number, frame.kind.encode(), msgspec.json.encode(data))
