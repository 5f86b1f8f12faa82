"""The state machine of a run in a worker: this file alone owns its states, its events and its transitions.

A live run has two states that change independently, both in `TRANSITIONS`:

* **The turn.** At most one turn of a run is unacknowledged; outcomes that come meanwhile wait in `waiting`.

      RESTING   nothing is unacknowledged
      SENT      a turn is
      AHEAD     outcomes are, sent alone, and the code has not run on them yet
      OWING     outcomes are, sent alone; the turn that the code made of them follows when they are accepted
      CLOSING   a turn is that fails the run, in place of one that was refused for its commands
      GONE      the coroutine has left this worker; an answer may still come, and changes nothing here

* **The lease** of the run's workflow task.

      UNLEASED  this worker does not hold the task; a turn that carries outcomes may be sent all the same
      KEPT      it does: the answer to a turn gave or kept the lease, which occupies none of the worker's slots
      GRANTED   it does, by a grant, which occupies a slot until the lease is released

An event that the table does not have for a state raises `IllegalEvent` and changes nothing. Events that are repeated
without harm stand in the table: a run that is gone can be dropped again, a lease that is over can be released again.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from assay.core.model.events import InputEvent
from assay.core.model.ids import RunId, RunKey
from assay.core.model.requests import ActivityOutcome, StepOutcome
from assay.sdk.workflow.replay.runtime import Execution
from assay.sdk.workflow.replay.turn import Turn

# Strings and no enum: the hash of an enum's member is computed in Python, and each step of a run looks two of them up.
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
"""Outcomes are sent, or were, without the turn that the code made of them: it needs a request of its own."""
OWE_NOTHING: Final = "owe nothing"
"""The code asks for nothing but steps: the outcomes that were sent are the whole turn."""
SEND_CLOSING: Final = "send closing"
"""A turn was refused for its commands; one that fails the run is sent in its place."""
ACCEPT: Final = "accept"
"""The engine has recorded all that was sent."""
DROP: Final = "drop"
"""The coroutine is closed; the next worker replays the run."""

GRANT: Final = "grant"
"""A grant gives the task to this worker."""
KEEP: Final = "keep"
"""The answer to a turn gives or keeps the lease."""
RELEASE: Final = "release"
"""The lease is over: given back, lost, or not kept by the answer to a turn."""

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

_NOTHING: Final = Turn()

Outcome = tuple[StepOutcome | ActivityOutcome, InputEvent]
"""An outcome as it is reported, and the event that it is expected to become."""


class IllegalEvent(RuntimeError):
    """A worker drove a run by an event that its state does not have: a defect of this package, of no user's code."""

    def __init__(self, run_id: RunId, state: str, event: str) -> None:
        super().__init__(f"internal error: live run {run_id} is {state} and has no event '{event}'")


class LiveRun:
    """One run in this worker: its coroutine, its two states, and the data that wait for their next change."""

    __slots__ = ("epoch", "execution", "key", "lease", "news", "state", "stride", "tasks", "turn", "waiting")

    def __init__(self, key: RunKey, execution: Execution) -> None:
        self.key = key
        self.execution = execution
        self.state: str = RESTING
        self.lease: str = UNLEASED
        self.epoch = 0
        self.news = False
        """Whether the engine has events of this run that its code has not seen; they are read while RESTING."""
        self.turn = _NOTHING
        """The turn that the code made last; the worker acts on it when the engine has accepted it."""
        self.stride = 0
        """How many turns in a row have asked for nothing but steps."""
        self.waiting: deque[Outcome] = deque()
        self.tasks: dict[int, asyncio.Task[None]] = {}
        """Running steps by seq; cancelled when the run is dropped, so that a step never runs beside its repetition."""

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

    @property
    def idle(self) -> bool:
        """True if nothing would be lost with the run that a replay does not bring back."""
        return self.state == RESTING and self.lease == UNLEASED and not (self.waiting or self.tasks)
