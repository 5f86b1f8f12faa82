"""Compares the inputs of replayed commands with the recorded ones: no call may receive the result of another (I19).

A different input means that a call was changed, or that calls are made in another order. The rest of the history
distinguishes the two: if another command of the same kind and name was recorded with this input, results would be
exchanged, and the task fails. Otherwise the input was changed on purpose or depends on the process; the run continues,
with a warning.
"""

import logging
import reprlib
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import NonDeterminismError
from assay.core.model.events import Recorded
from assay.core.model.ids import RunId, RunKey
from assay.core.model.input_hash import canonical_json, hash_of, input_hash
from assay.core.model.payload import SHOWN_CHARACTERS, Payload
from assay.sdk.workflow.replay.completion import StepOrder
from assay.sdk.workflow.replay.journal import child_name, diverged, shown_command

log = logging.getLogger("assay.worker")

SAME_DURATION_SECONDS: Final = 0.001
"""Durations that differ by less are equal: a float does not represent every fraction of a second."""
REMEMBERED_RUNS: Final = 10_000
"""The number of runs for which this process remembers its warning."""
_warned: dict[RunId, None] = {}


class Difference(NamedTuple):
    """A command whose input is not the recorded one; `digest` is None if its input is not hashed."""

    kind: str
    seq: int
    name: str
    digest: str | None
    expected: str
    found: str

    def error(self, holder: int | None = None) -> NonDeterminismError:
        """Return the error; `holder` is the command that was recorded with the code's input."""
        found = self.found if holder is None else f"{self.found}, which is the input of {self.kind} {holder}"
        return diverged(self.kind, self.seq, self.expected, found)

    def warning(self) -> str:
        """Return a sentence about both values."""
        return (
            f"{self.kind} {self.seq} differs from its history, which goes on to count: "
            f"the history says {self.expected}, the code did {self.found}"
        )


class RecordedInputs:
    """The commands of a history by kind, name and hash of their input."""

    def __init__(self, history: Iterable[Recorded]) -> None:
        self._seqs: dict[tuple[str, str, str], int] = {}
        for recorded in history:
            rule = _HASHES.get(type(recorded.event))
            if rule is not None:
                kind, seq, name, digest = rule(recorded.event)
                if digest is not None:
                    self._seqs.setdefault((kind, name, digest), seq)

    def holder(self, difference: Difference) -> int | None:
        """Return the seq of the command that was recorded with the code's input, or None."""
        if difference.digest is None:
            return None
        return self._seqs.get((difference.kind, difference.name, difference.digest))


def step_difference(seq: int, order: StepOrder, recorded: str) -> Difference:
    """Return the difference between the arguments of a step and the recorded hash."""
    shown = shown_command("step", seq, order.name)
    found = f"{shown} with arguments {reprlib.repr(list(order.args))} (input_hash {order.input_hash})"
    return Difference("step", seq, order.name, order.input_hash, f"{shown} with input_hash {recorded}", found)


def warn_once(key: RunKey, difference: Difference) -> None:
    """Log the first difference of a run in this process; each replay would find it again."""
    if key.run_id in _warned:
        return
    if len(_warned) >= REMEMBERED_RUNS:
        del _warned[next(iter(_warned))]
    _warned[key.run_id] = None
    log.warning(
        "workflow %s: %s",
        key.workflow_id,
        difference.warning(),
        extra={"workflow_id": key.workflow_id, "run_id": key.run_id},
    )


def _activity(event: ev.ActivityScheduled, command: cmd.ScheduleActivity) -> Difference | None:
    if event.input == command.input:
        return None
    found = canonical_json(command.input)
    if found == canonical_json(event.input):
        return None  # the same value, with another order of keys
    shown = shown_command("activity", command.seq, command.name)
    recorded, now = (f"{shown} with input {_short(raw)}" for raw in (event.input, command.input))
    return Difference("activity", command.seq, command.name, hash_of(found), recorded, now)


def _child(event: ev.ChildWorkflowStarted, command: cmd.StartChildWorkflow) -> Difference | None:
    if event.input_hash is None or event.input_hash == command.input_hash:
        return None
    name = command.workflow_type
    shown = shown_command("child workflow", command.seq, child_name(name, command.workflow_id))
    recorded = f"{shown} with input_hash {event.input_hash}"
    now = f"{shown} with input {_short(command.input)} (input_hash {command.input_hash})"
    return Difference("child workflow", command.seq, name, command.input_hash, recorded, now)


def _timer(event: ev.TimerScheduled, command: cmd.ScheduleTimer) -> Difference | None:
    if abs(event.duration_secs - command.duration_secs) < SAME_DURATION_SECONDS:
        return None
    recorded, now = (f"timer {command.seq} of {secs:g} s" for secs in (event.duration_secs, command.duration_secs))
    return Difference("timer", command.seq, "", None, recorded, now)


def _short(raw: Payload) -> str:
    text = bytes(raw).decode()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


COMPARISONS: Final[dict[type[ev.Event], Callable[[Any, Any], Difference | None]]] = {
    ev.ActivityScheduled: _activity,
    ev.ChildWorkflowStarted: _child,
    ev.TimerScheduled: _timer,
}
"""Comparisons of a recorded event with the command of the code, by type of event."""
_HASHES: Final[dict[type[ev.Event], Callable[[Any], tuple[str, int, str, str | None]]]] = {
    ev.ActivityScheduled: lambda event: ("activity", event.activity_seq, event.name, input_hash(event.input)),
    ev.StepCompleted: lambda event: ("step", event.step_seq, event.name, event.input_hash),
    ev.StepFailed: lambda event: ("step", event.step_seq, event.name, event.input_hash),
    ev.ChildWorkflowStarted: lambda event: ("child workflow", event.child_seq, event.workflow_type, event.input_hash),
}
