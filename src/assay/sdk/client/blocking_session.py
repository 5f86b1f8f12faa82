"""Sessions of programs without asyncio: the verbs of `MailSession`, and each call blocks."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from assay.core.model.errors import Invalid
from assay.sdk.client.mail_session import MailSession
from assay.sdk.workflow.channels import Channel, SelectResult
from assay.sdk.workflow.message import Message

if TYPE_CHECKING:
    from types import TracebackType

    from assay.core.model.duration import Duration
    from assay.sdk.client.blocking import BlockingClient

Outcome = TypeVar("Outcome")


class SessionChannel:
    """A channel of a session: `for value in channel`, or `receive`.

    Args:
        session: The session.
        channel: The channel to wait on.
    """

    def __init__(self, session: BlockingSession, channel: Channel[Any]) -> None:
        self._session = session
        self.channel = channel

    def receive(self) -> Any:
        """Wait for the next value and return it.

        Returns:
            The value.

        Raises:
            ChannelClosed: The channel is closed and has no value left.
        """
        return self._session.shown(self._session.wait(lambda: self.channel.receive()))

    def receive_ok(self) -> tuple[Any, bool]:
        """Wait for the next value.

        Returns:
            The value and True; None and False if the channel is closed and has no value left.
        """
        value, ok = self._session.wait(lambda: self.channel.receive_ok())
        return self._session.shown(value), ok

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        value, ok = self.receive_ok()
        if not ok:
            raise StopIteration
        return value


class BlockingSession:
    """A program's mailbox, from `with workflow.session() as me`; its end deletes the mailbox.

    Args:
        blocking_client: The client of the program.
        session: The session on the client's event loop.
    """

    def __init__(self, blocking_client: BlockingClient, session: MailSession) -> None:
        self._blocking_client = blocking_client
        self._session = session

    def wait(self, make: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Run an operation on the event loop of the client, and wait for its outcome."""

        async def act() -> Outcome:
            return await make()

        return self._blocking_client.call("session", lambda _: act())

    def shown(self, value: Any) -> Any:
        """Return a value as code receives it: the replies of a message block."""
        if not isinstance(value, Message):
            return value
        message, reply = copy.copy(value), value._reply

        def answer(of: Message, topic: str, args: tuple[Any, ...]) -> Any:
            return self.wait(lambda: reply(of, topic, args))

        message._reply = answer
        return message

    def _made(self, make: Callable[[], Channel[Any]]) -> SessionChannel:
        async def act() -> Channel[Any]:
            return make()

        return SessionChannel(self, self.wait(act))

    def __enter__(self) -> BlockingSession:
        self.wait(self._session.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wait(lambda: self._session.__aexit__(kind, error, trace))

    @property
    def pid(self) -> str:
        """Return the address of the mailbox, for replies."""
        return self._session.pid

    def send(self, to: Any, topic: str, *args: Any) -> bool:
        """Send a message with this session as its sender.

        Args:
            to: An address, or an object with a `pid`, such as the record of a start.
            topic: The topic.
            *args: The payloads.

        Returns:
            True, when the message is recorded at its target.

        Raises:
            NotFound: The target does not exist or has ended.
            Invalid: The topic is empty or reserved.
        """
        return self.wait(lambda: self._session.send(to, topic, *args))

    def request(self, to: Any, topic: str, *args: Any, reply: str, timeout: Duration | None = None) -> Any:
        """Send a message and wait for the reply to it.

        Args:
            to: An address, or an object with a `pid`, such as the record of a start.
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
        return self.wait(lambda: self._session.request(to, topic, *args, reply=reply, timeout=timeout))

    def inbox(self) -> SessionChannel:
        """Return the channel of the messages whose topic has no listener, as `Message` objects.

        Returns:
            The channel.
        """
        return self._made(self._session.inbox)

    def listen(self, topic: str, *, message: bool = False) -> SessionChannel:
        """Return the channel of the messages of one topic.

        Args:
            topic: The topic, in full.
            message: Receive `Message` objects instead of payloads.

        Returns:
            The channel.

        Raises:
            Invalid: The topic is empty or reserved.
        """
        return self._made(lambda: self._session.listen(topic, message=message))

    def unlisten(self, channel: SessionChannel) -> None:
        """Close the channel of a topic; its unread messages, and later ones, go to the inbox or wait.

        Args:
            channel: The channel that `listen` returned.

        Raises:
            Invalid: The channel is not one of `listen`, or is closed.
        """

        async def act() -> None:
            self._session.unlisten(channel.channel)

        self.wait(act)

    def after(self, duration: Duration) -> SessionChannel:
        """Return a channel that gives the time once, after a duration.

        Args:
            duration: Seconds, a timedelta or a text such as "1h30m".

        Returns:
            The channel, for `receive` or `select`.

        Raises:
            Invalid: The duration is negative or malformed.
        """
        return self._made(lambda: self._session.after(duration))

    def select(self, *channels: SessionChannel, default: bool = False) -> SelectResult:
        """Take the first ready channel in the order of the arguments; if no channel is ready, wait for the first.

        Args:
            *channels: Channels of this session.
            default: Return at once if no channel is ready.

        Returns:
            The taken channel, and its value.

        Raises:
            Invalid: There is no channel, or an argument is something else.
        """
        if not all(isinstance(channel, SessionChannel) for channel in channels):
            raise Invalid("select of a session takes its channels", field="channels")
        inner = [channel.channel for channel in channels]
        found = self.wait(lambda: self._session.select(*inner, default=default))
        chosen = None if found.index is None else channels[found.index]
        return SelectResult(found.index, chosen, self.shown(found.value), found.ok, found.default)
