"""The clock of a run and the commands that its code issues, compared with the history on a replay (I19).

Time advances with applied inputs, never while code runs. A command that the history has is not sent again: its echo is
the outcome. A command that the history lacks, or has differently, is non-determinism.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

import msgspec

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import NonDeterminismError, UnsupportedVersion
from assay.core.model.events import Recorded
from assay.core.model.ids import SECOND, RunKey, Time
from assay.sdk.workflow.replay import outcomes
from assay.sdk.workflow.replay.inputs import COMPARISONS, Difference, RecordedInputs, warn_once
from assay.sdk.workflow.replay.journal import LENIENT, Journal, MissingCommand, diverged
from assay.sdk.workflow.replay.loop import WorkflowLoop

DEFAULT_VERSION: Final = -1
"""The version of a change in runs that have passed its call before the call existed."""


class Commands:
    """The commands of one run, the position of the code in its history, and the loop with its time."""

    __slots__ = (
        "_defaults", "_history", "_issued", "_key", "_recorded_inputs", "copied_until", "counters", "divergence",
        "history_length", "history_size", "journal", "loop", "replay_until", "replaying", "time",
    )  # fmt: skip

    def __init__(self, key: RunKey) -> None:
        self._key = key
        self.loop = WorkflowLoop(self)
        self.journal = Journal()
        self.counters: defaultdict[str, int] = defaultdict(int)
        """The number of commands that the code has issued, by kind."""
        self.time: Time = 0
        """Durable time in microseconds: the time of the last applied input."""
        self.history_length = 0
        self.history_size = 0
        self.replaying = False
        self.replay_until = 0
        """The last event that an accepted turn has seen."""
        self.copied_until = 0
        """In a reopened run, the last input that the code of the earlier run has passed; the copy itself is unseen."""
        self.divergence: NonDeterminismError | UnsupportedVersion | None = None
        self._defaults: set[str] = set()
        """Changes for which the code has received the default version, which is never recorded."""
        self._issued: list[cmd.AnyCommand] = []
        self._history: Sequence[Recorded] = ()
        """All events, until the code has produced every echo among them."""
        self._recorded_inputs: RecordedInputs | None = None

    # the clock, and the timers of the loop

    def now(self) -> float:
        """Return durable time in seconds."""
        return self.time / SECOND

    def move_to(self, recorded: Recorded) -> None:
        """Advance the clock to an input that is about to be applied."""
        self.replaying = recorded.seq <= self.replay_until
        self.time = recorded.time
        self.history_length = recorded.seq
        self.history_size += outcomes.size_of(recorded.event)

    def start_timer(self, delay_seconds: float) -> int:
        """Order a timer; return its seq."""
        seq = self.count("timer")
        self.order("timer", seq, "", cmd.ScheduleTimer(seq, delay_seconds))
        return seq

    def cancel_timer(self, seq: int) -> None:
        """Order the cancellation of a timer."""
        self.order("cancel of timer", seq, "", cmd.CancelTimer(seq))

    # the commands

    def count(self, kind: str) -> int:
        """Return the next id of a kind of command."""
        seq = self.counters[kind] = self.counters[kind] + 1
        return seq

    def order(self, kind: str, ident: int | str, name: str, command: cmd.AnyCommand) -> ev.Event | None:
        """Issue a command, or return its echo if the history has it."""
        try:
            echo = self.journal.match(kind, ident, name)
            if echo is None and self.replaying and kind not in LENIENT:
                raise self.journal.unexpected(kind, ident, name)
            compare = None if echo is None else COMPARISONS.get(type(echo))
            difference = None if compare is None else compare(echo, command)
            if difference is not None:
                self.differ(difference)
        except NonDeterminismError as error:
            self.diverge(error)
            raise
        if echo is None and not (self.replaying and kind in LENIENT):
            self._issued.append(command)
            self.journal.sent(kind, ident)
        return echo

    def recorded_side_effect(self, seq: int, name: str) -> ev.Event | None:
        """Return the echo of a side effect, or None.

        A replay that has matched every echo and requests another side effect has reached the place where a turn paused
        whose worker was lost: from there on the code is live.
        """
        if self.journal.empty:
            if self.replaying:
                self.replaying = False
                self.replay_until = self.history_length
            return None
        if not self.replaying and not self.journal.has("side effect", seq):
            return None
        # Also outside a replay: a retried run begins with the history of another run.
        return self.order("side effect", seq, name, cmd.RecordSideEffect(seq, name))

    def version(self, change_id: str, minimum: int, maximum: int) -> int:
        """Return the version of a change: as recorded, or else the default in repeated code and `maximum` in new code.

        Once given, the default stays: the version of a change never differs within a run.
        """
        found = self.journal.versions.get(change_id)
        if found is None and (change_id in self._defaults or self.has_been_here()):
            found = DEFAULT_VERSION
        if found is None and maximum > DEFAULT_VERSION:
            found = self.journal.versions[change_id] = maximum
            self._issued.append(cmd.RecordVersion(change_id, maximum))
        elif found is None or found == DEFAULT_VERSION:
            found = DEFAULT_VERSION
            self._defaults.add(change_id)
        if not minimum <= found <= maximum:
            error = _unsupported(change_id, found, minimum, maximum)
            self.diverge(error)
            raise error
        return found

    def has_been_here(self) -> bool:
        """Return True if an earlier execution has passed this place of the code."""
        # A worker that was lost between two parts of a turn leaves echoes after the last seen event: the place is
        # before them. A reopened run may leave the copied history, and then never matches its echoes.
        return self.repeating or not (self.copied_until or self.journal.empty)

    @property
    def repeating(self) -> bool:
        """Return True while the code runs over events that an earlier execution has passed, here or in its origin."""
        return self.replaying or self.history_length <= self.copied_until

    def check_ordered(self, kind: str, seq: int, name: str) -> None:
        """Raise if the history has the outcome of a command that the code has not ordered."""
        if seq > self.counters[kind]:
            raise diverged(kind, seq, f"{kind} {seq} '{name}'", "nothing of the kind")

    def first_missing(self, *, seen_only: bool = False) -> MissingCommand | None:
        """Return the first recorded command that the code has not ordered; `seen_only` for accepted turns alone."""
        history: Iterable[Recorded] = self._history
        if seen_only:
            history = takewhile(lambda recorded: recorded.seq <= self.replay_until, history)
        return self.journal.first_missing(history, self.counters["step"])

    def mark_children_unaware(self) -> None:
        """Mark the children that were ordered in this turn before a cancel request was applied.

        The engine cannot determine by itself that they precede the cancel (I16).
        """
        self._issued = [
            msgspec.structs.replace(command, unaware=True) if isinstance(command, cmd.StartChildWorkflow) else command
            for command in self._issued
        ]

    def take_issued(self) -> list[cmd.AnyCommand]:
        """Return the commands that were issued since the last call, in order."""
        issued, self._issued = self._issued, []
        return issued

    # the history for comparison

    def begin_replay(self, events: Sequence[Recorded], replay_until: int) -> None:
        """Keep the events of an activation, to compare the inputs of commands with them."""
        self.replay_until = max(replay_until, self.replay_until)
        # Only a replay, which receives all events, has echoes of commands that another execution of the run sent.
        self._history = [*self._history, *events] if self._history else events

    def end_replay(self) -> None:
        """Forget the events of an activation when the code has produced every echo among them."""
        self._recorded_inputs = None
        if self.journal.empty:
            self._history = ()

    def differ(self, difference: Difference) -> None:
        """Raise if the code's input was recorded with another command: results would be exchanged. Otherwise warn."""
        if self._recorded_inputs is None:
            self._recorded_inputs = RecordedInputs(self._history)
        holder = self._recorded_inputs.holder(difference)
        if holder is not None:
            raise difference.error(holder)
        self.warn(difference)

    def warn(self, difference: Difference) -> None:
        """Report an input that differs from the recorded one without exchanging results."""
        warn_once(self._key, difference)

    def diverge(self, error: NonDeterminismError | UnsupportedVersion) -> None:
        """Record that code and history disagree, whether or not the code catches the exception."""
        if self.divergence is None:
            self.divergence = error
        self.loop.pause()


def _unsupported(change_id: str, found: int, minimum: int, maximum: int) -> UnsupportedVersion:
    if found == DEFAULT_VERSION:
        had = f"the run has passed change '{change_id}' before its call existed (version {DEFAULT_VERSION})"
    else:
        had = f"the run has recorded version {found} of change '{change_id}'"
    message = f"{had}, and the code supports versions {minimum} to {maximum}"
    return UnsupportedVersion(message, change_id=change_id, version=found)
