"""Messages of a `def` workflow; a part of `BlockingContext`."""

from __future__ import annotations

from typing import Any

from assay.sdk.workflow.blocking_channels import BlockingChannel
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.blocking import wait


class BlockingMessaging:
    """The message operations of `BlockingContext`."""

    _context: Context

    @property
    def pid(self) -> str:
        """Return the address of this workflow, for messages of others."""
        return self._context.pid

    def inbox(self) -> BlockingChannel[Any]:
        """Return the channel of the messages whose topic has no listener, as `Message` objects.

        Returns:
            The channel.
        """
        return BlockingChannel(self._context.inbox())

    def listen(self, topic: str, *, message: bool = False) -> BlockingChannel[Any]:
        """Return the channel of the messages of one topic.

        Args:
            topic: The topic, in full.
            message: Receive `Message` objects instead of payloads. Once requested, it stays so for the topic.

        Returns:
            The channel.

        Raises:
            Invalid: The topic is empty or reserved.
        """
        return BlockingChannel(self._context.listen(topic, message=message))

    def unlisten(self, channel: BlockingChannel[Any]) -> None:
        """Close the channel of a topic; its unread messages, and later ones, go to the inbox or wait.

        Args:
            channel: The channel that `listen` returned.

        Raises:
            Invalid: The channel is not one of `listen`, or is closed.
        """
        self._context.unlisten(channel.channel)

    def send(self, to: Any, topic: str, *args: Any) -> bool:
        """Send a message, and wait until it is recorded at its target.

        Args:
            to: An address, such as `wf://main/order-1` or the `from_` of a message, or an object with a `pid`.
            topic: The topic.
            *args: The payloads.

        Returns:
            True.

        Raises:
            NotFound: The target does not exist or has ended.
            Invalid: The topic is empty or reserved, or a reply to an update is not allowed.
            Failure: Of kind RATE_LIMITED: the target, or this run, has too many messages.
        """
        return wait(self._context.send(to, topic, *args))
