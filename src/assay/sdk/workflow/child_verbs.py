"""The verbs of `ctx` for children, and the handle of a spawned child."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar, Unpack, overload

from assay.sdk.workflow.child_options import ChildKeywords, ChildOptions

Result = TypeVar("Result")
HandleResult = TypeVar("HandleResult", covariant=True)


class ChildHandle(ABC, Generic[HandleResult]):
    """A spawned child."""

    @property
    @abstractmethod
    def workflow_id(self) -> str:
        """Return the child's workflow id."""

    @property
    @abstractmethod
    def pid(self) -> str:
        """Return the child's address, for messages and watches."""

    @abstractmethod
    async def result(self) -> HandleResult:
        """Wait for the end of the child; a cancelled wait leaves the child alone.

        Returns:
            The child's result, decoded by the workflow's annotation.

        Raises:
            ChildError: The child ended without a result.
        """

    @abstractmethod
    async def send(self, topic: str, *args: Any) -> bool:
        """Send a message to the child, and wait until it is recorded there.

        Args:
            topic: The topic.
            *args: The values of the message.

        Returns:
            True.

        Raises:
            NotFound: The child has ended.
        """

    @abstractmethod
    async def cancel(self, reason: str | None = None) -> None:
        """Request the cancellation of the child.

        Args:
            reason: The reason, which the child receives.
        """


class ChildVerbs(ABC):
    """The part of `Context` that starts children."""

    @abstractmethod
    async def start_child_workflow(
        self,
        workflow_type: Callable[..., Any] | str,
        *,
        workflow_id: str,
        input: Any = None,
        task_queue: str | None = None,
        **options: Unpack[ChildOptions],
    ) -> Any:
        """Start a child workflow and wait for its result.

        A second call with the same id waits for the same child.

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

    @overload
    @abstractmethod
    async def exec(
        self, workflow: Callable[..., Awaitable[Result]], *args: Any, **options: Unpack[ChildKeywords]
    ) -> Result: ...
    @overload
    @abstractmethod
    async def exec(self, workflow: Callable[..., Result], *args: Any, **options: Unpack[ChildKeywords]) -> Result: ...
    @overload
    @abstractmethod
    async def exec(self, workflow: str, *args: Any, **options: Unpack[ChildKeywords]) -> Any: ...
    @abstractmethod
    async def exec(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> Any:
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

    @overload
    @abstractmethod
    async def spawn(
        self, workflow: Callable[..., Awaitable[Result]], *args: Any, **options: Unpack[ChildKeywords]
    ) -> ChildHandle[Result]: ...
    @overload
    @abstractmethod
    async def spawn(
        self, workflow: Callable[..., Result], *args: Any, **options: Unpack[ChildKeywords]
    ) -> ChildHandle[Result]: ...
    @overload
    @abstractmethod
    async def spawn(self, workflow: str, *args: Any, **options: Unpack[ChildKeywords]) -> ChildHandle[Any]: ...
    @abstractmethod
    async def spawn(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> ChildHandle[Any]:
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
