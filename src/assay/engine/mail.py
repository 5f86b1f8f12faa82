"""Mailboxes and updates; callers that wait are woken by commits, also of other engines."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from assay.core.model.addresses import mailbox_address
from assay.core.model.errors import Kind, NotFound
from assay.core.model.failure import FailureInfo
from assay.core.model.mailboxes import MAILBOX_LIFETIME, Letter, OpenMailbox, StoredLetter
from assay.core.model.requests import Update
from assay.core.model.update_states import ACCEPTED, FAILED, RECEIVED, UpdateState
from assay.engine.clock import Clock
from assay.engine.feed import Feed
from assay.storage.ports import Store

POLL_SECONDS = 1.0
"""On a shared store, the time after which a waiting caller reads again: the hint of another engine may be lost."""


class Mail:
    """Mailboxes, updates, and waits for both."""

    def __init__(self, store: Store, feed: Feed, submit: Callable[..., "asyncio.Future[Any]"], clock: Clock) -> None:
        self._store = store
        self._feed = feed
        self._submit = submit
        self._clock = clock

    # mailboxes

    async def open(self, namespace: str, mailbox_id: str) -> tuple[OpenMailbox, bool]:
        """Create a mailbox, or use the existing one of the id; return it, and whether it is new."""
        now = self._clock.now()
        mailbox = OpenMailbox(mailbox_address(namespace, mailbox_id), namespace, mailbox_id, now + MAILBOX_LIFETIME)
        return mailbox, await self._store.open_mailbox(mailbox, now)

    async def post(self, letter: Letter) -> None:
        """Put a message into a mailbox; raise `NotFound` if it does not exist."""
        now = self._clock.now()
        if not await self._store.put_letter(replace(letter, at=now), now):
            raise NotFound(f"mailbox {letter.mailbox} not found")
        self._feed.notify((letter.mailbox,))

    async def read(self, namespace: str, mailbox_id: str, after: int, seconds: float) -> Sequence[StoredLetter]:
        """Return the mail after a seq; without any, wait some seconds for it. Mail up to the seq is forgotten.

        Raises:
            NotFound: The mailbox does not exist.
        """
        loop, address = asyncio.get_running_loop(), mailbox_address(namespace, mailbox_id)
        end = loop.time() + seconds
        while True:
            waiter = self._feed.news(address)
            try:
                found = await self._store.letters(address, after, self._clock.now())
                if found is None:
                    raise NotFound(f"mailbox {mailbox_id} not found")
                left = end - loop.time()
                if found or left <= 0:
                    return found
                await asyncio.wait((waiter,), timeout=min(left, POLL_SECONDS) if self._store.shared else left)
                if waiter.done():
                    waiter.result()
            finally:
                self._feed.forget_news(address, waiter)

    async def delete(self, namespace: str, mailbox_id: str) -> None:
        """Delete a mailbox with its mail; raise `NotFound` if it does not exist."""
        address = mailbox_address(namespace, mailbox_id)
        if not await self._store.delete_mailbox(address):
            raise NotFound(f"mailbox {mailbox_id} not found")
        self._feed.notify((address,))

    # updates

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
