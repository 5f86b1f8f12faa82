"""Takes messages from the outbox to their runs: at once after the commit, and again until they are taken (R14)."""

import asyncio

from assay.core.model.errors import AssayError
from assay.core.model.ids import SECOND, Time
from assay.core.model.requests import Deliver
from assay.engine.clock import Clock
from assay.engine.commit.committer import Committed, Committer
from assay.storage.ports import Store

RELAY_PAGE_MESSAGES = 1_000
LOST_MESSAGE_AGE: Time = 5 * SECOND
"""Age at which a message is taken for lost by whoever was to deliver it."""
RELAY_PAUSE: Time = 30 * SECOND


class OutboxRelay:
    """Delivers what a commit sent, and what a crash left behind."""

    def __init__(self, store: Store, clock: Clock, committer: Committer) -> None:
        self._store = store
        self._clock = clock
        self._committer = committer
        self._patience: Time = 0

    def carry(self, committed: Committed) -> None:
        """Deliver the messages of a commit that just became durable."""
        for message in committed.messages:
            self._committer.post(Deliver(message.run_id, message))

    async def run_once(self) -> Time | None:
        """Deliver what is older than it should be; the first time everything, since nobody else will."""
        now = self._clock.now()
        page = await self._store.messages(now - self._patience + 1, RELAY_PAGE_MESSAGES)
        asked = [self._committer.submit(Deliver(message.run_id, message)) for message in page]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException) and not isinstance(answer, AssayError):
                raise answer
        self._patience = LOST_MESSAGE_AGE
        return now if len(page) == RELAY_PAGE_MESSAGES else now + RELAY_PAUSE

    def hurry(self) -> None:
        """Take nothing for being under way: a delivery has failed, and any may be the one."""
        self._patience = 0
