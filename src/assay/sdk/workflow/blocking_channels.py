"""Channels of `def` workflows: the operations of `Channel`; each call blocks until it is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from assay.sdk.workflow.channels import Case, Channel
from assay.sdk.workflow.replay.blocking import wait

Value = TypeVar("Value")


class BlockingChannel(Generic[Value]):
    """A channel between tasks of a `def` workflow: `Channel` without `await`.

    Args:
        channel: The channel to wait on.
    """

    __slots__ = ("channel",)

    def __init__(self, channel: Channel[Value]) -> None:
        self.channel = channel

    @property
    def closed(self) -> bool:
        """Return True if the channel is closed; values may be left in it."""
        return self.channel.closed

    def send(self, value: Value) -> None:
        """Send a value; wait until a receiver takes it or the channel has room for it.

        Args:
            value: The value.

        Raises:
            ChannelClosed: The channel is closed, or is closed meanwhile.
            Invalid: The channel can only be received from.
        """
        wait(self.channel.send(value))

    def receive(self) -> Value:
        """Wait for the next value and return it.

        Returns:
            The value.

        Raises:
            ChannelClosed: The channel is closed and has no value left.
        """
        return wait(self.channel.receive())

    def receive_ok(self) -> tuple[Value | None, bool]:
        """Wait for the next value.

        Returns:
            The value and True; None and False if the channel is closed and has no value left.
        """
        return wait(self.channel.receive_ok())

    def close(self) -> None:
        """Close the channel; values that were sent can still be received. Closing twice has no effect.

        Raises:
            Invalid: The channel can only be received from.
        """
        self.channel.close()

    def case_send(self, value: Value) -> Case:
        """Return a case of `select` that sends a value.

        Args:
            value: The value.

        Returns:
            The case.

        Raises:
            Invalid: The channel can only be received from.
        """
        return self._shown(self.channel.case_send(value))

    def case_receive(self) -> Case:
        """Return a case of `select` that receives; the channel itself means the same.

        Returns:
            The case.
        """
        return self._shown(self.channel.case_receive())

    def _shown(self, case: Case) -> Case:
        case.shown = self
        return case

    def __iter__(self) -> Iterator[Value]:
        return self

    def __next__(self) -> Value:
        value, ok = self.receive_ok()
        if not ok:
            raise StopIteration
        found: Any = value
        return found  # type: ignore[no-any-return]  # None only if sent
