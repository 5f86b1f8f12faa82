"""Monitors, links and control of other workflows for `def` workflows; each call blocks until it is done."""

from typing import Any, Unpack

from assay.core.model.duration import Duration
from assay.sdk.workflow.blocking_channels import BlockingChannel
from assay.sdk.workflow.blocking_children import BlockingChild
from assay.sdk.workflow.child_options import ChildKeywords
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.peer_events import PeerEvent
from assay.sdk.workflow.replay.blocking import wait


class BlockingPeerVerbs:
    """The operations of `BlockingContext` on other workflows: those of `PeerVerbs`."""

    _context: Context

    def events(self) -> BlockingChannel[PeerEvent]:
        """Return the channel of events: ends of spawned children and of watched workflows, and trapped cancel requests.

        Returns:
            The channel.
        """
        return BlockingChannel(self._context.events())

    def set_options(self, *, trap_links: bool | None = None, trap_cancel: bool | None = None) -> None:
        """Choose how the run receives failures of linked workflows and cancel requests.

        Args:
            trap_links: True for an event LINK_DOWN, False for a `LinkedFailure` where the code waits.
            trap_cancel: True for an event CANCEL, False for a `CancelRequested` where the code waits.

        Raises:
            Invalid: A value is neither True nor False.
        """
        self._context.set_options(trap_links=trap_links, trap_cancel=trap_cancel)

    def monitor(self, target: Any) -> None:
        """Watch a workflow: its end, now or later, is an event EXIT.

        Args:
            target: The workflow.

        Raises:
            Invalid: The target is this workflow.
        """
        wait(self._context.monitor(target))

    def unmonitor(self, target: Any) -> None:
        """End a monitor.

        Args:
            target: The workflow.
        """
        wait(self._context.unmonitor(target))

    def link(self, target: Any) -> None:
        """Link this workflow and another: a failed end of either reaches the other.

        Args:
            target: The workflow, in the same namespace.

        Raises:
            Invalid: The target is this workflow, or in another namespace.
        """
        wait(self._context.link(target))

    def unlink(self, target: Any) -> None:
        """End a link, in both directions.

        Args:
            target: The workflow.
        """
        wait(self._context.unlink(target))

    def terminate(self, target: Any, reason: str | None = None) -> None:
        """End another workflow without notice to its code.

        Args:
            target: The workflow.
            reason: The reason, which is recorded.

        Raises:
            NotFound: The workflow does not exist or has ended.
        """
        wait(self._context.terminate(target, reason))

    def request_cancel(self, target: Any, reason: str | None = None, deadline: Duration | None = None) -> None:
        """Request the cancellation of another workflow.

        Args:
            target: The workflow.
            reason: The reason, which its code receives.
            deadline: The time after which the workflow is terminated if it is still open.

        Raises:
            NotFound: The workflow does not exist or has ended.
        """
        wait(self._context.request_cancel(target, reason, deadline))

    def spawn_monitored(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> BlockingChild[Any]:
        """Start a child whose end is an event EXIT; the same as `spawn`.

        Args:
            workflow: The workflow, or its name.
            *args: The child's input.
            **options: See `ChildKeywords`.

        Returns:
            The handle of the child.
        """
        return BlockingChild(wait(self._context.spawn_monitored(workflow, *args, **options)))

    def spawn_linked(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> BlockingChild[Any]:
        """Start a child and link it.

        Args:
            workflow: The workflow, or its name.
            *args: The child's input.
            **options: See `ChildKeywords`.

        Returns:
            The handle of the child.
        """
        return BlockingChild(wait(self._context.spawn_linked(workflow, *args, **options)))

    def spawn_linked_monitored(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> BlockingChild[Any]:
        """Start a child that is linked and monitored.

        Args:
            workflow: The workflow, or its name.
            *args: The child's input.
            **options: See `ChildKeywords`.

        Returns:
            The handle of the child.
        """
        return BlockingChild(wait(self._context.spawn_linked_monitored(workflow, *args, **options)))
