"""Histories that earlier versions recorded are followed by every later one, from the first event to the last (I19)."""

from pathlib import Path

import msgspec
import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.events import KINDS
from assay.testing.replay import History, load_history, rehearse, replay_history
from tests.replay.programs import COURSES, app
from tests.replay.record import HISTORIES, kept

FILES = sorted(HISTORIES.glob("*.json"))

# A kind that no program of the corpus can bring about: limits end runs elsewhere.
NOT_KEPT = {"WorkflowTimedOut"}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_code_follows_what_was_recorded(path: Path):
    replay_history(path, app)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_code_ends_as_it_did(path: Path):
    history = load_history(path)
    ended = history.recorded()[-1].event
    match rehearse(path, app):
        case cmd.CompleteWorkflow(result=result):
            assert isinstance(ended, ev.WorkflowCompleted)
            assert ended.result == result
        case cmd.FailWorkflow(error=error):
            assert isinstance(ended, ev.WorkflowFailed)
            assert ended.error == error
        case cmd.CancelWorkflow(reason=reason):
            assert ended == ev.WorkflowCancelled(reason)
        case cmd.ContinueAsNew():
            assert isinstance(ended, ev.WorkflowContinuedAsNew)
        case closing:
            assert closing is None
            assert ended.closes is None or isinstance(ended, ev.WorkflowTerminated)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_code_follows_every_beginning_of_what_was_recorded(path: Path):
    history = load_history(path)
    for length in range(1, len(history.events)):
        replay_history(msgspec.structs.replace(history, events=history.events[:length]), app)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_history_is_written_as_it_was_read(path: Path):
    history = load_history(path)
    assert history.dump() == path.read_bytes()
    assert msgspec.json.decode(history.dump(), type=History) == history


def test_every_program_has_its_history():
    assert [name for name in COURSES if not kept(name)] == []


def test_every_kind_of_event_is_kept():
    found = {event.kind for path in FILES for event in load_history(path).events}
    assert found == KINDS.keys() - NOT_KEPT
