"""The verbs of a `def` workflow for children, and the handle of a spawned child; each call blocks."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, Unpack, overload

from assay.sdk.workflow.child_options import ChildKeywords, ChildOptions
from assay.sdk.workflow.child_verbs import ChildHandle
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.blocking import wait

Result = TypeVar("Result")
HandleResult = TypeVar("HandleResult", covariant=True)


class BlockingChild(Generic[HandleResult]):
    """A child that a `def` workflow has spawned.

    Args:
        handle: The handle of the child.
    """

    def __init__(self, handle: ChildHandle[HandleResult]) -> None:
        self._handle = handle

    @property
    def workflow_id(self) -> str:
        """Return the child's workflow id."""
        return self._handle.workflow_id

    @property
    def pid(self) -> str:
        """Return the child's address, for messages and watches."""
        return self._handle.pid

    def result(self) -> HandleResult:
        """Wait for the end of the child.

        Returns:
            The child's result, decoded by the workflow's annotation.

        Raises:
            ChildError: The child ended without a result.
        """
        return wait(self._handle.result())

    def send(self, topic: str, *args: Any) -> bool:
        """Send a message to the child, and wait until it is recorded there.

        Args:
            topic: The topic.
            *args: The values of the message.

        Returns:
            True.

        Raises:
            NotFound: The child has ended.
        """
        return wait(self._handle.send(topic, *args))

    def cancel(self, reason: str | None = None) -> None:
        """Request the cancellation of the child.

        Args:
            reason: The reason, which the child receives.
        """
        wait(self._handle.cancel(reason))


class BlockingChildVerbs:
    """The part of `BlockingContext` that starts children."""

    _context: Context

    def start_child_workflow(
        self,
        workflow_type: Callable[..., Any] | str,
        *,
        workflow_id: str,
        input: Any = None,
        task_queue: str | None = None,
        **options: Unpack[ChildOptions],
    ) -> Any:
        """Start a child workflow and wait for its result; a second call with the same id waits for the same child.

        Args:
            workflow_type: The workflow, or its name.
            workflow_id: The child's id, which must be the same on every replay.
            input: The child's input.
            task_queue: The child's queue; the queue of this run unless given.
            **options: See `ChildOptions`.

        Returns:
            The child's result.

        Raises:
            ChildError: The child ended without a result.
            Invalid: An option is unknown or malformed.
        """
        return wait(
            self._context.start_child_workflow(
                workflow_type, workflow_id=workflow_id, input=input, task_queue=task_queue, **options
            )
        )

    @overload
    def exec(self, workflow: Callable[..., Result], *args: Any, **options: Unpack[ChildKeywords]) -> Result: ...
    @overload
    def exec(self, workflow: str, *args: Any, **options: Unpack[ChildKeywords]) -> Any: ...

    def exec(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> Any:
        """Start a new child and wait for its result. Cancelling the wait requests the cancellation of the child.

        Args:
            workflow: The workflow, or its name.
            *args: The child's input.
            **options: See `ChildKeywords`.

        Returns:
            The child's result, decoded by the workflow's annotation.

        Raises:
            ChildError: The child ended without a result, or could not be started.
            Invalid: An option is unknown or malformed.
        """
        return wait(self._context.exec(workflow, *args, **options))

    @overload
    def spawn(
        self, workflow: Callable[..., Result], *args: Any, **options: Unpack[ChildKeywords]
    ) -> BlockingChild[Result]: ...
    @overload
    def spawn(self, workflow: str, *args: Any, **options: Unpack[ChildKeywords]) -> BlockingChild[Any]: ...

    def spawn(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> BlockingChild[Any]:
        """Start a new child and go on at once.

        Args:
            workflow: The workflow, or its name.
            *args: The child's input.
            **options: See `ChildKeywords`.

        Returns:
            The handle of the child.

        Raises:
            ChildError: The child could not be started: its id has an open run, or its options are refused.
            Invalid: An option is unknown or malformed.
        """
        return BlockingChild(wait(self._context.spawn(workflow, *args, **options)))
