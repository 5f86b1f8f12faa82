"""The `ctx` of a `def` workflow: the operations of `Context`; each call blocks until its outcome is recorded."""

import datetime
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, TypeVar, Unpack, overload

from assay.sdk.spawner import Building, Spawner
from assay.sdk.workflow.activity_context import ActivityContext
from assay.sdk.workflow.activity_options import ActivityKeywords
from assay.sdk.workflow.blocking_children import BlockingChildVerbs
from assay.sdk.workflow.blocking_concurrency import BlockingConcurrency
from assay.sdk.workflow.blocking_messaging import BlockingMessaging
from assay.sdk.workflow.blocking_peers import BlockingPeerVerbs
from assay.sdk.workflow.carried import Carried, CarriedValues
from assay.sdk.workflow.concurrency import Duration
from assay.sdk.workflow.context import Context, WorkflowInfo
from assay.sdk.workflow.logger import WorkflowLogger
from assay.sdk.workflow.replay.blocking import wait

Input = TypeVar("Input")
Result = TypeVar("Result")


class BlockingContext(
    BlockingChildVerbs, BlockingPeerVerbs, BlockingConcurrency, BlockingMessaging, CarriedValues, Building
):
    """The `ctx` of a `def` workflow: `Context` without `await`.

    A greenlet waits for the calls of any `Context`, so engines implement only the asynchronous class.

    Args:
        context: The context of the run.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def _spawner(self) -> Spawner:
        return Spawner(self)

    def _carried(self) -> Carried:
        return self._context._carried()

    @property
    def logger(self) -> WorkflowLogger:
        """Return a logger that is silent on replay."""
        return self._context.logger

    @property
    def workflow_id(self) -> str:
        """Return the run's workflow id."""
        return self._context.workflow_id

    def info(self) -> WorkflowInfo:
        """Return facts about this run.

        Returns:
            The ids of the run and its parent, its type, queue and attempt, and the length of its history.
        """
        return self._context.info()

    def now(self) -> datetime.datetime:
        """Return the time of the last event that the code has received; constant while the code runs.

        Returns:
            The time, in UTC.
        """
        return self._context.now()

    def random(self) -> random.Random:
        """Return a random source with the same numbers on every replay.

        Returns:
            A generator that is seeded by the run's id.
        """
        return self._context.random()

    def uuid4(self) -> uuid.UUID:
        """Return a random UUID, the same on every replay.

        Returns:
            The UUID.
        """
        return self._context.uuid4()

    def uuid1(self) -> uuid.UUID:
        """Return a UUID of the run's time, the same on every replay.

        Returns:
            The UUID, of version 1.
        """
        return self._context.uuid1()

    def uuid7(self) -> uuid.UUID:
        """Return a UUID that begins with the run's time, the same on every replay.

        Returns:
            The UUID, of version 7.
        """
        return self._context.uuid7()

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes, for keys and secrets; recorded once, and the same on every replay.

        Args:
            count: How many bytes.

        Returns:
            The bytes.

        Raises:
            Invalid: The count is negative or too large.
        """
        return wait(self._context.random_bytes(count))

    def is_replaying(self) -> bool:
        """Return True while the code runs over recorded events.

        Returns:
            Whether the current call is replayed.
        """
        return self._context.is_replaying()

    def version(self, change_id: str, min: int, max: int) -> int:
        """Return the version of a change that this run has, fixed for the rest of the run.

        A run that reaches the call for the first time records `max`. A run that had passed this point before the call
        existed has `DEFAULT_VERSION`, which is -1 and never recorded.

        Args:
            change_id: The name of the change.
            min: The oldest version that the code supports, at least -1.
            max: The newest version, which new runs receive.

        Returns:
            The version.

        Raises:
            Invalid: The change id is empty, or `min` is greater than `max`.
            UnsupportedVersion: The run's version is outside of the range; the task fails, and the run stays open.
        """
        return self._context.version(change_id, min, max)

    def patched(self, change_id: str) -> bool:
        """Return True if this run has a change; the same as `version(change_id, DEFAULT_VERSION, 1) == 1`.

        Args:
            change_id: The name of the change.

        Returns:
            False for runs that had passed this point before the call existed.
        """
        return self._context.patched(change_id)

    def history_length(self) -> int:
        """Return the number of events so far; continue as new above 10,000.

        Returns:
            The number of events.
        """
        return self._context.history_length()

    def history_size(self) -> int:
        """Return the size of the inputs in this run's history so far.

        Returns:
            The size in bytes.
        """
        return self._context.history_size()

    @overload
    def execute_activity(
        self,
        activity: Callable[[ActivityContext, Input], Awaitable[Result]],
        input: Input,
        **options: Unpack[ActivityKeywords],
    ) -> Result: ...
    @overload
    def execute_activity(
        self, activity: Callable[[ActivityContext], Awaitable[Result]], **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    def execute_activity(
        self, activity: Callable[[Input], Awaitable[Result]], input: Input, **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    def execute_activity(
        self, activity: Callable[[], Awaitable[Result]], **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    def execute_activity(
        self, activity: Callable[[ActivityContext, Input], Result], input: Input, **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    def execute_activity(
        self, activity: Callable[[ActivityContext], Result], **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    def execute_activity(
        self, activity: Callable[[Input], Result], input: Input, **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    def execute_activity(self, activity: Callable[[], Result], **options: Unpack[ActivityKeywords]) -> Result: ...
    @overload
    def execute_activity(
        self, activity: Callable[..., Awaitable[Result]], *, args: Sequence[Any], **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    def execute_activity(
        self, activity: Callable[..., Result], *, args: Sequence[Any], **options: Unpack[ActivityKeywords]
    ) -> Result: ...
    @overload
    def execute_activity(
        self,
        activity: str,
        input: Any = None,
        *,
        args: Sequence[Any] | None = None,
        **options: Unpack[ActivityKeywords],
    ) -> Any: ...

    def execute_activity(self, activity: Any, input: Any = None, **options: Any) -> Any:
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
        return wait(self._context.execute_activity(activity, input, **options))

    def execute_parallel(self, activities: Sequence[Any]) -> list[Any]:
        """Run several activities at once and wait until all of them have ended.

        Args:
            activities: Items `{"name", "input", "opts"}` or `(activity, input)`.

        Returns:
            The results, in the order of the items.

        Raises:
            ActivityError: An activity failed; of several, the first in the order of the items.
            Invalid: An item is malformed.
        """
        return wait(self._context.execute_parallel(activities))

    def run(self, name: str, function: Callable[..., Result], *args: Any, **options: Any) -> Result:
        """Run a function as a durable step in this worker: its result is recorded before the code continues.

        A step runs at least once: a crash between the step and its record repeats it.

        Args:
            name: The step's name in the history.
            function: The function to call.
            *args: Its arguments.
            **options: A retry policy (`retry=Retry(...)`, `max_attempts=...`), and `timeout` in seconds per attempt.

        Returns:
            The function's result, as recorded.

        Raises:
            ActivityError: The step failed for good.
        """
        return wait(self._context.run(name, function, *args, **options))

    def sleep(self, duration: Duration) -> None:
        """Wait for a duration; the timer survives crashes and restarts.

        Args:
            duration: Seconds, a timedelta or a text such as "1h30m".
        """
        wait(self._context.sleep(duration))

    def wait_for_signal(
        self, name: str, timeout: Duration | None = None, *, type: Any = Any, default: Any = None
    ) -> Any:
        """Wait for the next signal of a name.

        Args:
            name: The signal's name.
            timeout: The longest wait; no limit unless given.
            type: The type to decode the payload as.
            default: The result when `timeout` passes first. A value of your own distinguishes a time-out from a signal
                without a payload, which is None.

        Returns:
            The signal's payload, or `default`.
        """
        return wait(self._context.wait_for_signal(name, timeout, type=type, default=default))

    def side_effect(self, name: str, function: Callable[[], Result]) -> Result:
        """Call a function once and return the recorded value on every replay; for ids, times, random values.

        Args:
            name: The side effect's name in the history.
            function: The function, called in place; it must not wait.

        Returns:
            The function's result, as recorded.

        Raises:
            Failure: The function raised; recorded, and raised again on every replay.
        """
        return wait(self._context.side_effect(name, function))

    def register_query(self, name: str, function: Callable[[], Any]) -> None:
        """Register a query, whose answer callers read with `get_state` or `query`.

        Args:
            name: The query's name.
            function: Returns the answer; evaluated whenever the code has run.
        """
        self._context.register_query(name, function)

    def attrs(self, *, search: Mapping[str, Any] | None = None, memo: Mapping[str, Any] | None = None) -> None:
        """Merge search attributes and memo by key, in one step.

        Args:
            search: Values by which runs can be listed: texts, numbers, bools, datetimes, lists of texts.
            memo: Values that are shown with the run; any JSON. None removes a key, here and in `search`.

        Raises:
            Invalid: Neither part is given, or a value or key is of another type.
        """
        self._context.attrs(search=search, memo=memo)

    def upsert_search_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Merge search attributes by key.

        Args:
            attributes: The values; None removes a key.
        """
        self._context.upsert_search_attributes(attributes)

    def upsert_memo(self, memo: Mapping[str, Any]) -> None:
        """Merge the memo by key.

        Args:
            memo: The values; None removes a key.
        """
        self._context.upsert_memo(memo)

    def continue_as_new(
        self,
        *args: Any,
        input: Any = None,
        type: Callable[..., Any] | str | None = None,
        workflow_type: Callable[..., Any] | str | None = None,
        task_queue: str | None = None,
    ) -> NoReturn:
        """End this run and begin the next under the same id with an empty history; unread signals are carried over.

        Args:
            *args: The next run's input, or its several arguments; null without any.
            input: The next run's input, by keyword.
            type: The next run's workflow; the same unless given.
            workflow_type: Another name of `type`.
            task_queue: The next run's queue; the same unless given.
        """
        wanted = workflow_type if type is None else type
        self._context.continue_as_new(*args, input=input, type=wanted, task_queue=task_queue)

    def cancel(self, reason: str | None = None) -> NoReturn:
        """End this run as CANCELLED.

        Args:
            reason: The reason, which is recorded.

        Raises:
            CancelRequested: Always; let it pass.
        """
        self._context.cancel(reason)

    def shield(self) -> AbstractContextManager[None]:
        """Defer a cancel request until the block is done; for clean-up that must not be interrupted.

        Returns:
            A context manager.
        """
        return self._context.shield()
