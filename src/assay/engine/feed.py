"""Wakes callers that wait for a run to close, for the answer to an update, or for mail."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from assay.core.model.errors import AssayError
from assay.core.model.events import Event
from assay.core.model.ids import RunId
from assay.engine.commit.committer import Committed


class Feed:
    """The callers that wait for runs and mailboxes."""

    def __init__(self) -> None:
        self._closing: defaultdict[RunId, list[asyncio.Future[Event | None]]] = defaultdict(list)
        self._news: defaultdict[str, list[asyncio.Future[None]]] = defaultdict(list)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: AssayError | None = None

    def publish(self, committed: Committed) -> None:
        """Resolve the futures of callers with the closing events of a commit."""
        for run, closing in committed.ended:
            for waiter in self._closing.pop(run.run_id, ()):
                if not waiter.done():
                    waiter.set_result(closing)
            self.notify((run.run_id,))

    def notify(self, keys: Iterable[str]) -> None:
        """Wake the callers that wait for news of runs or mailboxes."""
        for key in keys if self._news else ():
            for waiter in self._news.pop(key, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def news(self, key: str) -> asyncio.Future[None]:
        """Return a future that is done at the next news of a run or mailbox."""
        if self._ended is not None:
            raise self._ended
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._news[key].append(waiter)
        return waiter

    def forget_news(self, key: str, waiter: asyncio.Future[None]) -> None:
        """Remove the future of a caller that no longer waits for news."""
        waiting = self._news.get(key)
        if waiting is not None and waiter in waiting:
            waiting.remove(waiter)
            if not waiting:
                del self._news[key]

    def look_again(self, run_ids: Collection[RunId] | None) -> None:
        """Make callers read the store: another engine has closed these runs, or (None) may have closed any run."""
        for run_id in tuple(self._closing) if run_ids is None else run_ids:
            for waiter in self._closing.pop(run_id, ()):
                if not waiter.done():
                    waiter.set_result(None)
        self.notify(tuple(self._news) if run_ids is None else run_ids)

    def closing(self, run_id: RunId) -> asyncio.Future[Event | None]:
        """Return a future of a run's closing event; its result is None if the caller must read the store again."""
        if self._ended is not None:
            raise self._ended
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Event | None] = self._loop.create_future()
        self._closing[run_id].append(waiter)
        return waiter

    def forget(self, run_id: RunId, waiter: asyncio.Future[Event | None]) -> None:
        """Remove the future of a caller that no longer waits."""
        waiting = self._closing.get(run_id)
        if waiting is not None and waiter in waiting:
            waiting.remove(waiter)
            if not waiting:
                del self._closing[run_id]

    def end(self, reason: AssayError) -> None:
        """Fail all waiting callers, and later ones: the engine has stopped."""
        self._ended = reason
        all_waiters: list[list[asyncio.Future[Any]]] = [*self._closing.values(), *self._news.values()]
        waiting = [waiter for waiters in all_waiters for waiter in waiters if not waiter.done()]
        self._closing.clear()
        self._news.clear()
        for waiter in waiting:
            waiter.set_exception(reason)
            waiter.exception()  # marks it as retrieved: a caller that found the result elsewhere never reads it
