"""The operations of a workflow's ctx for monitors, links and control of other workflows; a part of `Context`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Unpack

from assay.core.model.duration import Duration
from assay.sdk.workflow.channels import Channel
from assay.sdk.workflow.child_options import ChildKeywords
from assay.sdk.workflow.child_verbs import ChildHandle
from assay.sdk.workflow.peer_events import PeerEvent


class PeerVerbs(ABC):
    """The operations of `Context` on other workflows.

    A target is an address such as `wf://main/order-1`, or an object with a `pid`.
    """

    @abstractmethod
    def events(self) -> Channel[PeerEvent]:
        """Return the channel of events: ends of spawned children and of watched workflows, and trapped cancel requests.

        Returns:
            The channel, the same on each call. Events from before the first call are on it.
        """

    @abstractmethod
    def set_options(self, *, trap_links: bool | None = None, trap_cancel: bool | None = None) -> None:
        """Choose how the run receives failures of linked workflows and cancel requests.

        Args:
            trap_links: True for an event LINK_DOWN, False for a `LinkedFailure` where the code waits.
            trap_cancel: True for an event CANCEL, False for a `CancelRequested` where the code waits.

        Raises:
            Invalid: A value is neither True nor False.
        """

    @abstractmethod
    async def monitor(self, target: Any) -> None:
        """Watch a workflow: its end, now or later, is an event EXIT.

        Args:
            target: The workflow. A workflow that does not exist gives an EXIT with an error of kind NOT_FOUND.

        Raises:
            Invalid: The target is this workflow.
        """

    @abstractmethod
    async def unmonitor(self, target: Any) -> None:
        """End a monitor; without effect for a workflow that is not monitored.

        Args:
            target: The workflow.
        """

    @abstractmethod
    async def link(self, target: Any) -> None:
        """Link this workflow and another: a failed end of either reaches the other.

        Args:
            target: The workflow, in the same namespace.

        Raises:
            Invalid: The target is this workflow, or in another namespace.
        """

    @abstractmethod
    async def unlink(self, target: Any) -> None:
        """End a link, in both directions; without effect for a workflow that is not linked.

        Args:
            target: The workflow.
        """

    @abstractmethod
    async def terminate(self, target: Any, reason: str | None = None) -> None:
        """End another workflow without notice to its code.

        Args:
            target: The workflow.
            reason: The reason, which is recorded.

        Raises:
            NotFound: The workflow does not exist or has ended.
        """

    @abstractmethod
    async def request_cancel(self, target: Any, reason: str | None = None, deadline: Duration | None = None) -> None:
        """Request the cancellation of another workflow.

        Args:
            target: The workflow.
            reason: The reason, which its code receives.
            deadline: The time after which the workflow is terminated if it is still open.

        Raises:
            NotFound: The workflow does not exist or has ended.
        """

    @abstractmethod
    async def spawn_monitored(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> ChildHandle[Any]:
        """Start a child whose end is an event EXIT; the same as `spawn`.

        Args:
            workflow: The workflow, or its name.
            *args: The child's input.
            **options: See `ChildKeywords`.

        Returns:
            The handle of the child.

        Raises:
            ChildError: The child could not be started.
        """

    @abstractmethod
    async def spawn_linked(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> ChildHandle[Any]:
        """Start a child and link it in the same transaction.

        Args:
            workflow: The workflow, or its name.
            *args: The child's input.
            **options: See `ChildKeywords`.

        Returns:
            The handle of the child.

        Raises:
            ChildError: The child could not be started.
        """

    @abstractmethod
    async def spawn_linked_monitored(
        self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]
    ) -> ChildHandle[Any]:
        """Start a child that is linked and monitored: a failed end gives EXIT, then LINK_DOWN or `LinkedFailure`.

        Args:
            workflow: The workflow, or its name.
            *args: The child's input.
            **options: See `ChildKeywords`.

        Returns:
            The handle of the child.

        Raises:
            ChildError: The child could not be started.
        """
