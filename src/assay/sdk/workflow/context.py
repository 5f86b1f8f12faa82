"""The `ctx` of workflow code: each durable operation of a run, for `async def` handlers.

A call is replay-safe: the engine records its outcome once, and replayed code receives the recorded outcome. `Context`
is the class for annotations and the interface that engines implement; `replay_context` implements it over our replay
loop.
"""

import datetime
import random
import uuid
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NoReturn, TypeVar, overload

import msgspec

from assay.core.model.errors import Failure
from assay.sdk.spawner import Building, Spawner
from assay.sdk.workflow.activity_verbs import ActivityVerbs
from assay.sdk.workflow.carried import CarriedValues
from assay.sdk.workflow.child_verbs import ChildVerbs
from assay.sdk.workflow.concurrency import Concurrency, Duration
from assay.sdk.workflow.logger import WorkflowLogger
from assay.sdk.workflow.messaging import Messaging
from assay.sdk.workflow.peer_verbs import PeerVerbs

Result = TypeVar("Result")


class WorkflowInfo(msgspec.Struct, frozen=True):
    """Identity of a run, and the length of its history."""

    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    namespace: str
    attempt: int
    history_length: int
    history_size: int
    first_run_id: str
    parent_workflow_id: str | None
    parent_run_id: str | None
    start_time: datetime.datetime
    scheduled_for: datetime.datetime | None = None
    last_completion_result: Any = None
    """The result of the last completed run of a cron chain."""
    last_failure: Failure | None = None
    """The failure of the previous run of a cron chain, if it failed."""


class Done:
    """The awaitable result of an operation that is complete when called; `await` is allowed and has no effect."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class Context(ActivityVerbs, ChildVerbs, PeerVerbs, Concurrency, Messaging, CarriedValues, Building):
    """The `ctx` of an `async def` workflow."""

    def _spawner(self) -> Spawner:
        return Spawner(self)

    @property
    @abstractmethod
    def logger(self) -> WorkflowLogger:
        """Return a logger that is silent on replay."""

    @property
    @abstractmethod
    def workflow_id(self) -> str:
        """Return the run's workflow id."""

    @abstractmethod
    def info(self) -> WorkflowInfo:
        """Return facts about this run.

        Returns:
            The ids of the run and its parent, its type, queue and attempt, and the length of its history.
        """

    @abstractmethod
    def now(self) -> datetime.datetime:
        """Return the time of the last event that the code has received; constant while the code runs.

        Returns:
            The time, in UTC.
        """

    @abstractmethod
    def random(self) -> random.Random:
        """Return a random source with the same numbers on every replay.

        Returns:
            A generator that is seeded by the run's id.
        """

    @abstractmethod
    def uuid4(self) -> uuid.UUID:
        """Return a random UUID, the same on every replay.

        Returns:
            The UUID.
        """

    @abstractmethod
    def uuid1(self) -> uuid.UUID:
        """Return a UUID of the run's time, the same on every replay.

        Returns:
            The UUID, of version 1.
        """

    @abstractmethod
    def uuid7(self) -> uuid.UUID:
        """Return a UUID that begins with the run's time, the same on every replay.

        Returns:
            The UUID, of version 7.
        """

    @abstractmethod
    async def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes, for keys and secrets; recorded once, and the same on every replay.

        Args:
            count: How many bytes.

        Returns:
            The bytes.

        Raises:
            Invalid: The count is negative or too large.
        """

    @abstractmethod
    def is_replaying(self) -> bool:
        """Return True while the code runs over recorded events.

        Returns:
            Whether the current call is replayed.
        """

    @abstractmethod
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

    @abstractmethod
    def patched(self, change_id: str) -> bool:
        """Return True if this run has a change; the same as `version(change_id, DEFAULT_VERSION, 1) == 1`.

        Args:
            change_id: The name of the change.

        Returns:
            False for runs that had passed this point before the call existed.
        """

    @abstractmethod
    def history_length(self) -> int:
        """Return the number of events so far; continue as new above 10,000.

        Returns:
            The number of events.
        """

    @abstractmethod
    def history_size(self) -> int:
        """Return the size of the inputs in this run's history so far.

        Returns:
            The size in bytes.
        """

    @overload
    @abstractmethod
    async def run(
        self, name: str, function: Callable[..., Awaitable[Result]], *args: Any, **options: Any
    ) -> Result: ...
    @overload
    @abstractmethod
    async def run(self, name: str, function: Callable[..., Result], *args: Any, **options: Any) -> Result: ...
    @abstractmethod
    async def run(self, name: str, function: Any, *args: Any, **options: Any) -> Any:
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

    @abstractmethod
    async def sleep(self, duration: Duration) -> None:
        """Wait for a duration; the timer survives crashes and restarts.

        Args:
            duration: Seconds, a timedelta or a text such as "1h30m".
        """

    @abstractmethod
    async def wait_for_signal(
        self,
        name: str,
        timeout: Duration | None = None,  # noqa: ASYNC109  # a durable timer, not a time-out of asyncio
        *,
        type: Any = Any,
        default: Any = None,
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

    @overload
    @abstractmethod
    async def side_effect(self, name: str, function: Callable[[], Awaitable[Result]]) -> Result: ...
    @overload
    @abstractmethod
    async def side_effect(self, name: str, function: Callable[[], Result]) -> Result: ...
    @abstractmethod
    async def side_effect(self, name: str, function: Callable[[], Any]) -> Any:
        """Call a function once and return the recorded value on every replay; for ids, times, random values.

        Args:
            name: The side effect's name in the history.
            function: The function, called in place; it must not wait.

        Returns:
            The function's result, as recorded.

        Raises:
            Failure: The function raised; recorded, and raised again on every replay.
        """

    @abstractmethod
    def register_query(self, name: str, function: Callable[[], Any]) -> None:
        """Register a query, whose answer callers read with `get_state` or `query`.

        Args:
            name: The query's name.
            function: Returns the answer; evaluated whenever the code has run.
        """

    @abstractmethod
    def attrs(self, *, search: Mapping[str, Any] | None = None, memo: Mapping[str, Any] | None = None) -> Done:
        """Merge search attributes and memo by key, in one step.

        Args:
            search: Values by which runs can be listed: texts, numbers, bools, datetimes, lists of texts.
            memo: Values that are shown with the run; any JSON. None removes a key, here and in `search`.

        Returns:
            An awaitable without effect.

        Raises:
            Invalid: Neither part is given, or a value or key is of another type.
        """

    @abstractmethod
    def upsert_search_attributes(self, attributes: Mapping[str, Any]) -> Done:
        """Merge search attributes by key.

        Args:
            attributes: Texts, numbers, bools, datetimes or lists of texts; None removes a key.

        Returns:
            An awaitable without effect.

        Raises:
            Invalid: A value or key is of another type.
        """

    @abstractmethod
    def upsert_memo(self, memo: Mapping[str, Any]) -> Done:
        """Merge the memo by key.

        Args:
            memo: The values; None removes a key.

        Returns:
            An awaitable without effect.
        """

    @abstractmethod
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

    @abstractmethod
    def cancel(self, reason: str | None = None) -> NoReturn:
        """End this run as CANCELLED.

        Args:
            reason: The reason, which is recorded.

        Raises:
            CancelRequested: Always; let it pass.
        """

    @abstractmethod
    def shield(self) -> AbstractContextManager[None]:
        """Defer a cancel request until the block is done; for clean-up that must not be interrupted.

        Returns:
            A context manager.
        """


Ctx = Context
"""The same, as a shorter name for annotations."""
