"""Sessions: a durable mailbox for code outside of workflows, with the message verbs of a workflow's ctx."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from assay.core.model.addresses import mailbox_address
from assay.core.model.duration import parse_duration
from assay.core.model.errors import AssayError, Invalid, NotFound, Unavailable
from assay.core.model.ids import SECOND, Seq
from assay.core.model.mailboxes import StoredLetter
from assay.core.model.options import check_id
from assay.core.model.payload import NULL, Payload, value_of
from assay.core.rules.message_limits import check_topic
from assay.sdk.workflow.channels import Channel, SelectResult, SourceChannel, select
from assay.sdk.workflow.message import Message
from assay.sdk.workflow.replay.mailbox import Mailbox, ReceivedMessage

if TYPE_CHECKING:
    from types import TracebackType

    from assay.sdk.ports import EngineConnection
    from assay.sdk.values.converter import Converter
    from assay.sdk.workflow.concurrency import Duration

MAIL_HOLD_SECONDS: Final = 20.0
RETRY_SECONDS: Final = 0.5
EPOCH: Final = datetime.fromtimestamp(0, UTC)


class MailSession:
    """A program's mailbox, from `async with client.session() as me`; its end deletes the mailbox.

    Args:
        transport: The connection to the engine.
        converter: Encodes payloads.
        namespace: The namespace of the mailbox.
        mailbox_id: The id of the mailbox; a new one unless given.
    """

    def __init__(
        self, transport: EngineConnection, converter: Converter, namespace: str, mailbox_id: str | None
    ) -> None:
        self._transport = transport
        self._converter = converter
        self._namespace = namespace
        self._id = mailbox_id
        self._pid = ""
        self._mailbox = Mailbox()
        self._mailbox.convert = self._converted
        self._requests: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._count = 0
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> MailSession:
        self._id, self._pid = await self._transport.open_mailbox(self._namespace, self._id)
        self._reading = asyncio.get_running_loop().create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, AssayError):
                await self._reading
        with contextlib.suppress(Unavailable):
            await self._transport.delete_mailbox(self._namespace, self._id or "")

    @property
    def pid(self) -> str:
        """Return the address of the mailbox, for replies."""
        return self._pid

    async def send(self, to: Any, topic: str, *args: Any) -> bool:
        """Send a message with this session as its sender.

        Args:
            to: An address, or an object with a `pid`, such as a handle.
            topic: The topic.
            *args: The payloads.

        Returns:
            True, when the message is recorded at its target.

        Raises:
            NotFound: The target does not exist or has ended.
            Invalid: The topic is empty or reserved.
        """
        return await self._send(to, topic, args, self._pid)

    async def _send(self, to: Any, topic: str, args: tuple[Any, ...], sender: str | None) -> bool:
        address = getattr(to, "pid", to)
        if not isinstance(address, str):
            raise Invalid(f"send needs an address, not {type(to).__name__}", field="to")
        check_topic(check_id(topic, "topic"))
        raw = tuple(NULL if value is None else Payload(self._converter.encode(value, name="args")) for value in args)
        await self._transport.post(address, topic, raw, sender)
        return True

    async def request(
        self,
        to: Any,
        topic: str,
        *args: Any,
        reply: str,
        timeout: Duration | None = None,  # noqa: ASYNC109  # part of the interface
    ) -> Any:
        """Send a message and wait for the reply to it.

        Args:
            to: An address, or an object with a `pid`, such as a handle.
            topic: The topic.
            *args: The payloads.
            reply: The topic of the reply.
            timeout: The longest wait; without a limit unless given.

        Returns:
            The payload of the reply.

        Raises:
            NotFound: The target does not exist or has ended.
            TimeoutError: No reply came in time.
        """
        self._count += 1
        number, future = self._count, asyncio.get_running_loop().create_future()
        self._requests[number] = (check_id(reply, "reply"), future)
        limit = None if timeout is None else parse_duration(timeout, "timeout") / SECOND
        try:
            async with asyncio.timeout(limit):
                sender = mailbox_address(self._namespace, self._id or "", number)
                await self._send(to, topic, args, sender)
                return await future
        finally:
            self._requests.pop(number, None)

    def inbox(self) -> Channel[Any]:
        """Return the channel of the messages whose topic has no listener, as `Message` objects.

        Returns:
            The channel, the same on each call.
        """
        return self._mailbox.open_inbox()

    def listen(self, topic: str, *, message: bool = False) -> Channel[Any]:
        """Return the channel of the messages of one topic.

        Args:
            topic: The topic, in full.
            message: Receive `Message` objects instead of payloads.

        Returns:
            The channel, the same on each call for the topic.

        Raises:
            Invalid: The topic is empty or reserved.
        """
        check_topic(check_id(topic, "topic"))
        return self._mailbox.listen(topic, as_messages=message)

    def unlisten(self, channel: Channel[Any]) -> None:
        """Close the channel of a topic; its unread messages, and later ones, go to the inbox or wait.

        Args:
            channel: The channel that `listen` returned.

        Raises:
            Invalid: The channel is not one of `listen`, or is closed.
        """
        if not self._mailbox.unlisten(channel):
            raise Invalid("unlisten needs an open channel of listen", field="channel")

    async def select(self, *cases: Any, default: bool = False) -> SelectResult:
        """Take the first ready case in the order of the arguments; if no case is ready, wait for the first.

        Args:
            *cases: Channels, `channel.case_receive()` and `channel.case_send(value)`.
            default: Return at once if no case is ready.

        Returns:
            The taken case, and its value.

        Raises:
            Invalid: There is no case, or a case is something else.
        """
        return await select(cases, default=default)

    def after(self, duration: Duration) -> Channel[datetime]:
        """Return a channel that gives the time once, after a duration.

        Args:
            duration: Seconds, a timedelta or a text such as "1h30m".

        Returns:
            The channel, for `receive` or `select`.

        Raises:
            Invalid: The duration is negative or malformed.
        """
        loop = asyncio.get_running_loop()
        channel: SourceChannel[datetime] = SourceChannel("session.after")
        delay = parse_duration(duration, "duration") / SECOND
        end = EPOCH + timedelta(microseconds=self._transport_time()) + timedelta(seconds=delay)
        loop.call_later(delay, channel.put, end)
        return channel

    def _transport_time(self) -> int:
        now: Callable[[], int] | None = getattr(self._transport, "now", None)
        return 0 if now is None else now()

    async def _read(self) -> None:
        """Read the mailbox until the session ends; each message is given to code once."""
        after = 0
        while True:
            try:
                found = await self._transport.read_mailbox(self._namespace, self._id or "", after, MAIL_HOLD_SECONDS)
            except NotFound:
                self._fail(NotFound(f"mailbox {self._id} not found"))
                return
            except Unavailable:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            for letter in found:
                after = letter.seq
                self._take(letter)

    def _fail(self, error: AssayError) -> None:
        for _, future in self._requests.values():
            if not future.done():
                future.set_exception(error)

    def _take(self, letter: StoredLetter) -> None:
        """Give a message to the request that it answers, or to the channels; late answers are dropped."""
        args = value_of(letter.args)
        payload = None if not args else args[0] if len(args) == 1 else args
        if letter.re is not None:
            waiting = self._requests.get(letter.re)
            if waiting is not None and letter.topic == waiting[0] and not waiting[1].done():
                waiting[1].set_result(payload)
            return
        for topic, future in self._requests.values():
            if topic == letter.topic and not future.done():
                future.set_result(payload)
                return
        item = ReceivedMessage(Seq(letter.seq), letter.at, letter.topic, letter.args, letter.sender)
        self._mailbox.put(item)

    def _converted(self, item: ReceivedMessage, *, as_message: bool) -> Any:
        args = value_of(item.payload)
        at = EPOCH + timedelta(microseconds=item.time)
        message = Message(item.topic, args, at, self._reply, from_=item.sender, seq=item.seq)
        return message if as_message else message.payload

    def _reply(self, message: Message, topic: str, args: tuple[Any, ...]) -> Awaitable[bool]:
        return self._answer(message, topic, args)

    async def _answer(self, message: Message, topic: str, args: tuple[Any, ...]) -> bool:
        if message.from_ is None:
            return False
        try:
            return await self.send(message.from_, topic, *args)
        except NotFound:
            return False
