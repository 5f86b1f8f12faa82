"""Timers and tickers of workflow code: durable timers that feed a channel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from assay.core.model.duration import parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import Time
from assay.sdk.workflow.channels import Channel, SourceChannel
from assay.sdk.workflow.concurrency import Duration

UNREAD_TICKS: Final = 16
"""How many unread ticks a ticker keeps; further ticks are dropped until code reads."""

Arm = Callable[[int, Callable[[], None]], asyncio.TimerHandle]
"""Starts a durable timer of so many microseconds; cancelling its handle cancels the timer."""


def moment(time: Time) -> datetime:
    """Return a recorded time, as workflow code receives it."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time)


class Timer:
    """A durable timer that can be stopped and armed again; `channel` gives the time of each fire.

    Args:
        arm: Starts a durable timer.
        now: Returns the time of the last applied input.
        duration: The time until the fire.
    """

    __slots__ = ("_arm", "_channel", "_handle", "_now", "channel")

    def __init__(self, arm: Arm, now: Callable[[], Time], duration: Duration) -> None:
        self._arm = arm
        self._now = now
        self._channel: SourceChannel[datetime] = SourceChannel("ctx.timer")
        self.channel: Channel[datetime] = self._channel
        self._handle: asyncio.TimerHandle | None = arm(positive(duration), self._fire)

    def _fire(self) -> None:
        self._handle = None
        self._channel.put(moment(self._now()))

    def stop(self) -> bool:
        """Cancel the timer; its channel stays open.

        Returns:
            True if the timer was armed.
        """
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()
        return handle is not None

    def reset(self, duration: Duration) -> bool:
        """Arm the timer anew, from now on; a fire that no code has received is dropped.

        Args:
            duration: Seconds, a timedelta or a text such as "1h30m".

        Returns:
            True if the timer was armed, False if it had fired or was stopped.

        Raises:
            Invalid: The duration is not positive, or malformed.
        """
        microseconds = positive(duration)
        was_armed = self.stop()
        self._channel.take()
        self._handle = self._arm(microseconds, self._fire)
        return was_armed


class Ticker:
    """A durable timer that fires at each multiple of its period; `channel` gives the time of each tick.

    Multiples that have passed when the timer fires are skipped: one tick stands for them.

    Args:
        arm: Starts a durable timer.
        now: Returns the time of the last applied input.
        period: The time between ticks.
    """

    __slots__ = ("_arm", "_began", "_channel", "_handle", "_now", "_period", "channel")

    def __init__(self, arm: Arm, now: Callable[[], Time], period: Duration) -> None:
        self._arm = arm
        self._now = now
        self._period = positive(period)
        self._began = now()
        self._channel: SourceChannel[datetime] = SourceChannel("ctx.ticker")
        self.channel: Channel[datetime] = self._channel
        self._handle: asyncio.TimerHandle | None = arm(self._period, self._tick)

    def _tick(self) -> None:
        now = self._now()
        if len(self._channel.unread) < UNREAD_TICKS:
            self._channel.put(moment(now))
        self._handle = self._arm(self._period - (now - self._began) % self._period, self._tick)

    def stop(self) -> None:
        """Cancel the timer and close the channel; ticks that no code has received can still be received."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()
            self._channel.end()


def positive(duration: Duration) -> int:
    """Return a duration in microseconds, or raise `Invalid` if it is not positive."""
    microseconds = parse_duration(duration, "duration")
    if not microseconds:
        raise Invalid("duration: must be positive", code="invalid_duration", field="duration")
    return microseconds


def after(arm: Arm, now: Callable[[], Time], duration: Duration) -> Channel[datetime]:
    """Return a channel that gives the time once, after a duration."""
    channel: SourceChannel[datetime] = SourceChannel("ctx.after")
    microseconds = parse_duration(duration, "duration")
    if microseconds:
        arm(microseconds, lambda: channel.put(moment(now())))
    else:
        channel.put(moment(now()))
    return channel
