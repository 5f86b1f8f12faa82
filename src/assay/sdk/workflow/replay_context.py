"""`Context` over the replay loop, for runs of our engines."""

import asyncio
import contextlib
import datetime
import random
import secrets
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, Unpack

from assay.core.model import commands as cmd
from assay.core.model.duration import parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.events import SideEffectRecorded
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND
from assay.core.model.options import check_id, check_text
from assay.core.model.payload import NULL, Payload
from assay.sdk.arguments import check_flag, check_function, check_mapping, check_whole, input_of, optional_id
from assay.sdk.values.annotations import result_annotation
from assay.sdk.values.failures import to_exception, to_info
from assay.sdk.values.search_values import search_values
from assay.sdk.workflow.activity_futures import ActivityFuture
from assay.sdk.workflow.activity_options import ActivityCall, step_retry, with_defaults
from assay.sdk.workflow.carried import Carried
from assay.sdk.workflow.child_options import ChildKeywords, ChildOptions
from assay.sdk.workflow.child_verbs import ChildHandle
from assay.sdk.workflow.concurrency import Duration
from assay.sdk.workflow.context import Done, WorkflowInfo
from assay.sdk.workflow.logger import WorkflowLogger
from assay.sdk.workflow.replay import guard
from assay.sdk.workflow.replay.commands import DEFAULT_VERSION
from assay.sdk.workflow.replay.completion import StepOrder
from assay.sdk.workflow.replay.exceptions import CancelRequested, ContinueAsNewRequested, RetryLater
from assay.sdk.workflow.replay.mailbox import ReceivedMessage
from assay.sdk.workflow.replay.runtime import Execution
from assay.sdk.workflow.replay.waits import outlast
from assay.sdk.workflow.replay_children import Children, ReplayChild
from assay.sdk.workflow.replay_concurrency import Future, ReplayConcurrency
from assay.sdk.workflow.replay_messaging import ReplayMessaging
from assay.sdk.workflow.replay_peers import ReplayPeers
from assay.sdk.workflow.timers import moment
from assay.sdk.workflow.uuids import uuid1, uuid7
from assay.sdk.workflow.versions import check_version

RANDOM_BYTES_LIMIT: Final = 512 * 1024
"""The recorded text has twice the length, and less than the limit of a payload."""


