"""The state machine of a run in a worker: this file alone owns its states, its events and its transitions.

A live run has two independent states, both in `TRANSITIONS`:

* **The turn.** At most one turn of a run is unacknowledged; outcomes that arrive meanwhile are queued in `waiting`.

      RESTING   nothing is unacknowledged
      SENT      a turn is
      AHEAD     outcomes are, sent alone, and the code has not run on them yet
      OWING     outcomes are, sent alone; the turn that the code made of them is sent when they are accepted
      CLOSING   a turn is that fails the run, in place of a turn whose commands were refused
      GONE      the coroutine was evicted; a late reply changes nothing

* **The lease** of the run's workflow task.

      UNLEASED  this worker does not hold the task; a turn that carries outcomes may be sent all the same
      KEPT      this worker holds the task by the reply to a turn, which occupies none of its slots
      GRANTED   this worker holds the task by a grant, which occupies a slot until the lease is released

An event without an entry for the current state raises `IllegalEvent` and changes nothing. Events that may repeat have
entries: an evicted run can be dropped again, an expired lease can be released again.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from assay.core.model.commands import AnyCommand
from assay.core.model.events import InputEvent
from assay.core.model.ids import RunId, RunKey
from assay.core.model.limits import LIMITS
from assay.core.model.requests import ActivityOutcome, StepOutcome
from assay.sdk.workflow.replay.completion import Completion
from assay.sdk.workflow.replay.runtime import Execution

# Strings, not an enum: Python computes the hash of an enum member in Python code, and each step looks two states up.
RESTING: Final = "resting"
SENT: Final = "sent"
AHEAD: Final = "ahead"
OWING: Final = "owing"
CLOSING: Final = "closing"
GONE: Final = "gone"

UNLEASED: Final = "unleased"
KEPT: Final = "kept"
GRANTED: Final = "granted"

SEND_TURN: Final = "send turn"
"""A turn is sent."""
SEND_OUTCOMES: Final = "send outcomes"
"""Outcomes are sent before the code runs on them."""
OWE_TURN: Final = "owe turn"
"""Outcomes were sent without the turn that the code made of them: the turn needs a request of its own."""
OWE_NOTHING: Final = "owe nothing"
"""The code orders nothing but steps: the outcomes that were sent are the whole turn."""
SEND_CLOSING: Final = "send closing"
"""The commands of a turn were refused; a turn that fails the run is sent in its place."""
ACCEPT: Final = "accept"
"""The engine has recorded the unacknowledged request."""
DROP: Final = "drop"
"""The coroutine is closed; the next worker replays the run."""

GRANT: Final = "grant"
"""A grant gives the task to this worker."""
KEEP: Final = "keep"
"""The reply to a turn gives or keeps the lease."""
RELEASE: Final = "release"
"""The lease has ended: released, lost, or not kept by the reply to a turn."""

TRANSITIONS: Final[Mapping[str, Mapping[str, str]]] = {
    RESTING: {SEND_TURN: SENT, SEND_OUTCOMES: AHEAD, OWE_TURN: OWING, DROP: GONE},
    SENT: {ACCEPT: RESTING, SEND_CLOSING: CLOSING, DROP: GONE},
    AHEAD: {OWE_NOTHING: SENT, OWE_TURN: OWING, DROP: GONE},
    OWING: {ACCEPT: RESTING, SEND_CLOSING: CLOSING, DROP: GONE},
    CLOSING: {ACCEPT: RESTING, DROP: GONE},
    GONE: {DROP: GONE},
    UNLEASED: {GRANT: GRANTED, KEEP: KEPT, RELEASE: UNLEASED},
    KEPT: {KEEP: KEPT, RELEASE: UNLEASED},
    GRANTED: {KEEP: GRANTED, RELEASE: UNLEASED},
}
"""The state that follows, by state and event."""

_NOTHING: Final = Completion()

Outcome = tuple[StepOutcome | ActivityOutcome, InputEvent]
"""A reported outcome, and the event that it is expected to become."""


class IllegalEvent(RuntimeError):
    """A live run received an event that its state does not have: a defect of this package, not of user code."""

    def __init__(self, run_id: RunId, state: str, event: str) -> None:
        super().__init__(f"internal error: live run {run_id} is {state} and has no event '{event}'")


class LiveRun:
    """One run in this worker: its coroutine, its two states, and the data for their next transition."""

    __slots__ = (
        "epoch",
        "execution",
        "key",
        "lease",
        "news",
        "state",
        "step_turns",
        "tasks",
        "turn",
        "unsent",
        "waiting",
    )

    def __init__(self, key: RunKey, execution: Execution) -> None:
        self.key = key
        self.execution = execution
        self.state: str = RESTING
        self.lease: str = UNLEASED
        self.epoch = 0
        self.news = False
        """True if the engine has events of this run that its code has not received; they are read while RESTING."""
        self.turn = _NOTHING
        """The last turn of the code; its steps start when the engine has accepted it."""
        self.unsent: tuple[AnyCommand, ...] = ()
        """The commands of the turn that follow when the part before them is accepted."""
        self.step_turns = 0
        """The number of consecutive turns that ordered nothing but steps."""
        self.waiting: deque[Outcome] = deque()
        self.tasks: dict[int, asyncio.Task[None]] = {}
        """Running steps by seq; cancelled when the run is evicted, so that a step never runs twice at the same time."""

    def turn_event(self, event: str) -> None:
        """Change the state of the turn by an event; raise `IllegalEvent` if the state does not have it."""
        try:
            self.state = TRANSITIONS[self.state][event]
        except KeyError:
            raise IllegalEvent(self.key.run_id, self.state, event) from None

    def lease_event(self, event: str) -> None:
        """Change the state of the lease by an event; raise `IllegalEvent` if the state does not have it."""
        try:
            self.lease = TRANSITIONS[self.lease][event]
        except KeyError:
            raise IllegalEvent(self.key.run_id, self.lease, event) from None

    def next_part(self) -> tuple[AnyCommand, ...]:
        """Return as many unsent commands of the turn as a message may have."""
        commands = self.unsent
        if len(commands) <= LIMITS.commands:
            self.unsent = ()
            return commands
        self.unsent = commands[LIMITS.commands :]
        return commands[: LIMITS.commands]

    def stands_at(self, seq: int) -> bool:
        """Return True if the code has applied the events up to a seq, and waits for more."""
        return self.execution.seen == seq and self.state == RESTING

    @property
    def idle(self) -> bool:
        """Return True if a replay would restore everything that an eviction loses."""
        return self.state == RESTING and self.lease == UNLEASED and not (self.waiting or self.tasks)
