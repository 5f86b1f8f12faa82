"""Messages as workflow code receives them, and replies to their senders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from assay.sdk.workflow.replay.blocking import is_blocking, wait

NO_VALUE: Any = object()
"""Stands for a value that was not given: the reply has no payload."""
Reply = Callable[["Message", str, "tuple[Any, ...]"], Awaitable[bool]]


class Message:
    """A message to a workflow or a session, with the address to reply to.

    The replies `ack`, `nak`, `ok` and `error` are messages with this topic to the sender. To the caller of an update
    they accept, reject, complete and fail the update. In an `async def` workflow they are awaited.
    """

    __module__ = "assay"  # tracebacks show the name that programs import
    __slots__ = ("_reply", "args", "at", "from_", "payload", "seq", "topic", "update_id")

    def __init__(
        self,
        topic: str,
        args: list[Any],
        at: datetime,
        reply: Reply,
        *,
        from_: str | None = None,
        seq: int = 0,
        update_id: str | None = None,
    ) -> None:
        self.topic = topic
        self.args = args
        """All payloads of the message."""
        self.payload: Any = None if not args else args[0] if len(args) == 1 else args
        """The payload; a list if the message has several, None if it has none."""
        self.at = at
        """The time at which the message was recorded, in UTC."""
        self.from_ = from_
        """The address of the sender; None if it is unknown."""
        self.seq = seq
        self.update_id = update_id
        self._reply = reply

    def __repr__(self) -> str:
        return f"Message(topic={self.topic!r}, from_={self.from_!r}, payload={self.payload!r})"

    def ack(self, value: Any = NO_VALUE) -> Awaitable[bool]:
        """Accept: send `ack` to the sender.

        Args:
            value: A payload for the reply.

        Returns:
            True, or False if the sender is unknown or not there any more.

        Raises:
            Invalid: The update was accepted or rejected before.
        """
        return self._send("ack", value)

    def nak(self, reason: Any = NO_VALUE) -> Awaitable[bool]:
        """Reject: send `nak` to the sender.

        Args:
            reason: The reason, as the payload of the reply.

        Returns:
            True, or False if the sender is unknown or not there any more.

        Raises:
            Invalid: The update was accepted or rejected before.
        """
        return self._send("nak", reason)

    def ok(self, value: Any = NO_VALUE) -> Awaitable[bool]:
        """Complete: send `ok` to the sender.

        Args:
            value: The result, as the payload of the reply.

        Returns:
            True, or False if the sender is unknown or not there any more.

        Raises:
            Invalid: The update was not accepted, or has its outcome.
        """
        return self._send("ok", value)

    def error(self, reason: Any = NO_VALUE) -> Awaitable[bool]:
        """Fail: send `error` to the sender.

        Args:
            reason: The reason, as the payload of the reply.

        Returns:
            True, or False if the sender is unknown or not there any more.

        Raises:
            Invalid: The update was not accepted, or has its outcome.
        """
        return self._send("error", reason)

    def _send(self, topic: str, value: Any) -> Awaitable[bool]:
        sending = self._reply(self, topic, () if value is NO_VALUE else (value,))
        if not is_blocking():
            return sending
        answer: Any = wait(sending)  # a `def` workflow has waited
        return answer  # type: ignore[no-any-return]
