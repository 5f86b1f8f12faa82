"""What the REST API shows of a history is read back as it was, as far as code can see it."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from assay.core.model import events as ev
from assay.core.model.errors import Invalid
from assay.core.model.ids import RunKey
from assay.testing.replay import History, load_history, rehearse
from assay.wire.parse import parse_event
from tests.replay.programs import app
from tests.replay.record import HISTORIES
from tests.wire.shown import event_record

FILES = sorted(HISTORIES.glob("*.json"))


def exported(history: History) -> str:
    key = RunKey(history.namespace, history.workflow_id, history.run_id)
    records = [event_record(key, recorded) for recorded in history.recorded()]
    return json.dumps(records, indent=2, ensure_ascii=False)


def seen(recorded: ev.Recorded) -> ev.Recorded:
    """An event without what code cannot see and the interface shows otherwise."""
    match recorded.event:
        case ev.ActivityScheduled() as event:
            return replace(recorded, event=replace(event, options=None))
        case ev.WorkflowStarted(start=start) as event if start is not None:
            parent = start.parent and ev.ParentLink(start.parent.workflow_id, start.parent.run_id)
            reopening = start.reopening and ev.Reopening("", "", 0, origin=start.reopening.origin)
            kept = replace(start, parent=parent, reopening=reopening, retry_policy=None)
            return replace(recorded, event=replace(event, start=kept))
    return recorded


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_history_is_read_back_from_what_is_shown(path: Path):
    history = load_history(path)
    again = load_history(exported(history))
    assert (again.workflow_type, again.workflow_id, again.run_id) == (
        history.workflow_type,
        history.workflow_id,
        history.run_id,
    )
    assert again.recorded() == [seen(recorded) for recorded in history.recorded()]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_code_follows_what_is_shown_to_the_same_end(path: Path):
    assert rehearse(exported(load_history(path)), app) == rehearse(path, app)


@pytest.mark.parametrize("record", [{}, {"seq": 1}, [], 5, {"seq": 1, "event_type": "TimerFired", "timestamp": "x"}])
def test_what_is_no_event(record: object):
    with pytest.raises(Invalid, match="not an event of a history"):
        parse_event(record)  # type: ignore[arg-type]
