"""Durable workflows in plain functions: register handlers, serve them, start and watch runs. Every call here blocks.

    from assay import workflow

    @workflow.define
    async def Greet(ctx, name): ...

    workflow.connect("sqlite://app.db")
    print(workflow.run(Greet, "Ada"))

Programs with an event loop of their own use `assay.Client` and `assay.Worker`, which have the same names.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar, Unpack, overload

from assay.core.model.errors import Invalid
from assay.sdk.client.absent import KEEP_INPUT
from assay.sdk.client.blocking_registry import BlockingNamespaces, BlockingQueues, BlockingWorkers
from assay.sdk.client.blocking_schedules import BlockingSchedules
from assay.sdk.default_app import DEFAULT_APP

if TYPE_CHECKING:
    from assay.core.model.duration import Duration
    from assay.sdk.client.blocking import BlockingClient
    from assay.sdk.client.reading import Events, ListFilters, Runs
    from assay.sdk.client.records import QueryRecord, RetryRecord, StartRecord, StateRecord, WorkflowRecord
    from assay.sdk.client.run_lists import AsyncRunList, BlockingRunList
    from assay.sdk.client.start_options import StartKeywords

__all__ = [
    "activity",
    "cancel",
    "close",
    "connect",
    "continue_as_new",
    "define",
    "describe",
    "get_events",
    "get_state",
    "list",
    "list_children",
    "list_runs",
    "listen",
    "namespaces",
    "query",
    "queues",
    "result",
    "retry",
    "run",
    "schedules",
    "signal",
    "start",
    "terminate",
    "workers",
]

Result = TypeVar("Result")
_making: Final = threading.Lock()
_made: BlockingClient | None = None

define: Final = DEFAULT_APP.workflow
"""Register a workflow: `@define`, `@define(name="X")` or `define("X", function)`."""

activity: Final = DEFAULT_APP.activity
"""Register an activity: `@activity`, `@activity(name="X")` or `activity("X", function)`."""


def _blocking_client() -> BlockingClient:
    """The blocking client of this program, made when it is first needed: an import alone starts nothing."""
    global _made
    with _making:
        if _made is None:
            from assay.sdk.client.blocking import BlockingClient

            _made = BlockingClient(DEFAULT_APP)
        return _made


schedules: Final = BlockingSchedules(_blocking_client)
"""Runs that start by themselves, at the times of a cron expression."""

namespaces: Final = BlockingNamespaces(_blocking_client)
"""Spaces of ids and queues that know nothing of each other."""

workers: Final = BlockingWorkers(_blocking_client)
"""Who does the work."""

queues: Final = BlockingQueues(_blocking_client)
"""What waits to be done."""


def connect(
    url: str | None = None, token: str | None = None, namespace: str = "main", timeout: Duration = 30.0
) -> None:
    """Connect to an engine, or start one in this process: `http://…`, `sqlite://app.db`, `postgres://…`.

    Without a URL that of ASSAY_ENGINE_URL is used. Several URLs of engines behind HTTP, separated by commas, are tried
    in order. `timeout` is how long a call waits for an engine that is away.
    """
    found = url or os.environ.get("ASSAY_ENGINE_URL")
    if not found:
        raise Invalid("connect needs a URL, such as sqlite://app.db, or ASSAY_ENGINE_URL set to one", field="url")
    _blocking_client().connect(found, token, namespace, timeout)


def close() -> None:
    """Stop what runs in the background and let go of the engine; also done when the program ends."""
    _blocking_client().close()


def listen(
    queue: str = "default",
    namespace: str | None = None,
    identity: str | None = None,
    max_concurrent_workflows: int = 256,
    max_concurrent_activities: int = 256,
    max_processes: int | None = None,
    errors: str = "fail",
) -> None:
    """Serve a queue until SIGINT or SIGTERM; then finish what is begun, give back the rest, and return in 10 s.

    `max_processes` limits the processes of activities with `runs_in="process"`; by default there is one per CPU.
    With `errors="wait"` a workflow whose code raises an exception that is not a `Failure` is stuck until fixed code
    comes; a definition's own `errors` goes before it.
    """
    _blocking_client().listen(
        queue=queue,
        namespace=namespace,
        identity=identity,
        max_concurrent_workflows=max_concurrent_workflows,
        max_concurrent_activities=max_concurrent_activities,
        max_processes=max_processes,
        errors=errors,
    )


def start(
    workflow: Callable[..., Any] | str | None = None,
    input: Any = None,
    *misplaced: Never,
    workflow_id: str | None = None,
    workflow_type: Callable[..., Any] | str | None = None,
    **options: Unpack[StartKeywords],
) -> StartRecord:
    """Start a workflow: a record with `workflow_id`, `run_id`, `status` and whether it was `started` just now.

    `workflow_type=` is another name of the first parameter.
    """

    async def act(client: Any) -> StartRecord:
        handle = await client.start(
            workflow, input, *misplaced, workflow_id=workflow_id, workflow_type=workflow_type, **options
        )
        record: StartRecord = handle.record()
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
    """Start a workflow and wait for its result; an engine in this process is served as well, without `listen`."""

    def act(client: Any) -> Coroutine[Any, Any, Any]:
        running: Coroutine[Any, Any, Any] = client.run(
            workflow, input, *misplaced, workflow_id=workflow_id, workflow_type=workflow_type, **options
        )
        return running

    return _blocking_client().call("run", act)


def result(workflow_id: str, run_id: str | None = None, *, namespace: str | None = None) -> Any:
    """Wait for the end of a workflow: its result, or an exception that says how it ended."""
    return _blocking_client().call("result", lambda client: client.result(workflow_id, run_id, namespace=namespace))


def signal(
    workflow_id: str, name: str, payload: Any = None, *, run_id: str | None = None, namespace: str | None = None
) -> None:
    """Send a signal to an open run."""
    _blocking_client().call(
        "signal", lambda client: client.signal(workflow_id, name, payload, run_id=run_id, namespace=namespace)
    )


def cancel(
    workflow_id: str,
    reason: str | None = None,
    deadline: Duration | None = None,
    *,
    run_id: str | None = None,
    namespace: str | None = None,
) -> None:
    """Ask an open run to end; with a `deadline` it is terminated if it has not ended by then."""
    _blocking_client().call(
        "cancel", lambda client: client.cancel(workflow_id, reason, deadline, run_id=run_id, namespace=namespace)
    )


def terminate(
    workflow_id: str, reason: str | None = None, *, run_id: str | None = None, namespace: str | None = None
) -> None:
    """End an open run without asking its code."""
    _blocking_client().call(
        "terminate", lambda client: client.terminate(workflow_id, reason, run_id=run_id, namespace=namespace)
    )


def continue_as_new(
    workflow_id: str, input: Any = KEEP_INPUT, *, run_id: str | None = None, namespace: str | None = None
) -> StartRecord:
    """Start the next run of an id with a fresh history; an open run is closed, a closed one left alone.

    Args:
        workflow_id: The workflow id.
        input: The next run's input, which may be None; left out, the next run has the input of this one.
        run_id: Another run of the id than the newest one.
        namespace: The namespace of the id, if it is not that of the connection.

    Returns:
        The record of the new run.

    Raises:
        NotFound: There is no such run.
    """

    async def act(client: Any) -> StartRecord:
        handle = await client.continue_as_new(workflow_id, input, run_id=run_id, namespace=namespace)
        record: StartRecord = handle.record()
        return record

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
    """Let a run that failed, timed out or was cancelled go on as a new run; see `assay.Client.retry`.

    The record has the new run's `run_id`, its `status`, the `activity` that is tried again, and `dropped_events`.
    """

    async def act(client: Any) -> RetryRecord:
        record: RetryRecord = await client._retry(workflow_id, reason, run_id, from_seq, requested_by, namespace)
        return record

    return _blocking_client().call("retry", act)


def describe(workflow_id: str, run_id: str | None = None, *, namespace: str | None = None) -> WorkflowRecord | None:
    """The record of the current run of an id, or of the run named; None if there is none."""
    return _blocking_client().call("describe", lambda client: client.describe(workflow_id, run_id, namespace=namespace))


def get_state(
    workflow_id: str, name: str | None = None, *, namespace: str | None = None
) -> StateRecord | QueryRecord | None:
    """What a run's queries answered last: the `state` of all, or the `value` of one; None if there is none."""
    return _blocking_client().call("get_state", lambda client: client.get_state(workflow_id, name, namespace=namespace))


