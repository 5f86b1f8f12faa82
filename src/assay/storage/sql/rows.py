"""Convert runs, events, messages and outcomes to rows and back; the columns have the order of `tables`."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from assay.core.codec import decode, encode
from assay.core.model.addresses import workflow_address
from assay.core.model.effects import OutboxDetails, OutboxMessage
from assay.core.model.events import ParentLink, Recorded, StartData
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, Time, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import ParentClose
from assay.core.model.priority import task_order
from assay.core.model.run import Child, Run, Stuck, Task
from assay.core.model.update_states import UpdateState
from assay.core.model.waits import NO_WAITS, AwaitedSignal, CancelRequest, Waits
from assay.storage.ports import (
    RequestOutcome,
    RunRecord,
    Snapshot,
    StoredRun,
)

Cells = tuple[object, ...]

_encode = msgspec.json.Encoder().encode
_start = msgspec.json.Decoder(StartData).decode
_details = msgspec.json.Decoder(OutboxDetails).decode
_failure = msgspec.json.Decoder(FailureInfo).decode
_stuck = msgspec.json.Decoder(Stuck).decode
_waits = msgspec.json.Decoder(Waits).decode
_attributes = msgspec.json.Decoder(dict[str, Any]).decode


def document(content: Payload) -> bytes | None:
    """Return the column of a document; NULL for an empty document."""
    return None if content is NULL or content == NULL else bytes(content)


def payload(cell: bytes | None) -> Payload:
    """Return the document of a column."""
    return NULL if cell is None else Payload(cell)


def _state(run: StoredRun) -> Cells:
    task = run.task
    return (
        run.version,
        run.status,
        run.updated_at,
        run.last_time,
        run.last_seq,
        run.input_seq,
        run.seen_seq,
        run.history_bytes,
        run.cancel_seq,
        run.cancel_deadline,
        run.run_deadline,
        task.since,
        task.not_before,
        task.epoch,
        task.worker,
        task.until,
        1 if task.local else 0,
        task.granted_seq,
        task.failures,
        None if task.stuck is None else _encode(task.stuck),
        run.awaiting,
        run.activity_mark,
        run.timer_mark,
        run.effect_mark,
        run.step_mark,
        run.signals,
        run.send_mark,
        run.sends,
        None,  # reserved_until: any change of a run ends its reservation
        task.leased_at,
        None if run.waits is NO_WAITS or run.waits == NO_WAITS else _encode(run.waits),
        task_order(run),
    )


def run_row(run: StoredRun) -> Cells:
    """Return a row of RUNS."""
    start = run.start
    parent = start.parent
    return (
        run.run_id,
        run.namespace,
        run.workflow_id,
        run.number,
        start.workflow_type,
        start.task_queue,
        run.created_at,
        None if parent is None else _parent_column(parent),
        None if parent is None else parent.run_id,
        *_state(run),
        run.closed_at,
        run.close_reason,
        run.error,
        run.next_run_id,
    )


def _parent_column(parent: ParentLink) -> str:
    """Return the parent of a run as lists find it: its id, or its address if it is in another namespace."""
    return parent.workflow_id if parent.namespace is None else workflow_address(parent.namespace, parent.workflow_id)


def run_update_row(run: StoredRun) -> Cells:
    """Return a row of RUN_UPDATES."""
    return (run.run_id, *_state(run))


def run_closing_row(run: StoredRun) -> Cells:
    """Return a row of RUN_CLOSINGS."""
    return (run.run_id, *_state(run), run.closed_at, run.close_reason, run.error, run.next_run_id)


def start_of(data: bytes) -> StartData:
    """Return the start data in the first event of a run."""
    return _start(data)


def run_of(row: Sequence[Any]) -> StoredRun:
    """Return the run of a row with `RUN_COLUMNS`; fields from other tables stay empty."""
    run_id, namespace, workflow_id, number, _type, _queue, created_at, _parent, _parent_run = row[:9]
    version, status, updated_at, last_time, last_seq, input_seq, seen_seq, history_bytes = row[9:17]
    cancel_seq, cancel_deadline, run_deadline = row[17:20]
    awaiting, activity_mark, timer_mark, effect_mark, step_mark, signals, send_mark, sends = row[29:37]
    _reserved, leased_at, waits, _order = row[37:41]
    closed_at, close_reason, error, next_run_id, data, documents, memo, search = row[41:49]
    start = _start(data)
    return StoredRun(
        namespace,
        workflow_id,
        run_id,
        number,
        start,
        created_at,
        status=status,
        close_reason=close_reason,
        error=error,
        closed_at=closed_at,
        updated_at=updated_at,
        last_time=last_time,
        last_seq=last_seq,
        input_seq=input_seq,
        seen_seq=seen_seq,
        history_bytes=history_bytes,
        version=version,
        next_run_id=next_run_id,
        cancel_seq=cancel_seq,
        cancel_deadline=cancel_deadline,
        run_deadline=run_deadline,
        task=_task(row[20:29], leased_at),
        memo=start.memo if documents is None else payload(memo),
        search=start.search_attributes if documents is None else payload(search),
        activity_mark=activity_mark,
        timer_mark=timer_mark,
        effect_mark=effect_mark,
        step_mark=step_mark,
        signals=signals,
        send_mark=send_mark,
        sends=sends,
        tail=[] if seen_seq == last_seq else None,
        waits=_waits_of(waits, awaiting, cancel_seq if closed_at is None else 0, updated_at),
    )


def _waits_of(cell: bytes | None, awaiting: str | None, cancel_seq: int, updated_at: Time) -> Waits:
    """Return the waits of a row. An older engine writes only the name of a signal: then its time is unknown."""
    if cell is None and awaiting is None and not cancel_seq:
        return NO_WAITS
    found = NO_WAITS if cell is None else _waits(cell)
    if awaiting != (found.signals[0].name if found.signals else None):
        found = replace(found, signals=() if awaiting is None else (AwaitedSignal(0, awaiting, updated_at),))
    if cancel_seq and found.cancel is None:
        found = replace(found, cancel=CancelRequest(updated_at))
    return found


def _task(cells: Sequence[Any], leased_at: Time | None) -> Task:
    since, not_before, epoch, worker, until, local, granted_seq, failures, stuck = cells
    reason = None if stuck is None else _stuck(stuck)
    return Task(since, not_before, epoch, worker, until, bool(local), granted_seq, failures, reason, leased_at)


def run_record(row: Sequence[Any]) -> RunRecord:
    """Return the record of a run's row, followed by the first event's payload and the closing event."""
    input, kind, content = row[49:52]
    if kind is None or kind == "WorkflowCompleted":
        return RunRecord(run_of(row), payload(input), payload(content))
    return RunRecord(run_of(row), payload(input), NULL, decode(kind, content, None))


def child_of(row: Sequence[Any]) -> Child:
    """Return a child from (workflow_id, run_id, namespace, StartData, cancel requested) of the child's own run."""
    workflow_id, run_id, namespace, data, cancelled = row
    parent = _start(data).parent
    seq, policy = (0, ParentClose.TERMINATE) if parent is None else (parent.child_seq, parent.close_policy)
    elsewhere = None if parent is None or parent.namespace is None else Namespace(namespace)
    return Child(WorkflowId(workflow_id), RunId(run_id), seq, policy, bool(cancelled), namespace=elsewhere)


