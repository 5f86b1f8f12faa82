"""Save histories to files, and load histories that were saved here or printed by `assay workflow events`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from assay.core.codec import UnknownEvent, decode, encode
from assay.core.model.errors import Invalid, NotFound
from assay.core.model.events import Recorded
from assay.core.model.ids import Namespace, RunId, RunKey, Seq, Time, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.sdk.client.client import Client
from assay.sdk.client.connections import Hosting
from assay.sdk.client.transport import Transport
from assay.wire.parse import parse_event


class SavedEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event in its stored form; see `core.codec`."""

    seq: Seq
    time: Time
    kind: str
    payload: Payload = NULL
    data: Payload = NULL


class History(msgspec.Struct, frozen=True, omit_defaults=True):
    """The history of a run, for a file that tests replay."""

    workflow_type: str
    run_id: RunId
    events: tuple[SavedEvent, ...]
    workflow_id: WorkflowId = WorkflowId("replayed")
    namespace: Namespace = Namespace("main")

    def dump(self) -> bytes:
        """Return the history as JSON, with an event per line."""
        head = msgspec.json.encode(msgspec.structs.replace(self, events=()))
        lines = b",\n".join(msgspec.json.encode(event) for event in self.events)
        return head.replace(b'"events":[]', b'"events":[\n' + lines + b"\n]") + b"\n"

    def recorded(self) -> list[Recorded]:
        """Return the decoded events, as the replay needs them."""
        return [
            Recorded(event.seq, event.time, decode(event.kind, bytes(event.payload), _present(event.data)))
            for event in self.events
        ]


Source: TypeAlias = History | Path | str | bytes | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A source of a history: a file, a text with JSON or JSON lines, or the parsed JSON."""


def save_history(key: RunKey, workflow_type: str, events: Sequence[Recorded]) -> History:
    """Return the history of a run from its recorded events.

    Args:
        key: The namespace, workflow id and run id.
        workflow_type: The workflow type.
        events: The events, from the first.

    Returns:
        A history, which `dump` turns into JSON.
    """
    return History(workflow_type, key.run_id, tuple(map(_saved, events)), key.workflow_id, key.namespace)


def load_history(source: Source, workflow_type: str | None = None, namespace: str | None = None) -> History:
    """Load a history from a file, from JSON or JSON lines, or from parsed JSON.

    Args:
        source: The file, the text or the document.
        workflow_type: The workflow type, if the history has none or the workflow has another name now.
        namespace: The namespace, if the history has none; `main` by default.

    Returns:
        The history.

    Raises:
        Invalid: The source is not a complete history of a single run.
    """
    found = _loaded(source, workflow_type)
    return msgspec.structs.replace(
        found, workflow_type=workflow_type or found.workflow_type, namespace=Namespace(namespace or found.namespace)
    )


def _loaded(source: Source, workflow_type: str | None) -> History:
    match source:
        case History():
            return source
        case Path():
            return _parsed(source.read_bytes(), workflow_type)
        case str():
            return _parsed(source.encode(), workflow_type)
        case bytes():
            return _parsed(source, workflow_type)
        case Mapping():
            return _saved_before(msgspec.json.encode(source))
    return exported_history(source, workflow_type)


def _parsed(text: bytes, workflow_type: str | None) -> History:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return exported_history(_lines(text), workflow_type)
    if isinstance(document, dict) and "event_type" not in document:
        return _saved_before(text)
    return exported_history(document if isinstance(document, list) else [document], workflow_type)


def _lines(text: bytes) -> list[Any]:
    try:
        return [json.loads(line) for line in text.split(b"\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise Invalid(f"not a history, because it is neither JSON nor JSON lines: {error}") from None


def _saved_before(text: bytes) -> History:
    try:
        return msgspec.json.decode(text, type=History)
    except msgspec.MsgspecError as error:
        raise Invalid(f"not a history: {error}") from None


def exported_history(records: Sequence[Mapping[str, Any]], workflow_type: str | None = None) -> History:
    """Return the history of events in the form of the REST API and of `assay workflow events`.

    Args:
        records: The events of a run, from the first.
        workflow_type: The workflow type, if the first event has none.

    Returns:
        The history.

    Raises:
        Invalid: The events are incomplete, or of several runs.
    """
    stored = [parse_event(record) for record in records]
    if not stored or [event.seq for event in stored] != list(range(1, len(stored) + 1)):
        raise Invalid("not a whole history: events must be numbered from 1, without a gap")
    runs = {str(record.get("run_id")) for record in records}
    if len(runs) > 1:
        raise Invalid(f"not a history, but several: of the runs {', '.join(sorted(runs))}")
    first = records[0]
    name = workflow_type or first.get("workflow_type")
    if name is None:
        raise Invalid("the history has no workflow type; give one")
    events = tuple(SavedEvent(one.seq, one.time, one.kind, Payload(one.payload), _beside(one.data)) for one in stored)
    return History(name, RunId(first.get("run_id", "")), events, WorkflowId(first.get("workflow_id", "replayed")))


async def fetch_history(client: Client, workflow_id: str, run_id: str | None = None) -> History:
    """Read the current history of a run from an engine.

    Args:
        client: A connected client.
        workflow_id: The workflow id.
        run_id: The run; by default the newest run of the id.

    Returns:
        The history.

    Raises:
        NotFound: The run does not exist.
    """
    record = await client.describe(workflow_id, run_id)
    if record is None:
        raise NotFound(f"workflow {workflow_id} not found")
    key = RunKey(Namespace(client.namespace), WorkflowId(workflow_id), RunId(record["run_id"]))
    transport = client.transport
    if isinstance(transport, Transport) and isinstance(transport, Hosting):
        return save_history(key, record["workflow_type"], await transport.history(key.run_id))
    # Over HTTP, stored events are sent only to the worker that holds the run: convert the events of the REST API.
    return load_history(await client.get_events(workflow_id, key.run_id), record["workflow_type"], client.namespace)


def _saved(recorded: Recorded) -> SavedEvent:
    event = recorded.event
    if isinstance(event, UnknownEvent):
        return SavedEvent(recorded.seq, recorded.time, event.name, event.payload, event.data)
    payload, data = encode(event)
    return SavedEvent(recorded.seq, recorded.time, event.recorded_name, Payload(payload), _beside(data))


def _beside(data: bytes | None) -> Payload:
    return NULL if data is None else Payload(data)


def _present(data: Payload) -> bytes | None:
    return None if data == NULL else bytes(data)
