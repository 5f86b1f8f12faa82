"""Bugs in tasks, channels and time, planted one at a time: random courses of short programs must find each."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from assay.core.model.errors import ChannelClosed
from assay.sdk.workflow import channels, saga, timers
from assay.sdk.workflow.activity_futures import StartedActivity
from assay.sdk.workflow.channels import Case, Channel, SelectResult
from assay.sdk.workflow.replay import task_errors
from assay.sdk.workflow.replay.exceptions import Intrusion
from assay.sdk.workflow.replay_concurrency import ReplayConcurrency
from tests.sdk.workflow.replay.courses import check
from tests.sdk.workflow.replay.programs import Program

COURSES = 150
Patch = tuple[Any, str, Any]


async def another_winner(self: Any, *cases: Any, default: bool = False) -> SelectResult:
    if not self.is_replaying():
        return await channels.select(cases, default=default)
    taken = await channels.select(cases[::-1], default=default)
    place = None if taken.index is None else len(cases) - 1 - taken.index
    return SelectResult(place, taken.channel, taken.value, taken.ok, taken.default)


def ticks_twice(self: Any) -> None:
    ticks(self)
    self._channel.put(timers.moment(self._now()))


ticks = timers.Ticker._tick


def ticks_at_once(self: Any) -> None:
    self._channel.put(timers.moment(self._now()))
    self._handle = self._arm(1, self._tick)


def loses_from_sender(self: Any) -> Any:
    found = takes_from_sender(self)
    return None if found is not None and self._capacity == 0 and found.item != "out" else found


takes_from_sender = Channel._take_from_sender


def takes_from_anybody(self: Any) -> Any:
    if not self._senders:
        return None
    parked, _ = self._senders.popitem(last=False)
    parked.future.done() or parked.future.set_result((parked.index, None, True))
    return parked


def blocks_when_closed(self: Any) -> Any:
    found = receives(self)
    return None if found == (None, False) else found


receives = Channel._try_receive


def closes_and_forgets(self: Any) -> None:
    self._buffer.clear()
    closes(self)


closes = Channel.close


def sends_to_closed(self: Any, item: Any) -> bool:
    try:
        return sends(self, item)
    except ChannelClosed:
        return True


sends = Channel._try_send


def takes_newest(self: Any) -> Any:
    return (self._buffer.pop(), True) if len(self._buffer) > 1 else receives(self)


def gives_twice(self: Any) -> None:
    if self._channel is not None and not self.cancelled() and self._exception is None:
        self._channel.put(self.result())
    feeds(self)


feeds = StartedActivity._feed


def takes_oldest(self: Any, error: Any) -> Any:
    return takes(self, error)[::-1]


takes = saga._Compensations._take


def stays_cancelled(self: Any, task: Any, error: Any) -> Any:
    found = raises(self, task, error)
    if found is not error:
        task.cancel()
    return found


raises = Intrusion.raised_in


def plant(target: Any, name: str, value: Any) -> list[Patch]:
    return [(target, name, value)]


def nothing(*_: Any) -> None: ...


BUGS: dict[str, tuple[Callable[[], list[Patch]], Program]] = {
    "a select picks another winner on a replay": (
        lambda: plant(ReplayConcurrency, "select", another_winner),
        ("choose", 60.0, ("activity", "charge"), ("activity", "ship"), ("sleep", 1.0)),
    ),
    "a ticker fires twice": (
        lambda: plant(timers.Ticker, "_tick", ticks_twice),
        ("ticks", 1.0, ("activity", "charge")),
    ),
    "a ticker does not wait for its period": (
        lambda: plant(timers.Ticker, "_tick", ticks_at_once),
        ("ticks", 60.0, ("activity", "charge")),
    ),
    "a stopped ticker goes on": (
        lambda: plant(timers.Ticker, "stop", lambda self: self._channel.end()),
        ("sequence", ("ticks", 1.0, ("activity", "charge")), ("ticks", 1.0, ("activity", "charge"))),
    ),
    "a stopped timer fires": (
        lambda: plant(timers.Timer, "stop", lambda self: self._handle is not None),
        ("alarm", 1.0, ("activity", "charge")),
    ),
    "a reset does not arm": (
        lambda: plant(timers.Timer, "reset", lambda self, _: self.stop()),
        ("alarm", 1.0, ("activity", "charge")),
    ),
    "a rendezvous loses a value": (
        lambda: plant(Channel, "_take_from_sender", loses_from_sender),
        ("ordered", 0, 4),
    ),
    "the value of a cancelled receiver is lost": (lambda: plant(Channel, "_give_back", nothing), ("withdraw",)),
    "a closed channel blocks": (lambda: plant(Channel, "_try_receive", blocks_when_closed), ("ordered", 1, 3)),
    "a close forgets values": (lambda: plant(Channel, "close", closes_and_forgets), ("ordered", 2, 3)),
    "a closed channel takes values": (lambda: plant(Channel, "_try_send", sends_to_closed), ("ordered", 1, 2)),
    "a channel gives the newest value first": (lambda: plant(Channel, "_try_receive", takes_newest), ("ordered", 2, 4)),
    "a case that lost stays in its queue": (
        lambda: [(Case, "withdraw", nothing), (Channel, "_take_from_sender", takes_from_anybody)],
        ("offer", 1.0),
    ),
    "a future gives its result twice": (lambda: plant(StartedActivity, "_feed", gives_twice), ("futures", 2, False)),
    "the error of a task is lost": (lambda: plant(task_errors, "settle", nothing), ("intrude", 1.0)),
    "the main coroutine stays cancelled": (lambda: plant(Intrusion, "raised_in", stays_cancelled), ("intrude", 1.0)),
    "compensations run oldest first": (
        lambda: plant(saga._Compensations, "_take", takes_oldest),
        ("attempt", ("compensate", ("activity", "charge"))),
    ),
    "a failed compensation prevents the others": (
        lambda: plant(saga.Saga, "_compensate", fails_once),
        ("attempt", ("compensate", ("activity", "charge"))),
    ),
}


async def fails_once(self: Any, function: Any, args: Any, options: Any) -> None:
    if args == (2,):
        self._compensations.clear()
        raise SystemError("gone")
    await function(*args, **options)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def found(program: Program) -> bool:
    """Return whether one of many random courses of a program shows that something is wrong."""
    for seed in range(COURSES):
        try:
            check(("sequence", program), random.Random(seed))  # noqa: S311  # repeatable on purpose
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str):
    patches, program = BUGS[bug]
    assert not found(program)
    stack = [mock.patch.object(*patch) for patch in patches()]
    for patch in stack:
        patch.start()
    try:
        assert found(program)
    finally:
        for patch in stack:
            patch.stop()
