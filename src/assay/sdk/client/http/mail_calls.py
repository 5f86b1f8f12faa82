"""Messages to addresses and mailboxes over HTTP; a part of its transport."""

import contextlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from assay.core.model.errors import NotFound
from assay.core.model.ids import SECOND
from assay.core.model.mailboxes import StoredLetter
from assay.core.model.payload import Payload
from assay.sdk.client.http.calls import Calls
from assay.sdk.client.http.http1 import path_of, query_of

_encode = msgspec.json.Encoder().encode


class MailboxAnswer(msgspec.Struct):
    """The answer to the creation of a mailbox."""

    mailbox_id: str
    pid: str


class LetterAnswer(msgspec.Struct):
    """A message in the answer of a mailbox."""

    seq: int
    topic: str
    args: Payload
    at: float
    sender: str | None = msgspec.field(default=None, name="from")
    re: int | None = None


class HttpMail:
    """The messages and mailboxes of `ClientPort`."""

    @abstractmethod
    def _open(self) -> Calls: ...

    async def post(self, to: str, topic: str, args: tuple[Payload, ...], sender: str | None) -> None:
        """See `ClientPort`."""
        body: dict[str, Any] = {"to": to, "topic": topic, "args": list(args), "from": sender}
        await self._open().call("POST", "/messages", _encode(body))

    async def open_mailbox(self, namespace: str, mailbox_id: str | None) -> tuple[str, str]:
        """See `ClientPort`."""
        body = _encode({"namespace": namespace, "mailbox_id": mailbox_id})
        answer = msgspec.json.decode(await self._open().call("POST", "/mailboxes", body), type=MailboxAnswer)
        return answer.mailbox_id, answer.pid

    async def read_mailbox(self, namespace: str, mailbox_id: str, after: int, seconds: float) -> Sequence[StoredLetter]:
        """See `ClientPort`."""
        query = query_of({"namespace": namespace, "after": after, "wait_secs": f"{seconds:g}"})
        path = f"{path_of('mailboxes', mailbox_id, 'messages')}{query}"
        found = msgspec.json.decode(await self._open().call("GET", path), type=list[LetterAnswer])
        return [StoredLetter(one.seq, one.topic, one.sender, one.args, one.re, round(one.at * SECOND)) for one in found]

    async def delete_mailbox(self, namespace: str, mailbox_id: str) -> None:
        """See `ClientPort`."""
        with contextlib.suppress(NotFound):
            path = f"{path_of('mailboxes', mailbox_id)}{query_of({'namespace': namespace})}"
            await self._open().call("DELETE", path)
