"""The `ctx` of a `def` workflow: the operations of `Context`, and each call blocks until its outcome is there."""

import datetime
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, TypeVar, overload

from assay.sdk.workflow.context import Context, Duration, WorkflowInfo
from assay.sdk.workflow.logger import WorkflowLogger
from assay.sdk.workflow.replay.blocking import wait

Result = TypeVar("Result")


class BlockingContext:
    """`Context` without `await`: greenlets wait for the calls of any `Context`, so engines implement only that one."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def logger(self) -> WorkflowLogger:
        """A logger that is silent on replay."""
        return self._context.logger

    @property
    def workflow_id(self) -> str:
        """The run's workflow id."""
        return self._context.workflow_id

    def info(self) -> WorkflowInfo:
        """See `Context.info`."""
        return self._context.info()

    def now(self) -> datetime.datetime:
        """See `Context.now`."""
        return self._context.now()

    def random(self) -> random.Random:
        """See `Context.random`."""
        return self._context.random()

    def uuid4(self) -> uuid.UUID:
        """See `Context.uuid4`."""
        return self._context.uuid4()

    def is_replaying(self) -> bool:
        """See `Context.is_replaying`."""
        return self._context.is_replaying()

    def history_length(self) -> int:
        """See `Context.history_length`."""
        return self._context.history_length()

    def history_size(self) -> int:
        """See `Context.history_size`."""
        return self._context.history_size()

    @overload
    def execute_activity(self, activity: Callable[..., Result], input: Any = None, **options: Any) -> Result: ...
    @overload
    def execute_activity(self, activity: str, input: Any = None, **options: Any) -> Any: ...

    def execute_activity(self, activity: Any, input: Any = None, **options: Any) -> Any:
        """See `Context.execute_activity`."""
        return wait(self._context.execute_activity(activity, input, **options))

    def execute_parallel(self, activities: Sequence[Any]) -> list[Any]:
        """See `Context.execute_parallel`."""
        return wait(self._context.execute_parallel(activities))

    def run(self, name: str, function: Callable[..., Result], *args: Any, **options: Any) -> Result:
        """See `Context.run`."""
        return wait(self._context.run(name, function, *args, **options))

    def sleep(self, duration: Duration) -> None:
        """See `Context.sleep`."""
        wait(self._context.sleep(duration))

    def wait_for_signal(
        self, name: str, timeout: Duration | None = None, *, type: Any = Any, default: Any = None
    ) -> Any:
        """See `Context.wait_for_signal`."""
        return wait(self._context.wait_for_signal(name, timeout, type=type, default=default))

    def start_child_workflow(
        self, workflow_type: Callable[..., Any] | str, *, workflow_id: str, input: Any = None, **options: Any
    ) -> Any:
        """See `Context.start_child_workflow`."""
        return wait(self._context.start_child_workflow(workflow_type, workflow_id=workflow_id, input=input, **options))

    def side_effect(self, name: str, function: Callable[[], Result]) -> Result:
        """See `Context.side_effect`."""
        return wait(self._context.side_effect(name, function))

    def register_query(self, name: str, function: Callable[[], Any]) -> None:
        """See `Context.register_query`."""
        self._context.register_query(name, function)

    def upsert_search_attributes(self, attributes: Mapping[str, Any]) -> None:
        """See `Context.upsert_search_attributes`."""
        self._context.upsert_search_attributes(attributes)

    def upsert_memo(self, memo: Mapping[str, Any]) -> None:
        """See `Context.upsert_memo`."""
        self._context.upsert_memo(memo)

    def continue_as_new(
        self,
        input: Any = None,
        *,
        workflow_type: Callable[..., Any] | str | None = None,
        task_queue: str | None = None,
    ) -> NoReturn:
        """See `Context.continue_as_new`."""
        self._context.continue_as_new(input, workflow_type=workflow_type, task_queue=task_queue)

    def cancel(self, reason: str | None = None) -> NoReturn:
        """See `Context.cancel`."""
        self._context.cancel(reason)

    def shield(self) -> AbstractContextManager[None]:
        """See `Context.shield`."""
        return self._context.shield()
