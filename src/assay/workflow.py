"""Durable workflows in plain functions: register handlers, serve them, start and watch runs. Every call blocks.

    from assay import workflow

    @workflow.define
    async def Greet(ctx, name): ...

    workflow.connect("sqlite://app.db")
    print(workflow.run(Greet, "Ada"))

Programs with an event loop use `assay.Client` and `assay.Worker`, which have the same names.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar, Unpack, overload

from assay.core.model.errors import Invalid
from assay.sdk.client.absent import KEEP_INPUT
from assay.sdk.client.blocking_messages import BlockingMessages
from assay.sdk.client.blocking_registry import BlockingNamespaces, BlockingQueues, BlockingWorkers
from assay.sdk.client.blocking_schedules import BlockingSchedules
from assay.sdk.default_app import DEFAULT_APP

if TYPE_CHECKING:
    from assay.core.model.duration import Duration
    from assay.sdk.client.blocking import BlockingClient
    from assay.sdk.client.client import Client
    from assay.sdk.client.reading import Events, ListFilters, Runs
    from assay.sdk.client.records import QueryRecord, RetryRecord, StartRecord, StateRecord, WorkflowRecord
    from assay.sdk.client.run_lists import AsyncRunList, BlockingRunList
    from assay.sdk.client.start_options import StartKeywords

__all__ = [
    "activity", "cancel", "close", "connect", "continue_as_new", "define", "describe", "exec", "get_events",
    "get_state", "list", "list_children", "list_runs", "listen", "namespaces", "query", "queues", "result",
    "retry", "run", "schedules", "send", "session", "signal", "spawn", "start", "terminate", "update", "workers",
]  # fmt: skip

Result = TypeVar("Result")
_making: Final = threading.Lock()
_made: BlockingClient | None = None

define: Final = DEFAULT_APP.workflow
"""Register a workflow: `@define`, `@define(name="X")` or `define("X", function)`."""
activity: Final = DEFAULT_APP.activity
"""Register an activity: `@activity`, `@activity(name="X")` or `activity("X", function)`."""


def _blocking_client() -> BlockingClient:
    """Return the blocking client of this program; created on first use, so that an import alone starts nothing."""
    global _made
    with _making:
        if _made is None:
            from assay.sdk.client.blocking import BlockingClient

            _made = BlockingClient(DEFAULT_APP)
        return _made


schedules: Final = BlockingSchedules(_blocking_client)
"""Schedules: runs that start at the times of a cron expression."""

namespaces: Final = BlockingNamespaces(_blocking_client)
"""Namespaces: separate spaces of ids and queues."""

workers: Final = BlockingWorkers(_blocking_client)
"""Workers of the engine."""

_messages: Final = BlockingMessages(_blocking_client)
spawn: Final = _messages.spawn
exec: Final = _messages.exec
signal: Final = _messages.signal
update: Final = _messages.update
send: Final = _messages.send
session: Final = _messages.session

queues: Final = BlockingQueues(_blocking_client)
"""Task queues of the engine, with their pending work."""


def connect(
    url: str | None = None, token: str | None = None, namespace: str = "main", timeout: Duration = 30.0
) -> None:
    """Connect to an engine, or start one in this process: `http://…`, `sqlite://app.db`, `postgres://…`.

    Args:
        url: The engine's URL; the value of ASSAY_ENGINE_URL unless given. Several HTTP URLs, separated by commas, are
            tried in order.
        token: The bearer token for an engine behind HTTP.
        namespace: The namespace of calls that name no other.
        timeout: How long each call waits for an engine that is unreachable.

    Raises:
        Invalid: The URL is missing or malformed.
        Unavailable: The engine cannot be opened.
    """
    found = url or os.environ.get("ASSAY_ENGINE_URL")
    if not found:
        raise Invalid("connect needs a URL, such as sqlite://app.db, or ASSAY_ENGINE_URL set to one", field="url")
    _blocking_client().connect(found, token, namespace, timeout)


def close() -> None:
    """Stop the background workers and disconnect; also called when the program exits."""
    _blocking_client().close()


def listen(
    queue: str = "default",
    namespace: str | None = None,
    identity: str | None = None,
    max_concurrent_workflows: int = 256,
    max_concurrent_activities: int = 256,
    max_processes: int | None = None,
    errors: str = "fail",
    strict: bool = False,
) -> None:
    """Serve a queue until SIGINT or SIGTERM; then finish begun work, release the rest, and return within 10 s.

    Args:
        queue: The task queue.
        namespace: The namespace, unless the connection's.
        identity: The worker's name in lists and histories; the host and process id unless given.
        max_concurrent_workflows: How many workflow tasks run at a time.
        max_concurrent_activities: How many activities run at a time.
        max_processes: How many processes run activities with `runs_in="process"`; one per CPU unless given.
        errors: `wait` makes runs stuck that raise other than a `Failure`; a definition's `errors` takes precedence.
        strict: Raise in workflow code that calls a clock or a random source of Python, whose values differ on replay.

    Raises:
        Unavailable: No engine is connected.
    """
    _blocking_client().listen(
        queue=queue,
        namespace=namespace,
        identity=identity,
        max_concurrent_workflows=max_concurrent_workflows,
        max_concurrent_activities=max_concurrent_activities,
        max_processes=max_processes,
        errors=errors,
        strict=strict,
    )


def start(
    workflow: Callable[..., Any] | str | None = None,
    input: Any = None,
    *misplaced: Never,
    workflow_id: str | None = None,
    workflow_type: Callable[..., Any] | str | None = None,
    **options: Unpack[StartKeywords],
) -> StartRecord:
    """Start a workflow and return without waiting for its end.

    Args:
        workflow: The workflow function, or its registered name.
        input: The workflow's input; any JSON value, dataclass or model.
        *misplaced: Refused, so that an id given by position is not taken for an option.
        workflow_id: The workflow id; generated unless given.
        workflow_type: Another name of the first parameter.
        **options: See `StartKeywords`.

    Returns:
        A record with `workflow_id`, `run_id`, `status`, and `started`: False if the start attached to an open run.

    Raises:
        AlreadyExists: The id has an open run, or its policies refuse another run.
        Invalid: An argument is malformed; `TypeError` for an unknown option.
    """

    async def act(client: Any) -> StartRecord:
        named = {"workflow_id": workflow_id, "workflow_type": workflow_type}
        record: StartRecord = (await client.start(workflow, input, *misplaced, **named, **options)).record()
        return record

    return _blocking_client().call("start", act)


@overload
def run(
    workflow: Callable[..., Coroutine[Any, Any, Result]],
    input: Any = None,
    *,
    workflow_id: str | None = None,
    **options: Unpack[StartKeywords],
) -> Result: ...
@overload
def run(
    workflow: Callable[..., Result],
    input: Any = None,
    *,
    workflow_id: str | None = None,
    **options: Unpack[StartKeywords],
) -> Result: ...
@overload
def run(
    workflow: str, input: Any = None, *, workflow_id: str | None = None, **options: Unpack[StartKeywords]
) -> Any: ...
@overload
def run(
    *,
    workflow_type: Callable[..., Any] | str,
    input: Any = None,
    workflow_id: str | None = None,
    **options: Unpack[StartKeywords],
) -> Any: ...


def run(
    workflow: Callable[..., Any] | str | None = None,
    input: Any = None,
    *misplaced: Any,
    workflow_id: str | None = None,
    workflow_type: Callable[..., Any] | str | None = None,
    **options: Unpack[StartKeywords],
) -> Any:
    """Start a workflow and wait for its result; an embedded engine is served as well, without `listen`.

    With an explicit id the call is idempotent; see `assay.Client.run`.

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
        WorkflowFailed: The workflow failed; `WorkflowCancelled`, `WorkflowTerminated` and `WorkflowTimedOut` likewise.
        AlreadyExists: The id belongs to a run of another workflow type, or its policies refuse another run.
    """

    def act(client: Any) -> Coroutine[Any, Any, Any]:
        running: Coroutine[Any, Any, Any] = client.run(
            workflow, input, *misplaced, workflow_id=workflow_id, workflow_type=workflow_type, **options
        )
        return running

    return _blocking_client().call("run", act)


def result(workflow_id: str, run_id: str | None = None, *, namespace: str | None = None) -> Any:
    """Wait for the end of a workflow.

    Args:
        workflow_id: The workflow id.
        run_id: A run of the id; the current run unless given.
        namespace: The namespace of the id, unless the connection's.

    Returns:
        The result of the last run in the chain, as plain JSON values.

    Raises:
        NotFound: The id is unknown.
        WorkflowFailed: The workflow failed; `WorkflowCancelled`, `WorkflowTerminated` and `WorkflowTimedOut`
            likewise.
    """
    return _blocking_client().call("result", lambda client: client.result(workflow_id, run_id, namespace=namespace))


def cancel(
    workflow_id: str,
    reason: str | None = None,
    deadline: Duration | None = None,
    *,
    run_id: str | None = None,
    namespace: str | None = None,
) -> None:
    """Request the cancellation of an open run; its code receives `CancelRequested`.

    Args:
        workflow_id: The workflow id.
        reason: The reason, which is recorded.
        deadline: A time from now, after which a run that is still open is terminated.
        run_id: A run of the id; the current run unless given.
        namespace: The namespace of the id, unless the connection's.

    Raises:
        NotFound: The id has no open run.
    """
    _blocking_client().call(
        "cancel", lambda client: client.cancel(workflow_id, reason, deadline, run_id=run_id, namespace=namespace)
    )


def terminate(
    workflow_id: str, reason: str | None = None, *, run_id: str | None = None, namespace: str | None = None
) -> None:
    """End an open run at once, without running its code.

    Args:
        workflow_id: The workflow id.
        reason: The reason, which is recorded.
        run_id: A run of the id; the current run unless given.
        namespace: The namespace of the id, unless the connection's.

    Raises:
        NotFound: The id has no open run.
    """
    _blocking_client().call(
        "terminate", lambda client: client.terminate(workflow_id, reason, run_id=run_id, namespace=namespace)
    )


def continue_as_new(
    workflow_id: str, input: Any = KEEP_INPUT, *, run_id: str | None = None, namespace: str | None = None
) -> StartRecord:
    """Start the next run of an id with an empty history; an open run is closed, a closed run is left unchanged.

    Args:
        workflow_id: The workflow id.
        input: The next run's input, which may be None; left out, the next run has the input of this run.
        run_id: A run of the id; the newest unless given.
        namespace: The namespace of the id, unless the connection's.

    Returns:
        The record of the new run.

    Raises:
        NotFound: The run does not exist.
    """

    async def act(client: Client) -> StartRecord:
        return (await client.continue_as_new(workflow_id, input, run_id=run_id, namespace=namespace)).record()

    return _blocking_client().call("continue_as_new", act)


def retry(
    workflow_id: str,
    *,
    reason: str,
    run_id: str | None = None,
    from_seq: int | None = None,
    requested_by: str | None = None,
    namespace: str | None = None,
) -> RetryRecord:
    """Continue a run that failed, timed out or was cancelled as a new run, with fixed code.

    Args:
        workflow_id: The workflow id.
        reason: The reason, which is recorded.
        run_id: A run of the id; the newest unless given.
        from_seq: The last event to keep; without it no finished work is undone.
        requested_by: The person or program behind the retry; by default the user and host of this process.
        namespace: The namespace of the id, unless the connection's.

    Returns:
        A record with the new run's `run_id` and `status`, the `activity` that is attempted again, and `dropped_events`.

    Raises:
        AssayError: The run is open, completed, a child, or continued already; `code` names the reason.
    """

    async def act(client: Client) -> RetryRecord:
        return await client._retry(workflow_id, reason, run_id, from_seq, requested_by, namespace)

    return _blocking_client().call("retry", act)


def describe(workflow_id: str, run_id: str | None = None, *, namespace: str | None = None) -> WorkflowRecord | None:
    """Return the record of a run.

    Args:
        workflow_id: The workflow id.
        run_id: A run of the id; the current run unless given.
        namespace: The namespace of the id, unless the connection's.

    Returns:
        The record, or None if the run does not exist.
    """
    return _blocking_client().call("describe", lambda client: client.describe(workflow_id, run_id, namespace=namespace))


def get_state(
    workflow_id: str, name: str | None = None, *, namespace: str | None = None
) -> StateRecord | QueryRecord | None:
    """Return the latest answers of a run's queries.

    Args:
        workflow_id: The workflow id.
        name: A query; all queries unless given.
        namespace: The namespace of the id, unless the connection's.

    Returns:
        A record with the `state` of all queries or the `value` of the named query; None if no answer is recorded.
    """
    return _blocking_client().call("get_state", lambda client: client.get_state(workflow_id, name, namespace=namespace))


def query(workflow_id: str, name: str, *, namespace: str | None = None) -> Any:
    """Return the latest answer of one query.

    Args:
        workflow_id: The workflow id.
        name: The query's name.
        namespace: The namespace of the id, unless the connection's.

    Returns:
        The value that the query function returned.

    Raises:
        NotFound: The run has no such query, or has not run yet.
    """
    return _blocking_client().call("query", lambda client: client.query(workflow_id, name, namespace=namespace))


def get_events(workflow_id: str, run_id: str | None = None, *, namespace: str | None = None) -> Events:
    """Return the history of a run.

    Args:
        workflow_id: The workflow id.
        run_id: A run of the id; the current run unless given.
        namespace: The namespace of the id, unless the connection's.

    Returns:
        The events, in order.

    Raises:
        NotFound: The id is unknown.
    """
    return _blocking_client().call(
        "get_events", lambda client: client.get_events(workflow_id, run_id, namespace=namespace)
    )


def list_children(workflow_id: str, *, namespace: str | None = None) -> Runs:
    """Return the child workflows of a workflow.

    Args:
        workflow_id: The workflow id of the parent.
        namespace: The namespace of the id, unless the connection's.

    Returns:
        Records of the children, oldest first.

    Raises:
        NotFound: The id is unknown.
    """
    return _blocking_client().call(
        "list_children", lambda client: client.list_children(workflow_id, namespace=namespace)
    )


def list_runs(workflow_id: str, *, namespace: str | None = None) -> Runs:
    """Return all runs of a workflow id.

    Args:
        workflow_id: The workflow id.
        namespace: The namespace of the id, unless the connection's.

    Returns:
        Records of the runs, oldest first.

    Raises:
        NotFound: The id is unknown.
    """
    return _blocking_client().call("list_runs", lambda client: client.list_runs(workflow_id, namespace=namespace))


def list(**filters: Unpack[ListFilters]) -> BlockingRunList:
    """Return the runs that match, newest first, as a sequence of all of them.

    Args:
        **filters: See `ListFilters`; `limit` is the size of a page, 50 unless given.

    Returns:
        A lazy sequence that reads the runs page by page; `.page(cursor)` reads one page.

    Raises:
        Invalid: A filter has an impossible value; `TypeError` for an unknown filter.
    """
    from assay.sdk.client.run_lists import BlockingRunList

    async def make(client: Any) -> AsyncRunList:
        runs: AsyncRunList = client.list(**filters)
        return runs

    blocking_client = _blocking_client()
    runs = blocking_client.call("list", make)
    return BlockingRunList(runs.filters, lambda cursor: blocking_client.call("list", lambda _: runs.page(cursor)))
