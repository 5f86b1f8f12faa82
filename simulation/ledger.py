"""Record acknowledgements and executions outside the system under test."""

from collections import defaultdict
from typing import Any

import msgspec

from assay.core.model.commands import CLOSING
from assay.core.model.ids import RunId, Time
from assay.core.model.replies import Advanced
from assay.core.model.requests import ActivityOutcome, Advance, CompleteActivity, Request


class Sent(msgspec.Struct):
    """A signal that a client sent under a nonce: `acked` once the engine said yes, `refused` if it only said no."""

    workflow_id: str
    nonce: str
    acked: bool = False
    unsure: bool = False
    keyed: bool = False


class Accepted(msgspec.Struct, frozen=True):
    """A turn that an engine accepted: from which epoch, and where the history ended then."""

    epoch: int
    last_seq: int
    closed: bool
    known: int
    """The last event that the worker knew of, its own outcomes included."""
    must_know: bool
    """Return whether the command closes the run in a way that requires all events to be seen."""


class Ledger:
    """Facts by name; violations are sentences that begin with the invariant's number or the rule's name."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.started: dict[str, set[RunId]] = defaultdict(set)
        """Acknowledged starts by request id."""
        self.signals: list[Sent] = []
        self.cancels: set[str] = set()
        self.acked_cancels: set[RunId] = set()
        self.terminations: set[str] = set()
        self.acked_terminations: set[RunId] = set()
        self.results: dict[RunId, Any] = {}
        """What waiting clients were told of a run's end."""
        self.turns: dict[RunId, list[Accepted]] = defaultdict(list)
        self.completions: dict[tuple[RunId, int], set[int]] = defaultdict(set)
        """Attempts whose result an engine accepted, by run and activity."""
        self.released: dict[tuple[RunId, int], int] = defaultdict(int)
        """How often an attempt was given back uncounted, as committed, by run and activity."""
        self.executions: dict[tuple[RunId, int], list[int]] = defaultdict(list)
        """Attempts that bodies of activities were run for, by run and activity id."""
        self.grants: dict[RunId, list[tuple[int, int]]] = defaultdict(list)
        """Epoch and last seq of every lease of a workflow task, as committed."""
        self.swapped: set[str] = set()
        """Workflow ids whose calls were replayed in another order: their runs have to be stuck for a while (I19)."""
        self.boots = 0
        self.trace: list[str] = []
        self.tracing = False

    def violate(self, sentence: str) -> None:
        """An invariant is broken."""
        self.violations.append(sentence)

    def note(self, now: Time, sentence: str) -> None:
        """One line for whoever reads the trace."""
        if self.tracing:
            self.trace.append(f"{now / 1e6:10.4f} {sentence}")

    def answered(self, request: Request, reply: object) -> None:
        """An engine said yes to a request."""
        match request:
            case Advance():
                if isinstance(reply, Advanced):
                    self._turn(request, reply)
            case CompleteActivity():
                self.completions[request.run_id, request.seq].add(request.attempt_id)

    def _turn(self, request: Advance, reply: Advanced) -> None:
        for outcome, recorded in zip(request.outcomes, reply.recorded, strict=True):
            if recorded and isinstance(outcome, ActivityOutcome):
                self.completions[request.run_id, outcome.seq].add(outcome.attempt_id)
        if reply.accepted:
            known = request.seen_seq + len(request.outcomes)
            must_know = reply.closed and any(isinstance(command, CLOSING) for command in request.commands)
            turn = Accepted(request.epoch, reply.last_seq, reply.closed, known, must_know)
            self.turns[request.run_id].append(turn)
