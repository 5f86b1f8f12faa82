"""The operations of a workflow's ctx for messages; a part of `Context`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from assay.sdk.workflow.channels import Channel


class Messaging(ABC):
    """The message operations of `Context`."""

    @property
    @abstractmethod
    def pid(self) -> str:
        """Return the address of this workflow, for messages of others."""

    @abstractmethod
    def inbox(self) -> Channel[Any]:
        """Return the channel of the messages whose topic has no listener, as `Message` objects.

        Returns:
            The channel, the same on each call.
        """

    @abstractmethod
    def listen(self, topic: str, *, message: bool = False) -> Channel[Any]:
        """Return the channel of the messages of one topic.

        Args:
            topic: The topic, in full.
            message: Receive `Message` objects instead of payloads. Once requested, it stays so for the topic.

        Returns:
            The channel, the same on each call for the topic.

        Raises:
            Invalid: The topic is empty or reserved.
        """

    @abstractmethod
    def unlisten(self, channel: Channel[Any]) -> None:
        """Close the channel of a topic; its unread messages, and later ones, go to the inbox or wait.

        Args:
            channel: The channel that `listen` returned.

        Raises:
            Invalid: The channel is not one of `listen`, or is closed.
        """

    @abstractmethod
    async def send(self, to: Any, topic: str, *args: Any) -> bool:
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
