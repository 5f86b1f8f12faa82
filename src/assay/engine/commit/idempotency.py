"""Idempotency keys: a request repeated with its key has its effect once and gets its first answer again (4.4).

A start that is repeated under its request id must be the same start (`check_same`).
"""

from collections.abc import Callable, Sequence

import msgspec

from assay.core.model.errors import AssayError, Invalid
from assay.core.model.events import Event, WorkflowStarted
from assay.core.model.ids import RunId, Time
from assay.core.model.payload import same_value, value_of
from assay.core.model.replies import Started
from assay.core.model.requests import StartWorkflow
from assay.storage.ports import RequestOutcome, Store


class Rendered(msgspec.Struct, frozen=True):
    """An answer as it goes over the wire; `replayed` when it was given before."""

    status: int
    body: bytes
    replayed: bool = False


class IdempotencyKey(msgspec.Struct, frozen=True):
    """A caller's key, what it was used for, and how replies and refusals become answers."""

    namespace: str
    key: str
    fingerprint: bytes
    render: Callable[[object], tuple[int, bytes]]

    def outcome(self, reply: object, now: Time) -> RequestOutcome:
        """The answer to keep."""
        status, body = self.render(reply)
        return RequestOutcome(self.namespace, self.key, self.fingerprint, status, body, now)


class Memory:
    """Answers that the keys of a batch were given before, in the store or earlier in the batch."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], RequestOutcome] = {}
        self._undecided: dict[tuple[str, str], RunId] = {}

    async def recall(self, store: Store, keys: Sequence[IdempotencyKey]) -> None:
        """Read what the store knows of these keys."""
        if keys:
            for outcome in await store.outcomes([(key.namespace, key.key) for key in keys]):
                self.keep(outcome)

    def keep(self, outcome: RequestOutcome, run_id: RunId | None = None) -> None:
        """Remember an answer; one that this batch gives stands and falls with its run."""
        self._known[outcome.namespace, outcome.key] = outcome
        if run_id is not None:
            self._undecided[outcome.namespace, outcome.key] = run_id

    def rests_on(self, key: IdempotencyKey) -> RunId | None:
        """The run that must be written by this batch for the key's answer to hold; None if it holds already."""
        return self._undecided.get((key.namespace, key.key))

    def answer(self, key: IdempotencyKey) -> Rendered | AssayError | None:
        """The answer the key was given before, if any; a key that was used for something else is refused."""
        known = self._known.get((key.namespace, key.key))
        if known is None:
            return None
        if known.fingerprint != key.fingerprint:
            return Invalid("this idempotency key was used for another request", code="idempotency_key_reused")
        return Rendered(known.status, known.body, replayed=True)


async def check_same(store: Store, request: StartWorkflow, reply: Started) -> None:
    """Compare a repeated start with what the history of its run began with; only such a start pays for the read."""
    for recorded in await store.events(reply.key.run_id, limit=1):
        if not _same(recorded.event, request):
            message = "this request id was used for another start"
            raise Invalid(message, code="request_id_reused", field="request_id")


def _same(first: Event, request: StartWorkflow) -> bool:
    if not isinstance(first, WorkflowStarted) or first.start is None:
        return True
    same_type = first.start.workflow_type == request.workflow_type
    return same_type and same_value(value_of(first.input), value_of(request.input))
