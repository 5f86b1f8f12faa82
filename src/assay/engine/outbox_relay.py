"""Delivers messages from the outbox to their runs: at once after the commit, and again until they are acknowledged."""

import asyncio

from assay.core.model.errors import AssayError
from assay.core.model.ids import SECOND, Time
from assay.core.model.requests import Deliver
from assay.engine.clock import Clock
from assay.engine.commit.committer import Committed, Committer
from assay.storage.ports import Store

RELAY_PAGE_MESSAGES = 1_000
LOST_MESSAGE_AGE: Time = 5 * SECOND
"""Age at which a message counts as lost: its first delivery failed, or its engine died."""
RELAY_PAUSE: Time = 30 * SECOND
"""Time between two searches for lost messages."""


class OutboxRelay:
    """The service that delivers the messages of each commit, and the messages left behind by a crash (I17)."""

    def __init__(self, store: Store, clock: Clock, committer: Committer) -> None:
        self._store = store
        self._clock = clock
        self._committer = committer
        self._min_age: Time = 0
        """Younger messages are in delivery; 0 at first, because the predecessor delivers nothing any more."""

    def deliver(self, committed: Committed) -> None:
        """Deliver the messages of a commit that just became durable."""
        for message in committed.messages:
            self._committer.post(Deliver(message.run_id, message))

    async def run_once(self) -> Time | None:
        """Deliver lost messages; after a start, or a failed batch, all messages."""
        now = self._clock.now()
        page = await self._store.messages(now - self._min_age + 1, RELAY_PAGE_MESSAGES)
        submitted = [self._committer.submit(Deliver(message.run_id, message)) for message in page]
        for reply in await asyncio.gather(*submitted, return_exceptions=True):
            if isinstance(reply, BaseException) and not isinstance(reply, AssayError):
                raise reply
        self._min_age = LOST_MESSAGE_AGE
        return now if len(page) == RELAY_PAGE_MESSAGES else now + RELAY_PAUSE

    def deliver_all_next(self) -> None:
        """Deliver messages of any age in the next run: a batch failed, and perhaps a delivery with it."""
        self._min_age = 0