class ReplayContext(ReplayConcurrency, ReplayMessaging, ReplayPeers):
    """`Context` over the replay loop: calls become commands of an `Execution`, outcomes come from its history."""

    def __init__(self, execution: Execution) -> None:
        self._run = execution
        self._reference = weakref.ref(execution)  # weak: an evicted run is freed even if code holds its futures
        self._random: random.Random | None = None
        self._began = execution.commands.time
        self._children = Children(execution)
        self._logger: WorkflowLogger | None = None
        execution.mailbox.convert = _converter(self)

    def _carried(self) -> Carried:
        return Carried.of(self._run.start)

    @property
    def logger(self) -> WorkflowLogger:
        """See `Context.logger`."""
        if self._logger is None:
            self._logger = WorkflowLogger(self._run)
        return self._logger

    @property
    def workflow_id(self) -> str:
        """See `Context.workflow_id`."""
        return self._run.key.workflow_id

    def info(self) -> WorkflowInfo:
        """See `Context.info`."""
        run, start = self._run, self._run.start
        parent = start.parent if start is not None else None
        return WorkflowInfo(
            workflow_id=run.key.workflow_id,
            run_id=run.key.run_id,
            workflow_type=start.workflow_type if start else run.definition.name,
            task_queue=start.task_queue if start else "",
            namespace=run.key.namespace,
            attempt=start.attempt if start else 1,
            history_length=run.commands.history_length,
            history_size=run.commands.history_size,
            first_run_id=start.first_run_id if start else run.key.run_id,
            parent_workflow_id=parent.workflow_id if parent else None,
            parent_run_id=parent.run_id if parent else None,
            start_time=moment(self._began),
            last_completion_result=self._decode(start.last_completion_result, Any, "result") if start else None,
            last_failure=to_exception(start.last_failure) if start and start.last_failure else None,
            scheduled_for=moment(start.scheduled_for) if start and start.scheduled_for else None,
        )

    def now(self) -> datetime.datetime:
        """See `Context.now`."""
        return moment(self._run.commands.time)

    def random(self) -> random.Random:
        """See `Context.random`."""
        if self._random is None:
            self._random = random.Random(self._run.origin)  # noqa: S311  # repeatable on purpose, not for secrets
        return self._random

    def uuid4(self) -> uuid.UUID:
        """See `Context.uuid4`."""
        return uuid.UUID(int=self.random().getrandbits(128), version=4)

    def uuid1(self) -> uuid.UUID:
        """See `Context.uuid1`."""
        return uuid1(self._run.commands.time, self.random())

    def uuid7(self) -> uuid.UUID:
        """See `Context.uuid7`."""
        return uuid7(self._run.commands.time, self.random())

    async def random_bytes(self, count: int) -> bytes:
        """See `Context.random_bytes`."""
        count = check_whole(count, "count", range(RANDOM_BYTES_LIMIT + 1))
        return bytes.fromhex(await self.side_effect("random_bytes", lambda: secrets.token_hex(count)))

    def is_replaying(self) -> bool:
        """See `Context.is_replaying`."""
        return self._run.commands.repeating

    def version(self, change_id: str, min: int, max: int) -> int:
        """See `Context.version`."""
        self._check_alive()
        check_version(change_id, min, max)
        return self._run.commands.version(change_id, min, max)

    def patched(self, change_id: str) -> bool:
        """See `Context.patched`."""
        return self.version(change_id, DEFAULT_VERSION, 1) == 1

    def history_length(self) -> int:
        """See `Context.history_length`."""
        return self._run.commands.history_length

    def history_size(self) -> int:
        """See `Context.history_size`."""
        return self._run.commands.history_size

    async def execute_activity(self, activity: Any, input: Any = None, **options: Any) -> Any:
        """See `Context.execute_activity`."""
        self._check_alive()
        name = self._run.app.name_of(activity, "activity")
        wait = options.pop("wait_for_cancellation", None) if options else None
        future = self._schedule(name, input, options, ActivityFuture)
        if wait is None or not check_flag(wait, "wait_for_cancellation"):
            raw = await future
        else:
            raw = await outlast(future, lambda _: future.request_cancel(), wait=True)
        return self._decode(raw, self._activity_annotation(name), name)

    def _schedule(self, name: str, input: Any, options: Mapping[str, Any], kind: type[Future]) -> Future:
        run, commands = self._run, self._run.commands
        if "args" in options:
            options = {**options}
            input = input_of(input, options.pop("args"))
        else:
            input = input_of(input, None)
        payload = self._encode(input, name)
        shields = run.cancellation.shields
        defaults = run.app.activity_defaults.get(name)
        if defaults is not None:
            options = with_defaults(options, defaults)
        if options or shields:
            call = ActivityCall.of(options, self._own_queue())
            seq = commands.count("activity")
            command = call.command(seq, name, payload, survives=shields > 0)
        else:
            seq = commands.count("activity")
            command = cmd.ScheduleActivity(seq, name, self._own_queue(), payload)
        future = run.loop.create_future(kind)
        future.run, future.seq = self._reference, seq
        run.futures.activities[seq] = future
        run.futures.activity_orders.add(seq, name, command)
        return future

    async def execute_parallel(self, activities: Sequence[Any]) -> list[Any]:
        """See `Context.execute_parallel`."""
        self._check_alive()
        calls = [(self._run.app.name_of(activity, "activity"), *rest) for activity, *rest in map(_item, activities)]
        pending = [(self._schedule(name, input, options, ActivityFuture), name) for name, input, options in calls]
        ended = await asyncio.gather(*(future for future, _ in pending), return_exceptions=True)
        return [
            self._decode(raw, self._activity_annotation(name), "result")
            for raw, (_, name) in zip(_results(ended), pending, strict=True)
        ]

    async def run(self, name: str, function: Any, *args: Any, **options: Any) -> Any:
        """See `Context.run`."""
        self._check_alive()
        name = check_id(name, "step name")
        if not callable(function):
            check_function(function, f"step '{name}'")
        timeout = options.pop("timeout", None)
        limit = None if timeout is None else parse_duration(timeout, "timeout") / SECOND
        retry, attempt = step_retry(options), 1
        digest = self._run.converter.arguments_hash(args)
        while True:
            future = self._run.futures.add_step(StepOrder(name, function, args, retry, limit, attempt, digest))
            try:
                raw = await future
            except RetryLater as later:
                attempt = later.attempt + 1
                await asyncio.sleep(later.delay)
                continue
            return self._decode(raw, result_annotation(function), f"result of step '{name}'")

    async def sleep(self, duration: Duration) -> None:
        """See `Context.sleep`."""
        self._check_alive()
        await asyncio.sleep(parse_duration(duration, "duration") / SECOND)

    async def start_child_workflow(
        self,
        workflow_type: Callable[..., Any] | str,
        *,
        workflow_id: str,
        input: Any = None,
        task_queue: str | None = None,
        **options: Unpack[ChildOptions],
    ) -> Any:
        """See `ChildVerbs.start_child_workflow`."""
        self._check_alive()
        return await self._children.start(workflow_type, workflow_id, input, {**options, "task_queue": task_queue})

    async def exec(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> Any:
        """See `ChildVerbs.exec`."""
        self._check_alive()
        return await self._children.exec(workflow, args, options)

    async def spawn(self, workflow: Any, *args: Any, **options: Unpack[ChildKeywords]) -> ChildHandle[Any]:
        """See `ChildVerbs.spawn`."""
        self._check_alive()
        return ReplayChild(self._children, await self._children.spawn(workflow, args, options), self.send)

    async def side_effect(self, name: str, function: Callable[[], Any]) -> Any:
        """See `Context.side_effect`."""
        self._check_alive()
        run, name = self._run, check_id(name, "side effect name")
        check_function(function, f"side effect '{name}'")
        seq = run.commands.count("side effect")
        echo = run.commands.recorded_side_effect(seq, name)
        if isinstance(echo, SideEffectRecorded):
            raw, failure = echo.value, echo.failure
        else:
            await run.speculation.durable_point()
            raw, failure = self._evaluate(name, function)
            command = cmd.RecordSideEffect(seq, name, raw, failure, resume=False)
            run.commands.order("side effect", seq, name, command)
        if failure is not None:
            raise to_exception(failure)
        return self._decode(raw, result_annotation(function), f"value of side effect '{name}'")

    def _evaluate(self, name: str, function: Callable[[], Any]) -> tuple[Payload, FailureInfo | None]:
        """Return the value of a side effect, or its failure; replayed code receives the same."""
        try:
            with guard.outside():
                value = function()
            if asyncio.iscoroutine(value):
                value.close()
                raise Invalid(f"side effect '{name}' is async, but runs in place: use ctx.run for calls that wait")
            return self._encode(value, f"value of side effect '{name}'"), None
        except Exception as error:  # noqa: BLE001  # recorded, and raised by the caller
            return NULL, to_info(error, source="side effect")

    def register_query(self, name: str, function: Callable[[], Any]) -> None:
        """See `Context.register_query`."""
        name = check_id(name, "query name")
        check_function(function, f"query '{name}'")
        self._run.queries[name] = function

    def upsert_search_attributes(self, attributes: Mapping[str, Any]) -> Done:
        """See `Context.upsert_search_attributes`."""
        return self.attrs(search=attributes)

    def upsert_memo(self, memo: Mapping[str, Any]) -> Done:
        """See `Context.upsert_memo`."""
        return self.attrs(memo=memo)

    def attrs(self, *, search: Mapping[str, Any] | None = None, memo: Mapping[str, Any] | None = None) -> Done:
        """See `Context.attrs`."""
        if search is None and memo is None:
            raise Invalid("attrs needs search= or memo=", field="search")
        found = NULL if search is None else self._object(search_values(search), "search_attributes")
        return self._upsert(cmd.UpsertAttributes(found, NULL if memo is None else self._object(memo, "memo")))

    def _object(self, value: Mapping[str, Any], name: str) -> Payload:
        return self._encode(dict(check_mapping(value, name)), name)

    def _upsert(self, command: cmd.UpsertAttributes) -> Done:
        self._check_alive()
        commands = self._run.commands
        commands.order("attributes", commands.count("attributes"), "", command)
        return Done()

    def continue_as_new(
        self,
        *args: Any,
        input: Any = None,
        type: Callable[..., Any] | str | None = None,
        workflow_type: Callable[..., Any] | str | None = None,
        task_queue: str | None = None,
    ) -> NoReturn:
        """See `Context.continue_as_new`."""
        self._check_alive()
        payload = self._encode(input_of(input, args or None), "input")
        wanted = workflow_type if type is None else type
        name = None if wanted is None else self._run.app.name_of(wanted)
        error = ContinueAsNewRequested(cmd.ContinueAsNew(payload, name, optional_id(task_queue, "task_queue")))
        self._run.cancellation.end_by(error)
        raise error

    def cancel(self, reason: str | None = None) -> NoReturn:
        """See `Context.cancel`."""
        reason = check_text(reason, "reason")
        cancellation = self._run.cancellation
        cancellation.by_code, cancellation.reason = True, reason
        error = CancelRequested(reason)
        cancellation.end_by(error)
        raise error

    @contextlib.contextmanager
    def shield(self) -> Iterator[None]:
        """See `Context.shield`."""
        cancellation = self._run.cancellation
        cancellation.shields += 1
        try:
            yield
        finally:
            cancellation.lower_shield()

    def _own_queue(self) -> str:
        start = self._run.start
        return start.task_queue if start is not None else "default"

    def _check_alive(self) -> None:
        if self._run.loop.leaving:
            raise RuntimeError("this run was evicted from its worker: its code can order nothing more")

    def _encode(self, value: Any, name: str) -> Payload:
        if value is None:
            return NULL
        return Payload(self._run.converter.encode(value, name=name))

    def _decode(self, raw: Payload, annotation: Any, name: str) -> Any:
        return self._run.converter.decode(raw, annotation, name=name)

    def _activity_annotation(self, name: str) -> Any:
        known = self._run.app.activities.get(name)
        return Any if known is None else known.signature.result_annotation

    def _workflow_annotation(self, name: str) -> Any:
        known = self._run.app.workflows.get(name)
        return Any if known is None else known.signature.result_annotation


def _converter(context: ReplayContext) -> Callable[..., Any]:
    """Return the conversion of messages, with weak references: an evicted run is freed at once."""
    reference, run = weakref.ref(context), context._reference

    def convert(item: ReceivedMessage, *, as_message: bool) -> Any:
        found, execution = reference(), run()
        if found is None and execution is not None:
            found = ReplayContext(execution)
        return None if found is None else found._converted(item, as_message=as_message)

    return convert


def _item(item: Any) -> tuple[Any, Any, Mapping[str, Any]]:
    if isinstance(item, Mapping) and "name" in item:
        return item["name"], item.get("input"), check_mapping(item.get("opts") or {}, "opts")
    if isinstance(item, Sequence) and not isinstance(item, str) and len(item) in (2, 3):
        activity, input, *rest = item
        return activity, input, check_mapping(rest[0], "opts") if rest else {}
    raise Invalid("an item of execute_parallel is {'name', 'input', 'opts'} or (activity, input)", field="activities")


def _results(ended: Sequence[Payload | BaseException]) -> list[Payload]:
    """Return all results, or raise the first error among them."""
    results = []
    for outcome in ended:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
