"""The verbs of a client that start a workflow: typed by the workflow's function, its input and its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from assay.sdk.client.handle import Handle
from assay.sdk.client.start_options import StartKeywords, the_workflow

if TYPE_CHECKING:
    from assay.sdk.workflow.blocking_context import BlockingContext
    from assay.sdk.workflow.context import Context

Input = TypeVar("Input")
Result = TypeVar("Result")


class StartVerbs(ABC):
    """The part of `Client` that starts workflows.

    The function of a workflow has a `ctx` or none, an input or none, or several parameters (`args=`); it is `async def`
    or `def`. A type checker compares the input with the function's parameter, and the call has the function's result.
    """

    @abstractmethod
    async def _start(
        self, workflow: Callable[..., Any] | str, workflow_id: str | None, input: Any, options: Mapping[str, Any]
    ) -> Handle[Any]:
        """Start a workflow whose arguments are in place."""

    @abstractmethod
    async def _run(
        self, workflow: Callable[..., Any] | str, workflow_id: str | None, input: Any, options: dict[str, Any]
    ) -> Any:
        """Start a workflow whose arguments are in place, and wait for its result."""

    @overload
    async def start(
        self,
        workflow: Callable[[Context, Input], Awaitable[Result]],
        input: Input,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Result]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[Context], Awaitable[Result]],
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Result]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[Input], Awaitable[Result]],
        input: Input,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Result]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[], Awaitable[Result]],
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Result]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[BlockingContext, Input], Result],
        input: Input,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Result]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[BlockingContext], Result],
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Result]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[Input], Result],
        input: Input,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Result]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[], Result],
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Result]: ...
    @overload
    async def start(
        self,
        workflow: Callable[..., Awaitable[Result]],
        input: None = None,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Result]: ...
    @overload
    async def start(
        self,
        workflow: Callable[..., Result],
        input: None = None,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Result]: ...
    @overload
    async def start(
        self,
        workflow: str,
        input: Any = None,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Any]: ...
    @overload
    async def start(
        self,
        *,
        workflow_type: Callable[..., Any] | str,
        input: Any = None,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Handle[Any]: ...

    async def start(
        self,
        workflow: Callable[..., Any] | str | None = None,
        input: Any = None,
        *misplaced: Any,
        workflow_id: str | None = None,
        workflow_type: Callable[..., Any] | str | None = None,
        **options: Any,
    ) -> Handle[Any]:
        """Start a workflow and return without waiting for its end.

        Args:
            workflow: The workflow function, or its registered name.
            input: The workflow's input; any JSON value, dataclass or model.
            *misplaced: Refused, so that an id given by position is not taken for an option.
            workflow_id: The workflow id; generated unless given.
            workflow_type: Another name of the first parameter.
            **options: See `StartKeywords`.

        Returns:
            A handle of the run; its `started` is False if the start attached to an open run.

        Raises:
            AlreadyExists: The id has an open run, or its policies refuse another run.
            Invalid: An argument is malformed.
            TypeError: A start has no option of this name.
        """
        wanted = the_workflow("start", workflow, workflow_type or options.get("type"), misplaced)
        return await self._start(wanted, workflow_id, input, options)

    @overload
    async def run(
        self,
        workflow: Callable[[Context, Input], Awaitable[Result]],
        input: Input,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Result: ...
    @overload
    async def run(
        self,
        workflow: Callable[[Context], Awaitable[Result]],
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Result: ...
    @overload
    async def run(
        self,
        workflow: Callable[[Input], Awaitable[Result]],
        input: Input,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Result: ...
    @overload
    async def run(
        self,
        workflow: Callable[[], Awaitable[Result]],
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Result: ...
    @overload
    async def run(
        self,
        workflow: Callable[[BlockingContext, Input], Result],
        input: Input,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Result: ...
    @overload
    async def run(
        self,
        workflow: Callable[[BlockingContext], Result],
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Result: ...
    @overload
    async def run(
        self,
        workflow: Callable[[Input], Result],
        input: Input,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Result: ...
    @overload
    async def run(
        self,
        workflow: Callable[[], Result],
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Result: ...
    @overload
    async def run(
        self,
        workflow: Callable[..., Awaitable[Result]],
        input: None = None,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Result: ...
    @overload
    async def run(
        self,
        workflow: Callable[..., Result],
        input: None = None,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Result: ...
    @overload
    async def run(
        self,
        workflow: str,
        input: Any = None,
        *,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Any: ...
    @overload
    async def run(
        self,
        *,
        workflow_type: Callable[..., Any] | str,
        input: Any = None,
        workflow_id: str | None = None,
        **options: Unpack[StartKeywords],
    ) -> Any: ...

    async def run(
        self,
        workflow: Callable[..., Any] | str | None = None,
        input: Any = None,
        *misplaced: Any,
        workflow_id: str | None = None,
        workflow_type: Callable[..., Any] | str | None = None,
        **options: Any,
    ) -> Any:
        """Start a workflow and wait for its result.

        With an explicit id the call is idempotent: it attaches to an open run, returns the recorded result of a
        completed run, and starts a new run after any other end. An explicit `id_reuse_policy` decides instead. A
        different input than the recorded one is logged as a warning.

        An embedded engine is also served: if no worker serves the queue, one runs until this client closes.

        Args:
            workflow: The workflow function, or its registered name.
            input: The workflow's input.
            *misplaced: Refused, so that an id given by position is not taken for an option.
            workflow_id: The workflow id; generated unless given.
            workflow_type: Another name of the first parameter.
            **options: See `StartKeywords`.

        Returns:
            The result, decoded by the return annotation of the workflow function.

        Raises:
            WorkflowFailed: The workflow failed; `WorkflowCancelled`, `WorkflowTerminated` and `WorkflowTimedOut`
                likewise.
            AlreadyExists: The id belongs to a run of another workflow type, or its policies refuse another run.
        """
        wanted = the_workflow("run", workflow, workflow_type or options.get("type"), misplaced)
        return await self._run(wanted, workflow_id, input, options)
