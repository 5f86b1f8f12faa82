"""The message operations of a client."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from assay.core.model.duration import parse_duration
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND
from assay.core.model.options import check_id
from assay.core.model.payload import NULL, Payload
from assay.core.model.update_states import COMPLETED, UpdateState
from assay.sdk.client.mail_session import MailSession
from assay.sdk.client.targets import target_of
from assay.sdk.values.failures import to_exception

if TYPE_CHECKING:
    from assay.core.model.ids import Namespace
    from assay.sdk.ports import EngineConnection
    from assay.sdk.values.converter import Converter
    from assay.sdk.workflow.concurrency import Duration

UPDATE_HOLD_SECONDS = 20.0
"""The longest time that one request waits for the outcome of an update."""


class ClientMessaging:
    """The message operations of `Client`."""

    transport: EngineConnection
    converter: Converter

    if TYPE_CHECKING:

        def _space(self, namespace: str | None) -> Namespace: ...

    async def update(
        self,
        target: Any,
        name: str,
        *args: Any,
        update_id: str | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109  # part of the interface: the update goes on after it
        namespace: str | None = None,
    ) -> Any:
        """Send an update to an open run, and wait for its answer.

        Args:
            target: A workflow id, a handle or an address.
            name: The update's name, which is the topic of the message that the workflow receives.
            *args: The update's arguments.
            update_id: The id of the update; the same id is one update of a run.
            timeout: The longest wait; without a limit unless given.
            namespace: The namespace of the id, unless the client's.

        Returns:
            The result of the update.

        Raises:
            NotFound: The id has no open run, or the run ended before it accepted the update.
            Failure: The workflow rejected the update (kind INVALID), or failed it.
            TimeoutError: The time is over; the update goes on.
        """
        run = target_of(target, None, namespace, self._space(None))
        raw = tuple(NULL if value is None else Payload(self.converter.encode(value, name="args")) for value in args)
        wanted = f"u-{secrets.token_hex(12)}" if update_id is None else check_id(update_id, "update_id")
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + parse_duration(timeout, "timeout") / SECOND
        while True:
            left = UPDATE_HOLD_SECONDS if end is None else max(0.0, min(UPDATE_HOLD_SECONDS, end - loop.time()))
            state = await self.transport.update(run, check_id(name, "name"), raw, wanted, left)
            if state.is_final:
                return self._answer(state)
            if end is not None and loop.time() >= end:
                raise TimeoutError(f"update {name} of {run.workflow_id} has no answer yet")

    def session(self, id: str | None = None, *, namespace: str | None = None) -> MailSession:
        """Return a session: a durable mailbox with the message verbs of a workflow, for `async with`.

        Args:
            id: The id of the mailbox, to attach to it again after a crash; a new one unless given.
            namespace: The namespace of the mailbox, unless the client's.

        Returns:
            The session, whose mailbox exists from `async with` to its end.
        """
        mailbox_id = None if id is None else check_id(id, "id")
        return MailSession(self.transport, self.converter, self._space(namespace), mailbox_id)

    def _answer(self, state: UpdateState) -> Any:
        if state.status == COMPLETED:
            return self.converter.decode(state.result, Any, name="result of an update")
        raise to_exception(state.failure or FailureInfo(message=f"the update was {state.status}"))
