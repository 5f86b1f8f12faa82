"""Messages to addresses and mailboxes of an embedded engine; a part of its transport."""

import contextlib
import uuid
from abc import abstractmethod
from collections.abc import Sequence

from assay.core.model.addresses import MAILBOX, UPDATE, mailbox_address, parse_address
from assay.core.model.errors import Invalid, NotFound
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.mailboxes import Letter, StoredLetter
from assay.core.model.payload import NULL, Payload
from assay.core.model.requests import Signal
from assay.core.rules.message_limits import check_topic
from assay.engine.engine import Engine


class EmbeddedMail:
    """The messages and mailboxes of `ClientPort`."""

    @abstractmethod
    def _running(self) -> Engine: ...

    async def post(self, to: str, topic: str, args: tuple[Payload, ...], sender: str | None) -> None:
        """See `ClientPort`."""
        target = parse_address(to)
        if target is not None and target.scheme == UPDATE:
            raise Invalid("only the workflow that received an update answers it", field="to")
        if target is None:
            raise NotFound(f"{to} is not the address of a workflow or mailbox")
        if target.scheme == MAILBOX:
            check_topic(topic)
            whole = Payload(b"[" + b",".join(map(bytes, args)) + b"]")
            number = int(target.part) if target.part is not None and target.part.isdecimal() else None
            address = mailbox_address(target.namespace, target.id)
            await self._running().mail.post(Letter(address, topic, whole, 0, sender, number))
            return
        request = Signal(
            Namespace(target.namespace),
            WorkflowId(target.id),
            None if target.part is None else RunId(target.part),
            name=topic,
            payload=args[0] if len(args) == 1 else NULL,
            sender=sender,
            args=args if len(args) > 1 else (),
        )
        await self._running().submit(request)

    async def open_mailbox(self, namespace: str, mailbox_id: str | None) -> tuple[str, str]:
        """See `ClientPort`."""
        mailbox, _ = await self._running().mail.open(namespace, mailbox_id or f"m-{uuid.uuid4().hex}")
        return mailbox.mailbox_id, mailbox.address

    async def read_mailbox(self, namespace: str, mailbox_id: str, after: int, seconds: float) -> Sequence[StoredLetter]:
        """See `ClientPort`."""
        return await self._running().mail.read(namespace, mailbox_id, after, seconds)

    async def delete_mailbox(self, namespace: str, mailbox_id: str) -> None:
        """See `ClientPort`."""
        with contextlib.suppress(NotFound):
            await self._running().mail.delete(namespace, mailbox_id)
