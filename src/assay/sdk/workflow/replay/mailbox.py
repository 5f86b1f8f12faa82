"""The messages of one run: routed to the listener of their topic, else to the inbox, else kept until code asks.

A topic has one queue, which `listen` and `wait_for_signal` read, the first to wait first. `wait_for_signal` also takes
messages of its topic from the inbox. Messages stay in the order of their seqs wherever they are moved.
"""

import asyncio
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import msgspec

from assay.core.model.ids import Seq, Time
from assay.core.model.payload import Payload
from assay.sdk.workflow.channels import Case, Outcome, SourceChannel

TIMED_OUT: Outcome = (0, None, False)
"""The outcome of a wait whose time is over."""
_by_seq = attrgetter("seq")


class ReceivedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message as recorded; `args` is a list of several payloads, absent for one payload or none."""

    seq: Seq
    time: Time
    topic: str
    payload: Payload
    sender: str | None = None
    args: Payload | msgspec.UnsetType = msgspec.UNSET
    update_id: str | None = None
    has_payload: bool = True


class MessageChannel(SourceChannel[Any]):
    """The channel of a topic, or of the inbox; `as_messages` is True if code receives messages, not payloads."""

    __slots__ = ("_mailbox", "as_messages", "is_listened", "topic")

    def __init__(self, mailbox: "Mailbox", topic: str | None) -> None:
        super().__init__("ctx.inbox" if topic is None else "ctx.listen", self._value)
        self._mailbox = mailbox
        self.topic = topic
        """The topic; None for the inbox."""
        self.as_messages = topic is None
        self.is_listened = topic is None

    def _value(self, item: ReceivedMessage) -> Any:
        return self._mailbox.convert(item, as_message=self.as_messages)

    @property
    def first(self) -> ReceivedMessage | None:
        """Return the oldest unread message, or None."""
        return self._buffer[0] if self._buffer else None

    def take_first(self) -> ReceivedMessage:
        """Remove and return the oldest unread message."""
        found: ReceivedMessage = self._buffer.popleft()
        return found

    @property
    def parked(self) -> list[Any]:
        """Return the receivers that wait, in order."""
        return list(self._receivers)

    def join(self, parked: Any) -> None:
        """Let a receiver of another channel wait here."""
        self._receivers[parked] = None

    def leave(self, parked: Any) -> None:
        """Forget a waiting receiver."""
        self._receivers.pop(parked, None)

    def place(self, items: Iterable[ReceivedMessage]) -> None:
        """Give moved messages to waiting receivers, or place them by their seqs among the unread ones."""
        for item in items:
            if not self._give(item):
                unread = list(self._buffer)
                insort(unread, item, key=_by_seq)
                self._buffer = deque(unread)

    def _give_back(self, item: ReceivedMessage) -> None:
        if self.closed:
            self._mailbox.route([item])
        else:
            self.place([item])


class Mailbox:
    """The queues of one run; `convert` turns a message into the value that code receives."""

    __slots__ = ("_topics", "_waiting", "convert", "inbox")

    def __init__(self) -> None:
        self._topics: dict[str, MessageChannel] = {}
        self._waiting: set[Any] = set()
        """The receivers of `wait_for_signal`."""
        self.inbox: MessageChannel | None = None
        self.convert: Callable[..., Any] = lambda item, *, as_message: item

    def put(self, item: ReceivedMessage) -> None:
        """Route a new message."""
        channel = self._topics.get(item.topic)
        if channel is not None and (channel.is_listened or channel.is_awaited):
            channel.put(item)
        elif self.inbox is not None:
            self.inbox.put(item)
        else:
            self._topic(item.topic).put(item)

    def route(self, items: list[ReceivedMessage]) -> None:
        """Route messages that were unread in a channel that is closed now."""
        for item in items:
            channel = self._topics.get(item.topic)
            if self.inbox is not None and not (channel is not None and (channel.is_listened or channel.is_awaited)):
                self.inbox.place([item])
            else:
                self._topic(item.topic).place([item])

    def listen(self, topic: str, *, as_messages: bool) -> MessageChannel:
        """Return the channel of a topic; once requested, messages stay messages."""
        channel = self._topic(topic)
        channel.is_listened = True
        channel.as_messages = channel.as_messages or as_messages
        return channel

    def open_inbox(self) -> MessageChannel:
        """Return the channel of all messages without a listener, with the messages that wait already."""
        if self.inbox is None:
            self.inbox = MessageChannel(self, None)
            waiting = [item for channel in self._topics.values() if not channel.is_listened for item in channel.take()]
            for item in sorted(waiting, key=_by_seq):
                self.inbox.put(item)
        return self.inbox

    def unlisten(self, channel: object) -> bool:
        """Close the channel of a topic, and route its unread messages anew; return False for any other channel."""
        if not isinstance(channel, MessageChannel) or channel.topic is None:
            return False
        if self._topics.get(channel.topic) is not channel or not channel.is_listened:
            return False
        del self._topics[channel.topic]
        unread = channel.take()
        for parked in channel.parked:
            if parked in self._waiting:  # `wait_for_signal` waits on: the topic gets another queue
                channel.leave(parked)
                self._topic(channel.topic).join(parked)
        channel.end()
        self.route(unread)
        return True

    def take(self, topic: str) -> ReceivedMessage | None:
        """Remove and return the oldest unread message of a topic, wherever it is."""
        channel = self._topics.get(topic)
        queued = None if channel is None else channel.first
        inbox = None if self.inbox is None else next((one for one in self.inbox.unread if one.topic == topic), None)
        if channel is not None and queued is not None and (inbox is None or queued.seq < inbox.seq):
            return channel.take_first()
        if self.inbox is not None and inbox is not None:
            self.inbox.take(lambda item: item is inbox)
        return inbox

    async def wait(self, topic: str, future: "asyncio.Future[Outcome]") -> ReceivedMessage | None:
        """Wait for the next message of a topic; None if `future` has the outcome `TIMED_OUT`."""
        parked = Case(self._topic(topic), None).park(future, 0)
        self._waiting.add(parked)
        try:
            found: ReceivedMessage | None = (await future)[1]
        except BaseException:
            if future.done() and not future.cancelled() and future.result()[2]:
                self.route([future.result()[1]])
            raise
        finally:
            self._waiting.discard(parked)
            self._topic(topic).leave(parked)
        return found

    @property
    def is_awaited(self) -> bool:
        """Return True if code waits for a message."""
        return any(channel.is_awaited for channel in self._channels())

    def unread(self) -> tuple[int, ...]:
        """Return the seqs of messages that code has not taken, in order."""
        return tuple(sorted(item.seq for channel in self._channels() for item in channel.unread))

    def _channels(self) -> list[MessageChannel]:
        return [*self._topics.values(), *(() if self.inbox is None else (self.inbox,))]

    def _topic(self, topic: str) -> MessageChannel:
        channel = self._topics.get(topic)
        if channel is None:
            channel = self._topics[topic] = MessageChannel(self, topic)
        return channel
