"""Validate every recorded kind of event against its schema in the OpenAPI document."""

import json
from typing import Any

import msgspec
import pytest

from assay.core.codec import UnknownEvent
from assay.core.model.events import KINDS, Event, Recorded
from assay.core.model.ids import Namespace, RunId, RunKey, Seq, WorkflowId
from assay.core.model.payload import Payload
from assay.testing.replay import load_history
from assay.wire.render import event_record
from assay.wire.responses import EventRecord, HistoryEvent
from tests.api.described import check, component, fits
from tests.core.golden_lines import LINES, read
from tests.replay.record import HISTORIES

KEY = RunKey(Namespace("main"), WorkflowId("order-1"), RunId("run-1"))
TIME = 1_700_000_000_000_000
FILES = sorted(HISTORIES.glob("*.json"))


def shown(recorded: Recorded) -> Any:
    return json.loads(msgspec.json.encode(event_record(KEY, recorded)))


def golden(kind: str) -> list[Any]:
    events: list[Event] = [read(line) for line in LINES if line.kind == kind]
    return [shown(Recorded(Seq(7), TIME, event)) for event in events]


def in_a_task(record: Any) -> Any:
    return {name: record[name] for name in HistoryEvent.__struct_fields__}


def check_event(record: Any) -> None:
    """The record is one of events, of its own kind, and has no field that is not described."""
    kind = record["event_type"]
    check(record, component(EventRecord.__name__))
    check(in_a_task(record), component(HistoryEvent.__name__))
    for found, word in ((record, "Record"), (in_a_task(record), "Event")):
        check(found, component(kind + word))
        assert found.keys() <= component(kind + word)["properties"].keys()
    payload = component(kind + "Record")["properties"]["payload"]
    if payload not in ({}, {"type": "null"}) and record["payload"] is not None:
        assert record["payload"].keys() <= component(f"{kind}Payload")["properties"].keys()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_what_is_described(kind: str):
    for record in golden(kind):
        check_event(record)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_saved_history_is_what_is_described(path: Any):
    for recorded in load_history(path).recorded():
        check_event(shown(recorded))


def test_every_kind_is_among_the_types():
    assert component("EventType")["enum"] == list(KINDS)
    for union, word in (("KnownRecord", "Record"), ("KnownEvent", "Event")):
        assert component(union)["discriminator"]["propertyName"] == "event_type"
        references = {kind: f"#/components/schemas/{kind}{word}" for kind in KINDS}
        assert component(union)["discriminator"]["mapping"] == references
        assert component(union)["oneOf"] == [{"$ref": reference} for reference in references.values()]


def test_an_event_of_a_later_version_is_one_too():
    record = shown(Recorded(Seq(7), TIME, UnknownEvent("ThingHappened", Payload(b'{"x":1}'))))
    for found, word in ((record, "Record"), (in_a_task(record), "Event")):
        check(found, component(f"Other{word}"))
        assert not fits(found, component(f"Known{word}"))
    check(record, component("EventRecord"))
    check(in_a_task(record), component("HistoryEvent"))


def changed(kind: str, **payload: Any) -> Any:
    record = golden(kind)[0]
    return {**record, "payload": {**record["payload"], **payload}}


@pytest.mark.parametrize(
    "record",
    [
        changed("TimerFired", timer_seq="1"),
        changed("ActivityFailed", failure={"message": "not in full"}),
        changed("ActivityScheduled", options={"start_to_close": 300_000_000}),
        {**golden("ActivityCompleted")[0], "payload": None},
        {**golden("WorkflowCancelled")[0], "payload": {}},
        {**golden("WorkflowStarted")[0], "attempt": "1"},
        {name: value for name, value in golden("WorkflowStarted")[0].items() if name != "workflow_type"},
    ],
    ids=lambda record: record["event_type"],
)
def test_what_no_server_would_show_is_no_event(record: Any):
    """An event of a known kind that is wrong is not taken for one of a later version."""
    assert not fits(record, component("EventRecord"))
