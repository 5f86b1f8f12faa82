"""Delivers messages from the outbox to their targets: at once after the commit, and again until they are delivered."""

import asyncio
from collections import deque
from collections.abc import Callable

from assay.core.model.effects import ORDERED_KINDS, OutboxMessage
from assay.core.model.errors import AssayError
from assay.core.model.ids import SECOND, Namespace, Time, WorkflowId
from assay.core.model.requests import Deliver
from assay.engine.clock import Clock
from assay.engine.commit.committer import Committed, Committer
from assay.storage.ports import Store

RELAY_PAGE_MESSAGES = 1_000
LOST_MESSAGE_AGE: Time = 5 * SECOND
"""Age at which a message counts as lost: its first delivery failed, or its engine died."""
RELAY_PAUSE: Time = 30 * SECOND
"""Time between two searches for lost messages."""
FULL_PAGE_PAUSE: Time = SECOND // 10
"""The same after a full page: more messages may wait."""
MAX_DELIVERED_TOGETHER = 100
"""Most messages of one request: one decision, and one transaction."""

Target = tuple[Namespace, WorkflowId]


class Lane:
    """The messages to one target that have to arrive in order: one request at a time, and the rest waits."""

    __slots__ = ("delivering", "waiting")

    def __init__(self) -> None:
        self.delivering: tuple[OutboxMessage, ...] = ()
        self.waiting: deque[OutboxMessage] = deque()

    def next(self) -> tuple[OutboxMessage, ...]:
        """Take the messages of the next request: leading messages to the same run, up to the limit."""
        taken: list[OutboxMessage] = []
        while self.waiting and len(taken) < MAX_DELIVERED_TOGETHER and self.waiting[0].run_id == _run_of(taken, self):
            taken.append(self.waiting.popleft())
        self.delivering = tuple(taken)
        return self.delivering


def _run_of(taken: list[OutboxMessage], lane: Lane) -> str | None:
    return taken[0].run_id if taken else lane.waiting[0].run_id


class OutboxRelay:
    """The service that delivers the messages of each commit, and the messages left behind by a crash (I17)."""

    def __init__(self, store: Store, clock: Clock, committer: Committer) -> None:
        self._store = store
        self._clock = clock
        self._committer = committer
        self._min_age: Time = 0
        """Younger messages are in delivery; 0 at first, because the predecessor delivers nothing any more."""
        self._lanes: dict[Target, Lane] = {}
        self._failure_listeners: list[Callable[[], None]] = []

    def on_failure(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a delivery failed: its messages have to be read from the store again."""
        self._failure_listeners.append(listener)

    def deliver(self, committed: Committed) -> None:
        """Deliver the messages of a commit that just became durable."""
        for message in committed.messages:
            if message.kind in ORDERED_KINDS:
                self._line_up(message)
            else:
                self._committer.post(Deliver.of(message))

    async def run_once(self) -> Time | None:
        """Deliver lost messages; after a start, or a failed batch, all messages."""
        now = self._clock.now()
        page = await self._store.messages(now - self._min_age + 1, RELAY_PAGE_MESSAGES)
        known = {message.key for lane in self._lanes.values() for message in (*lane.delivering, *lane.waiting)}
        submitted = []
        for message in page:
            if message.kind not in ORDERED_KINDS:
                submitted.append(self._committer.submit(Deliver.of(message)))
            elif message.key not in known:
                self._line_up(message)
        for reply in await asyncio.gather(*submitted, return_exceptions=True):
            if isinstance(reply, BaseException) and not isinstance(reply, AssayError):
                raise reply
        self._min_age = LOST_MESSAGE_AGE
        return now + (FULL_PAGE_PAUSE if len(page) == RELAY_PAGE_MESSAGES else RELAY_PAUSE)

    def deliver_all_next(self) -> None:
        """Deliver messages of any age in the next run: a batch failed, and perhaps a delivery with it."""
        self._min_age = 0

    def _line_up(self, message: OutboxMessage) -> None:
        target = (message.namespace, message.workflow_id)
        lane = self._lanes.get(target)
        if lane is not None:
            lane.waiting.append(message)
            return
        lane = self._lanes[target] = Lane()
        lane.waiting.append(message)
        # In the next iteration of the loop: further messages of the same commit join the request.
        asyncio.get_running_loop().call_soon(self._send_next, target, lane)

    def _send_next(self, target: Target, lane: Lane) -> None:
        messages = lane.next()
        if not messages:
            del self._lanes[target]
            return

        def delivered(_: object, error: AssayError | None) -> None:
            if error is None:
                self._send_next(target, lane)
            else:
                # A later message must not overtake these: all are read from the store again, in order.
                self._lanes.pop(target, None)
                for listener in self._failure_listeners:
                    listener()

        self._committer.post(Deliver.of(*messages), delivered)
