"""Channels between tasks of one program, and `select` over several of them; on any asyncio loop, without I/O.

Rules owned here:

* Waiting tasks are served in the order in which they began to wait. A value is given to its receiver at once; if the
  receiver is cancelled before it runs again, the value returns to the front of the channel.
* A ready case is found in the order of declaration. A waiting `select` takes the first case that becomes ready, and its
  other cases leave their queues.
* Values sent before a close can still be received.

The runtime feeds workflow code through a `SourceChannel`, which code can only receive from: `put` adds an item and
`end` closes the channel. `unread` has the items that no code has received, `take` removes them, `is_awaited` is True
while a task waits for an item. `convert` turns an item into the received value, at the moment of receipt and in the
receiving task; `receive_item` returns the item itself. `_give_back`, which a subclass may override, receives the item
of a cancelled receiver.
`BlockingChannel` (blocking_channels.py) presents any channel to a `def` workflow.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from assay.core.model.errors import ChannelClosed, Invalid
from assay.sdk.arguments import check_whole

LARGEST_CAPACITY: Final = 1_000_000_000
Value = TypeVar("Value")
Outcome = tuple[int, Any, bool]
"""The index of the case that became ready, the item that it received, and False if the channel is closed."""


class SelectResult(msgspec.Struct, frozen=True):
    """The case that `select` took.

    `channel` is the object that the case was given as; `ok` is False if the channel is closed and has no value left;
    `default` is True if no case was ready, and then `index` and `channel` are None.
    """

    index: int | None = None
    channel: Any = None
    value: Any = None
    ok: bool = True
    default: bool = False


class _Parked:
    """A case that waits in the queue of its channel; `future` receives the outcome of the whole operation."""

    __slots__ = ("future", "index", "item")

    def __init__(self, future: asyncio.Future[Outcome], index: int, item: Any) -> None:
        self.future = future
        self.index = index
        self.item = item


class Case:
    """A case of `select`: receive from a channel, or send a value to it.

    Args:
        channel: The channel.
        shown: The object to return as the result's `channel`.
        item: The value to send.
        sends: Whether the case sends.
    """

    __slots__ = ("channel", "item", "sends", "shown")

    def __init__(self, channel: Channel[Any], shown: object, item: Any = None, *, sends: bool = False) -> None:
        self.channel = channel
        self.shown = shown
        self.item = item
        self.sends = sends

    def attempt(self) -> tuple[Any, bool] | None:
        """Send or receive if the channel is ready; return the item and False for a closed channel."""
        if not self.sends:
            return self.channel._try_receive()
        return (None, True) if self.channel._try_send(self.item) else None

    def park(self, future: asyncio.Future[Outcome], index: int) -> _Parked:
        """Wait in the queue of the channel."""
        parked = _Parked(future, index, self.item)
        self._queue[parked] = None
        return parked

    def withdraw(self, parked: _Parked) -> None:
        """Leave the queue of the channel."""
        self._queue.pop(parked, None)

    @property
    def _queue(self) -> OrderedDict[_Parked, None]:
        return self.channel._senders if self.sends else self.channel._receivers


class Channel(Generic[Value]):
    """A channel between tasks of a workflow: a queue with a capacity, or a meeting of sender and receiver.

    Args:
        capacity: How many values the channel holds; with 0 each send waits for its receiver.

    Raises:
        Invalid: The capacity is negative or no whole number.
    """

    __module__ = "assay"  # tracebacks show the name that programs import
    __slots__ = ("__weakref__", "_buffer", "_capacity", "_closed", "_receivers", "_senders")

    def __init__(self, capacity: int = 0) -> None:
        self._capacity = check_whole(capacity, "capacity", range(LARGEST_CAPACITY + 1))
        self._buffer: deque[Any] = deque()
        self._receivers: OrderedDict[_Parked, None] = OrderedDict()
        self._senders: OrderedDict[_Parked, None] = OrderedDict()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Return True if the channel is closed; values may be left in it."""
        return self._closed

    async def send(self, value: Value) -> None:
        """Send a value; wait until a receiver takes it or the channel has room for it.

        Args:
            value: The value.

        Raises:
            ChannelClosed: The channel is closed, or is closed meanwhile.
            Invalid: The channel can only be received from.
        """
        if not self._try_send(value):
            _, _, ok = await _first([Case(self, self, value, sends=True)])
            if not ok:
                raise _closed()

    async def receive(self) -> Value:
        """Wait for the next value and return it.

        Returns:
            The value.

        Raises:
            ChannelClosed: The channel is closed and has no value left.
        """
        value, ok = await self.receive_ok()
        if not ok:
            raise ChannelClosed("the channel is closed and has no value left")
        return value  # type: ignore[return-value]  # None only if not ok, or sent

    async def receive_ok(self) -> tuple[Value | None, bool]:
        """Wait for the next value.

        Returns:
            The value and True; None and False if the channel is closed and has no value left.
        """
        item, ok = await self._receive_item()
        return (self._received(item), True) if ok else (None, False)

    def close(self) -> None:
        """Close the channel; values that were sent can still be received. Closing twice has no effect.

        Raises:
            Invalid: The channel can only be received from.
        """
        if self._closed:
            return
        self._closed = True
        for queue in (self._receivers, self._senders):
            while queue:
                parked, _ = queue.popitem(last=False)
                if not parked.future.done():
                    parked.future.set_result((parked.index, None, False))

    def case_send(self, value: Value) -> Case:
        """Return a case of `select` that sends a value.

        Args:
            value: The value.

        Returns:
            The case.

        Raises:
            Invalid: The channel can only be received from.
        """
        return Case(self, self, value, sends=True)

    def case_receive(self) -> Case:
        """Return a case of `select` that receives; the channel itself means the same.

        Returns:
            The case.
        """
        return Case(self, self)

    def __aiter__(self) -> Channel[Value]:
        return self

    async def __anext__(self) -> Value:
        value, ok = await self.receive_ok()
        if not ok:
            raise StopAsyncIteration
        return value  # type: ignore[return-value]  # None only if not ok, or sent

    async def _receive_item(self) -> tuple[Any, bool]:
        found = self._try_receive()
        if found is None:
            _, item, ok = await _first([Case(self, self)])
            return item, ok
        return found

    def _received(self, item: Any) -> Any:
        """Return the value of an item that code has received."""
        return item

    def _try_send(self, item: Any) -> bool:
        """Give an item to the first waiting receiver, or keep it; return False if the sender has to wait."""
        if self._closed:
            raise _closed()
        if self._give(item):
            return True
        if len(self._buffer) < self._capacity:
            self._buffer.append(item)
            return True
        return False

    def _give(self, item: Any) -> bool:
        receivers = self._receivers
        while receivers:
            parked, _ = receivers.popitem(last=False)
            # Done: cancelled, or a `select` that has taken another case and has not run since.
            if not parked.future.done():
                parked.future.set_result((parked.index, item, True))
                return True
        return False

    def _try_receive(self) -> tuple[Any, bool] | None:
        """Take the next item; return None if the receiver has to wait."""
        if self._buffer:
            item = self._buffer.popleft()
            if len(self._buffer) < self._capacity:
                sent = self._take_from_sender()
                if sent is not None:
                    self._buffer.append(sent.item)
            return item, True
        sent = self._take_from_sender()
        if sent is not None:
            return sent.item, True
        return (None, False) if self._closed else None

    def _take_from_sender(self) -> _Parked | None:
        senders = self._senders
        while senders:
            parked, _ = senders.popitem(last=False)
            if not parked.future.done():
                parked.future.set_result((parked.index, None, True))
                return parked
        return None

    def _give_back(self, item: Any) -> None:
        """Take back an item whose receiver was cancelled before it ran: the next receiver gets the item."""
        if not self._give(item):
            self._buffer.appendleft(item)


