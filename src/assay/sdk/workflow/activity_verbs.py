"""The verbs of `ctx` for activities: typed by the activity's function, its input and its result."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, Unpack, overload

from assay.sdk.workflow.activity_context import ActivityContext
from assay.sdk.workflow.activity_options import ActivityKeywords

Input = TypeVar("Input")
Result = TypeVar("Result")


class ActivityVerbs(ABC):
    """The part of `Context` that runs activities.

    The function of an activity has a `ctx` or none, an input, none or several parameters (`args=`); it is `async def`
    or `def`. A type checker compares the input with the function's parameter, and the call has the function's result.
    """

    @overload
    @abstractmethod
    async def execute_activity(
        self,
        activity: Callable[[ActivityContext, Input], Awaitable[Result]],
        input: Input,
        **options: Unpack[ActivityKeywords],
    ) -> Result: ...
    @overload
    @abstractmethod
    async def execute_activity(
        self, activity: Callable[[ActivityContext], Awaitable[Result]], **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    @abstractmethod
    async def execute_activity(
        self, activity: Callable[[Input], Awaitable[Result]], input: Input, **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    @abstractmethod
    async def execute_activity(
        self, activity: Callable[[], Awaitable[Result]], **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    @abstractmethod
    async def execute_activity(
        self, activity: Callable[[ActivityContext, Input], Result], input: Input, **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    @abstractmethod
    async def execute_activity(
        self, activity: Callable[[ActivityContext], Result], **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    @abstractmethod
    async def execute_activity(
        self, activity: Callable[[Input], Result], input: Input, **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    @abstractmethod
    async def execute_activity(self, activity: Callable[[], Result], **options: Unpack[ActivityKeywords]) -> Result: ...
    @overload
    @abstractmethod
    async def execute_activity(
        self, activity: Callable[..., Awaitable[Result]], *, args: Sequence[Any], **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    @abstractmethod
    async def execute_activity(
        self, activity: Callable[..., Result], *, args: Sequence[Any], **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    @abstractmethod
    async def execute_activity(
        self,
        activity: str,
        input: Any = None,
        *,
        args: Sequence[Any] | None = None,
        **options: Unpack[ActivityKeywords],
    ) -> Any: ...
    @abstractmethod
    async def execute_activity(self, activity: Any, input: Any = None, **options: Any) -> Any:
        """Run an activity on a worker of its queue and wait for its result.

        Args:
            activity: The activity, or its name.
            input: The activity's input.
            **options: See `ActivityKeywords`; `args` has the arguments of an activity with several parameters.

        Returns:
            The activity's result, decoded by its annotation.

        Raises:
            ActivityError: The activity failed for good.
            Invalid: An option is unknown or malformed.
        """

    @abstractmethod
    async def execute_parallel(self, activities: Sequence[Any]) -> list[Any]:
        """Run several activities at once and wait until all of them have ended.

        Args:
            activities: Items `{"name", "input", "opts"}` or `(activity, input)`.

        Returns:
            The results, in the order of the items.

        Raises:
            ActivityError: An activity failed; of several, the first in the order of the items.
            Invalid: An item is malformed.
        """
