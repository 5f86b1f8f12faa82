"""Changes beside the write path that happen once per idempotency key: their first answer is kept and repeated (I3)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from assay.core.model.attached_rows import RequestOutcome
from assay.core.model.errors import Invalid
from assay.engine.clock import Clock
from assay.engine.commit.idempotency import IdempotencyKey, Rendered
from assay.storage.ports import Conflict, Store

Result = TypeVar("Result")


class KeptAnswers:
    """The kept answers of a database, for changes that are one transaction of their own."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def recall(self, key: IdempotencyKey | None) -> Rendered | None:
        """Return the first answer to a key; None for a new key, and without a key.

        Raises:
            Invalid: The key was used for another request.
        """
        if key is None:
            return None
        for outcome in await self._store.outcomes([(key.namespace, key.key)]):
            if outcome.fingerprint != key.fingerprint:
                raise Invalid("this idempotency key was used for another request", code="idempotency_key_reused")
            return Rendered(outcome.status, outcome.body, replayed=True)
        return None

    def outcome(self, key: IdempotencyKey | None, reply: object) -> RequestOutcome | None:
        """Return the answer to keep in the transaction of a change; None without a key."""
        return None if key is None else key.outcome(reply, self._clock.now())

    async def once(self, key: IdempotencyKey | None, act: Callable[[], Awaitable[Result]]) -> Result | Rendered:
        """Make a change that keeps its answer, or return the answer of the first request with the same key."""
        if (known := await self.recall(key)) is not None:
            return known
        try:
            return await act()
        except Conflict:  # the same key is used at the same moment, and was faster
            if (known := await self.recall(key)) is not None:
                return known
            raise
