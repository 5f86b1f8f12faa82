"""Idempotency keys: a request repeated with its key has its effect once and gets its first answer again (I3).

The answer is stored in the transaction of the effect: neither exists without the other. A start that repeats a request
id must be the same start (`check_same`).
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
    """An answer as sent over the wire; `replayed` for the stored answer of an earlier request."""

    status: int
    body: bytes
    replayed: bool = False


class IdempotencyKey(msgspec.Struct, frozen=True):
    """A caller's key, the fingerprint of its request, and the function to render replies and refusals."""

    namespace: str
    key: str
    fingerprint: bytes
    render: Callable[[object], tuple[int, bytes]]

    def outcome(self, reply: object, now: Time) -> RequestOutcome:
        """Return the row of the rendered answer."""
        status, body = self.render(reply)
        return RequestOutcome(self.namespace, self.key, self.fingerprint, status, body, now)


class Memory:
    """Earlier answers to the keys of a batch, from the store or from earlier requests of the same batch."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], RequestOutcome] = {}
        self._undecided: dict[tuple[str, str], RunId] = {}

    async def recall(self, store: Store, keys: Sequence[IdempotencyKey]) -> None:
        """Read the stored answers of these keys."""
        if keys:
            for outcome in await store.outcomes([(key.namespace, key.key) for key in keys]):
                self.keep(outcome)

    def keep(self, outcome: RequestOutcome, run_id: RunId | None = None) -> None:
        """Add an answer; an answer of this batch, with `run_id`, holds only if the run is written."""
        self._known[outcome.namespace, outcome.key] = outcome
        if run_id is not None:
            self._undecided[outcome.namespace, outcome.key] = run_id

    def rests_on(self, key: IdempotencyKey) -> RunId | None:
        """Return the run to be written by this batch for the key's answer to hold; None for a stored answer."""
        return self._undecided.get((key.namespace, key.key))

    def answer(self, key: IdempotencyKey) -> Rendered | AssayError | None:
        """Return the earlier answer of a key, `Invalid` if the key was used for another request, or None."""
        known = self._known.get((key.namespace, key.key))
        if known is None:
            return None
        if known.fingerprint != key.fingerprint:
            return Invalid("this idempotency key was used for another request", code="idempotency_key_reused")
        return Rendered(known.status, known.body, replayed=True)


async def check_same(store: Store, request: StartWorkflow, reply: Started) -> None:
    """Raise `Invalid` if a repeated start differs from the first event of its run; only repetitions cost the read."""
    for recorded in await store.events(reply.key.run_id, limit=1):
        if not _same(recorded.event, request):
            message = "this request id was used for another start"
            raise Invalid(message, code="request_id_reused", field="request_id")


def _same(first: Event, request: StartWorkflow) -> bool:
    if not isinstance(first, WorkflowStarted) or first.start is None:
        return True
    same_type = first.start.workflow_type == request.workflow_type
    return same_type and same_value(value_of(first.input), value_of(request.input))