def parent_of(row: Sequence[Any]) -> RunId | None:
    """Return the run that started the child of a row of `child_of`."""
    parent = _start(row[3]).parent
    return None if parent is None else parent.run_id


def recorded(row: Sequence[Any]) -> Recorded:
    """Return an event from (seq, time, kind, payload, data, id)."""
    seq, time, kind, content, data, number = row
    return Recorded(seq, time, decode(kind, content, data), number)


def snapshot_row(snapshot: Snapshot) -> Cells:
    """Return a row of SNAPSHOTS."""
    return (snapshot.run_id, snapshot.event_seq, bytes(snapshot.state), snapshot.created_at)


def snapshot_of(row: Sequence[Any]) -> Snapshot:
    """Return the snapshot of a row of SNAPSHOTS."""
    run_id, event_seq, state, created_at = row
    return Snapshot(run_id, event_seq, Payload(state), created_at)


def message_row(message: OutboxMessage, time: Time) -> Cells:
    """Return a row of OUTBOX."""
    event, details = message.event, message.details
    return (
        message.key,
        message.namespace,
        message.workflow_id,
        message.run_id,
        message.kind,
        message.reason,
        message.sender,
        None if event is None else event.recorded_name,
        None if event is None else encode(event)[0],
        None if details is None else _encode(details),
        time,
    )


def message_of(row: Sequence[Any]) -> OutboxMessage:
    """Return the message of a row of OUTBOX."""
    key, namespace, workflow_id, run_id, kind, reason, sender, event_kind, content, details, _time = row
    event = None if event_kind is None else decode(event_kind, content, None)
    more = {} if details is None else asdict(_details(details))
    return OutboxMessage(key, namespace, workflow_id, run_id, kind, reason, event, sender, **more)


def update_row(run: Run, state: UpdateState) -> Cells:
    """Return a row of UPDATES."""
    failure = None if state.failure is None else _encode(state.failure)
    result = document(state.result)
    return (run.run_id, state.update_id, run.namespace, run.workflow_id, state.status, result, failure)


def update_of(row: Sequence[Any]) -> UpdateState:
    """Return the update of a row of UPDATES."""
    run_id, update_id, _namespace, _workflow_id, status, result, failure = row
    return UpdateState(run_id, update_id, status, payload(result), None if failure is None else _failure(failure))


def outcome_row(outcome: RequestOutcome) -> Cells:
    """Return a row of OUTCOMES."""
    return (outcome.namespace, outcome.key, outcome.fingerprint, outcome.status, outcome.body, outcome.created_at)


def document_row(run: Run) -> Cells:
    """Return a row of DOCUMENTS."""
    return (run.run_id, document(run.memo), document(run.search))


def attribute_rows(run: Run) -> Iterator[Cells]:
    """Yield the rows of ATTRIBUTES by which searches find a run."""
    if run.search == NULL:
        return
    for key, value in _attributes(run.search).items():
        values = {canonical(element) for element in value} if isinstance(value, list) else {canonical(value)}
        for text in sorted(text for text in values if text is not None):
            yield (run.run_id, key, text, run.namespace)


def canonical(value: object) -> str | None:
    """Return a search value as typed text, equal for equal values: `s:prod`, `n:5` (also for 5.0), `b:true`.

    Values of other types match no search: None.
    """
    match value:
        case bool():
            return "b:true" if value else "b:false"
        case str():
            return f"s:{value}"
        case int():
            return f"n:{value}"
        case float():
            return f"n:{int(value)}" if value.is_integer() else f"n:{value!r}"
        case _:
            return None


def has_new_documents(run: Run) -> bool:
    """Return whether memo or search attributes of a run differ from its start data."""
    return run.memo != run.start.memo or run.search != run.start.search_attributes