class SourceChannel(Channel[Value]):
    """A channel that the runtime fills and that code only receives from; it holds any number of items.

    Args:
        name: The call that made the channel, for messages: `ctx.listen`.
        convert: Turns an item into the value that code receives; the item itself unless given.
    """

    __slots__ = ("_convert", "_name")

    def __init__(self, name: str, convert: Callable[[Any], Value] | None = None) -> None:
        super().__init__()
        self._name = name
        self._convert = convert

    def put(self, item: Any) -> None:
        """Give an item to the first waiting receiver, or keep it."""
        if not self._give(item):
            self._buffer.append(item)

    def end(self) -> None:
        """Close the channel; unread items can still be received."""
        super().close()

    @property
    def unread(self) -> tuple[Any, ...]:
        """Return the items that no code has received, in order."""
        return tuple(self._buffer)

    def take(self, is_wanted: Callable[[Any], bool] = lambda _: True) -> list[Any]:
        """Remove and return the unread items that are wanted, in order."""
        taken: list[Any] = []
        kept: list[Any] = []
        for item in self._buffer:
            (taken if is_wanted(item) else kept).append(item)
        self._buffer = deque(kept)
        return taken

    @property
    def is_awaited(self) -> bool:
        """Return True if a task waits for an item of the channel, alone or in a `select`."""
        return any(not parked.future.done() for parked in self._receivers)

    async def receive_item(self) -> tuple[Any, bool]:
        """Wait for the next item; return it unconverted, and False if the channel is closed."""
        return await self._receive_item()

    def _received(self, item: Any) -> Any:
        return item if self._convert is None else self._convert(item)

    async def send(self, value: Value) -> None:
        """Raise `Invalid`.

        Args:
            value: The value.
        """
        raise self._only_receives()

    def case_send(self, value: Value) -> NoReturn:
        """Raise `Invalid`.

        Args:
            value: The value.
        """
        raise self._only_receives()

    def close(self) -> None:
        """Raise `Invalid`."""
        raise self._only_receives()

    def _only_receives(self) -> Invalid:
        return Invalid(f"a channel of {self._name} can only be received from", field="channel")


