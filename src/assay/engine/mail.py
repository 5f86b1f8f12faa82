"""Waits for the outcomes of updates; callers are woken by commits, also of other engines."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from assay.core.model.errors import Kind, NotFound
from assay.core.model.failure import FailureInfo
from assay.core.model.requests import Update
from assay.core.model.update_states import ACCEPTED, FAILED, RECEIVED, UpdateState
from assay.engine.feed import Feed
from assay.storage.ports import Store

POLL_SECONDS = 1.0
"""On a shared store, the time after which a waiting caller reads again: the hint of another engine may be lost."""


class Mail:
    """Updates, and waits for their outcomes."""

    def __init__(self, store: Store, feed: Feed, submit: Callable[..., "asyncio.Future[Any]"]) -> None:
        self._store = store
        self._feed = feed
        self._submit = submit

    async def send(self, request: Update, *, accepted: bool, seconds: float, caller: str | None = None) -> UpdateState:
        """Send an update, unless its id is known, and wait for its outcome; see `outcome`.

        Raises:
            NotFound: The workflow has no open run, or the run ended before it accepted the update.
        """
        target = (request.namespace, request.workflow_id, request.update_id)
        if await self.find(*target) is None:
            await self._submit(request, None, caller)
        return await self.outcome(*target, accepted=accepted, seconds=seconds)

    async def find(self, namespace: str, workflow_id: str, update_id: str) -> UpdateState | None:
        """Return an update by its id, in the newest run that has it; None if no run has it.

        An update whose run ended before it was accepted is not found; one that was accepted has failed.

        Raises:
            NotFound: The run ended before the update was accepted.
        """
        found = await self._store.find_update(namespace, workflow_id, update_id)
        if found is None:
            return None
        state, closed = found
        if not closed or state.is_final:
            return state
        if state.status == RECEIVED:
            raise NotFound(f"workflow {workflow_id} ended before it accepted update {update_id}")
        message = "the workflow ended before it answered"
        return replace(state, status=FAILED, failure=FailureInfo(kind=Kind.CANCELED, message=message, retryable=False))

    async def outcome(
        self, namespace: str, workflow_id: str, update_id: str, *, accepted: bool, seconds: float
    ) -> UpdateState:
        """Wait until an update is accepted, or has its outcome; return its state then, or after some seconds.

        Raises:
            NotFound: The update is unknown, or its run ended before it was accepted.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        state = await self._existing(namespace, workflow_id, update_id)
        while not _is_done(state, accepted=accepted) and loop.time() < end:
            # The future before the read: an answer between read and wait must not be missed.
            waiter = self._feed.news(state.run_id)
            try:
                run_id, state = state.run_id, await self._existing(namespace, workflow_id, update_id)
                if not _is_done(state, accepted=accepted) and state.run_id == run_id:
                    left = max(0.0, end - loop.time())
                    await asyncio.wait((waiter,), timeout=min(left, POLL_SECONDS) if self._store.shared else left)
                    if waiter.done():
                        waiter.result()
            finally:
                self._feed.forget_news(run_id, waiter)
        return state

    async def _existing(self, namespace: str, workflow_id: str, update_id: str) -> UpdateState:
        found = await self.find(namespace, workflow_id, update_id)
        if found is None:
            raise NotFound(f"workflow {workflow_id} has no update {update_id}")
        return found


def _is_done(state: UpdateState, *, accepted: bool) -> bool:
    return state.is_final or (accepted and state.status == ACCEPTED)