def query(workflow_id: str, name: str, *, namespace: str | None = None) -> Any:
    """The last answer of one query."""
    return _blocking_client().call("query", lambda client: client.query(workflow_id, name, namespace=namespace))


def get_events(workflow_id: str, run_id: str | None = None, *, namespace: str | None = None) -> Events:
    """The history of a run, in order."""
    return _blocking_client().call(
        "get_events", lambda client: client.get_events(workflow_id, run_id, namespace=namespace)
    )


def list_children(workflow_id: str, *, namespace: str | None = None) -> Runs:
    """The children of a workflow, oldest first."""
    return _blocking_client().call(
        "list_children", lambda client: client.list_children(workflow_id, namespace=namespace)
    )


def list_runs(workflow_id: str, *, namespace: str | None = None) -> Runs:
    """All runs of an id, oldest first."""
    return _blocking_client().call("list_runs", lambda client: client.list_runs(workflow_id, namespace=namespace))


def list(**filters: Unpack[ListFilters]) -> BlockingRunList:
    """Return the runs that match, newest first, as a sequence of all of them; see `assay.Client.list`.

    Args:
        **filters: Those of `assay.Client.list`; `limit` is the size of a page.

    Returns:
        A sequence that reads the runs page by page when it is used; `.page(cursor)` reads one page.
    """
    from assay.sdk.client.run_lists import BlockingRunList

    async def make(client: Any) -> AsyncRunList:
        runs: AsyncRunList = client.list(**filters)
        return runs

    blocking_client = _blocking_client()
    runs = blocking_client.call("list", make)
    return BlockingRunList(runs.filters, lambda cursor: blocking_client.call("list", lambda _: runs.page(cursor)))