async def select(cases: Sequence[Any], *, default: bool = False) -> SelectResult:
    """Take the first ready case in the order of declaration; if none is ready, wait for the first to become ready.

    Args:
        cases: Channels, `channel.case_receive()` and `channel.case_send(value)`.
        default: Return at once if no case is ready.

    Returns:
        The taken case, and its value.

    Raises:
        ChannelClosed: A case that sends was taken, and its channel is closed.
        Invalid: There is no case, or a case is something else.
    """
    found = [_case_of(case) for case in cases]
    if not found:
        raise Invalid("select needs at least one case: a channel, or channel.case_send(value)", field="cases")
    for index, case in enumerate(found):
        outcome = case.attempt()
        if outcome is not None:
            return _result(found, (index, *outcome))
    return SelectResult(default=True) if default else _result(found, await _first(found))


def _result(cases: Sequence[Case], outcome: Outcome) -> SelectResult:
    index, item, ok = outcome
    case = cases[index]
    if case.sends and not ok:
        raise _closed()
    value = case.channel._received(item) if ok and not case.sends else None
    return SelectResult(index, case.shown, value, ok)


async def _first(cases: Sequence[Case]) -> Outcome:
    """Wait in the queues of all cases until one of them becomes ready."""
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    parked = [case.park(future, index) for index, case in enumerate(cases)]
    try:
        return await future
    except BaseException:
        if future.done() and not future.cancelled():
            index, item, ok = future.result()
            if ok and not cases[index].sends:
                cases[index].channel._give_back(item)
        raise
    finally:
        for case, place in zip(cases, parked, strict=True):
            case.withdraw(place)


def _case_of(given: Any) -> Case:
    if isinstance(given, Case):
        return given
    if isinstance(given, Channel):
        return Case(given, given)
    case_receive = getattr(given, "case_receive", None)
    if callable(case_receive):  # a channel of a `def` workflow
        found: Case = case_receive()
        return found
    if inspect.iscoroutine(given):
        given.close()  # prevents the warning of an unawaited coroutine
    raise Invalid(
        f"a case of select is a channel, channel.case_receive() or channel.case_send(value), "
        f"not {type(given).__name__}{_hint(given)}",
        field="cases",
    )


def _hint(given: Any) -> str:
    attribute = getattr(type(given), "channel", None)
    if attribute is None:
        return ""
    return ": give it its .channel()" if callable(attribute) else ": give it its .channel"


def _closed() -> ChannelClosed:
    return ChannelClosed("the channel is closed: nothing can be sent to it")
