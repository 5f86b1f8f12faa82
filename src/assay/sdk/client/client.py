"""The client of an engine: start workflows, wait for results, send signals, read state."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from assay.core.model.duration import Duration, parse_duration
from assay.core.model.errors import AlreadyExists, AssayError, Invalid, NotFound
from assay.core.model.ids import RunId, RunKey, WorkflowId, seconds
from assay.core.model.options import check_id, check_text, duration
from assay.core.model.payload import NULL, Payload, same_value, value_of
from assay.core.model.requests import StartWorkflow
from assay.core.model.texts import check_words
from assay.sdk.app import App
from assay.sdk.client.absent import KEEP_INPUT
from assay.sdk.client.connections import DEFAULT_TIMEOUT_SECONDS, Joining, transport_for
from assay.sdk.client.handle import Handle
from assay.sdk.client.implicit_worker import ImplicitWorker
from assay.sdk.client.loop_thread import refuse_in_workflow
from assay.sdk.client.messaging import ClientMessaging
from assay.sdk.client.reading import Reading
from assay.sdk.client.records import Record, RetryRecord
from assay.sdk.client.registry import Namespaces, Queues, Workers
from assay.sdk.client.requester import requester
from assay.sdk.client.results import result_of
from assay.sdk.client.schedules import Schedules
from assay.sdk.client.spawning import Spawning
from assay.sdk.client.start_options import check_takes_input, completed_run, start_request
from assay.sdk.client.start_verbs import StartVerbs
from assay.sdk.client.targets import given, target_of
from assay.sdk.default_app import DEFAULT_APP
from assay.sdk.ports import EngineConnection, Target, WorkflowOutcome
from assay.sdk.unserved import watched
from assay.sdk.values.converter import Converter

Result = TypeVar("Result")
log = logging.getLogger("assay.client")


class Client(StartVerbs, Reading, ClientMessaging, Spawning):
    """A connection to one engine. Create with `await Client.connect(url)`; close with `close` or `async with`.

    Attributes:
        namespace: The namespace of every call that names no other.
        schedules: Schedules of workflows; see `Schedules`.
        namespaces: Namespaces of the engine; see `Namespaces`.
        workers: Workers of the engine; see `Workers`.
        queues: Task queues of the engine; see `Queues`.
    """

    def __init__(
        self,
        transport: EngineConnection,
        *,
        namespace: str = "main",
        app: App | None = None,
        converter: Converter | None = None,
    ) -> None:
        self.transport = transport
        self.namespace = check_id(namespace, "namespace")
        self.app = DEFAULT_APP if app is None else app
        self.converter = Converter() if converter is None else converter
        self._joining = transport if isinstance(transport, Joining) else None
        self._implicit_worker = ImplicitWorker(self)
        self.schedules = Schedules(self)
        self.namespaces = Namespaces(self)
        self.workers = Workers(self)
        self.queues = Queues(self)

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        namespace: str = "main",
        token: str | None = None,
        app: App | None = None,
        timeout: Duration = DEFAULT_TIMEOUT_SECONDS,  # noqa: ASYNC109 - of later calls, not of this one
    ) -> Client:
        """Connect to the engine at `url`; `sqlite://` and `postgres://` start an engine in this process.

        A second client of the same SQLite file shares the engine of the first.

        Args:
            url: The engine's URL. Several HTTP URLs, separated by commas, are tried in order.
            namespace: The namespace of calls that name no other.
            token: The API key or token for an engine behind HTTP; unless given, the key of `ASSAY_API_KEY_FILE`, of
                `ASSAY_API_KEY` or of the config file.
            app: The handlers that `run` may serve in this process; the default app unless given.
            timeout: How long each call waits for an engine that is unreachable.

        Returns:
            An open client.

        Raises:
            Invalid: The URL is malformed or its scheme is unknown.
            Unavailable: The engine cannot be opened.
        """
        limit = seconds(parse_duration(timeout, "timeout"))
        transport = transport_for(check_words(url, "url"), check_text(token, "token"), limit)
        client = cls(transport, namespace=namespace, app=app)
        await client.transport.open()
        return client

    async def close(self) -> None:
        """Stop the workers of this client and disconnect; the engine stops with its last client in this process."""
        try:
            await self._implicit_worker.close()
        finally:
            await self.transport.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _start(
        self, workflow: Callable[..., Any] | str, workflow_id: str | None, input: Any, options: Mapping[str, Any]
    ) -> Handle[Any]:
        """See `StartVerbs`."""
        request, annotation = self._start_request(workflow, workflow_id, input, options)
        try:
            started = await self.transport.start(request)
        except AlreadyExists as error:
            error.existing = Record(error.existing)
            raise
        return Handle(self, started.key, annotation, started=started.started, status=started.status)

    def _start_request(
        self,
        workflow: Callable[..., Any] | str,
        workflow_id: str | None,
        input: Any,
        options: Mapping[str, Any],
    ) -> tuple[StartWorkflow, Any]:
        """Return the request of a start, and the annotation of its result."""
        name = self.app.name_of(workflow)
        registered = self.app.workflows.get(name)
        if registered is not None and input is not None:
            check_takes_input(registered)
        usual = {"namespace": self.namespace, "task_queue": self.app.queue}
        request = start_request(self.converter, name, workflow_id, input, options, usual)
        known = None if isinstance(workflow, str) else registered
        return request, Any if known is None else known.signature.result_annotation

    async def _run(
        self, workflow: Callable[..., Any] | str, workflow_id: str | None, input: Any, options: dict[str, Any]
    ) -> Any:
        """See `StartVerbs`."""
        refuse_in_workflow()
        repeatable = workflow_id is not None and options.get("id_reuse_policy") is None
        if workflow_id is not None and not given(options).keys() & {"id_conflict_policy", "error_if_exists"}:
            options["id_conflict_policy"] = "use_existing"
        if repeatable:
            options["id_reuse_policy"] = "allow_duplicate_failed_only"
        request, annotation = self._start_request(workflow, workflow_id, input, options)
        await self._implicit_worker.serve(request.namespace, request.task_queue, request.workflow_type)
        try:
            outcome = await self._start_and_wait(request)
        except AlreadyExists as error:
            error.existing = Record(error.existing)
            completed = completed_run(error, request) if repeatable else None
            if completed is None:
                raise
            await self._warn_of_input(request, completed)
            outcome = await self.transport.result(completed)
        return result_of(outcome, self.converter, annotation)

    async def _start_and_wait(self, request: StartWorkflow) -> WorkflowOutcome:
        """Start a run or attach to one, and wait for the end of its chain."""
        if self._joining is not None:
            started, outcome = await watched(self.transport, request, functools.partial(self._joining.run, request))
            if not started.started:
                await self._warn_of_input(request, started.key)
            return outcome
        started = await self.transport.start(request)
        if not started.started:
            await self._warn_of_input(request, started.key)
        result = watched(self.transport, started.key, functools.partial(self.transport.result, started.key))
        return await self._implicit_worker.outcome(result)

    async def _warn_of_input(self, request: StartWorkflow, existing: RunKey) -> None:
        """Log a warning if the chain of `existing` was started with another input than `request` has."""
        with contextlib.suppress(AssayError):  # a failed check must not cost the caller the result
            record = await self.transport.describe(existing.namespace, existing.workflow_id, existing.run_id)
            if record is not None and record["first_run_id"] != existing.run_id:
                first = record["first_run_id"]
                record = await self.transport.describe(existing.namespace, existing.workflow_id, first)
            if record is not None and not same_value(record["input"], value_of(request.input)):
                log.warning(
                    "workflow id %s was started before with another input: its result is the one of that input",
                    existing.workflow_id,
                )

    async def _wait(self, key: RunKey, annotation: Any = Any) -> Any:
        """Return the result of the last run in the chain of `key`, decoded by annotation."""
        outcome = await watched(self.transport, key, functools.partial(self.transport.result, key))
        return result_of(outcome, self.converter, annotation)

    async def result(self, workflow_id: str, run_id: str | None = None, *, namespace: str | None = None) -> Any:
        """Wait for the end of a workflow.

        Args:
            workflow_id: The workflow id.
            run_id: A run of the id; the current run unless given.
            namespace: The namespace of the id, unless the client's.

        Returns:
            The result of the last run in the chain, as plain JSON values.

        Raises:
            NotFound: The id is unknown.
            WorkflowFailed: The workflow failed; `WorkflowCancelled`, `WorkflowTerminated` and `WorkflowTimedOut`
                likewise.
        """
        space, workflow_id, wanted = self._target(workflow_id, run_id, namespace)
        if wanted is None:
            record = await self.transport.describe(space, workflow_id)
            if record is None:
                raise NotFound(f"workflow {workflow_id} not found")
            wanted = RunId(record["run_id"])
        return await self._wait(RunKey(space, WorkflowId(workflow_id), wanted))

    async def signal(
        self,
        workflow_id: str,
        name: str,
        payload: Any = None,
        *,
        run_id: str | None = None,
        namespace: str | None = None,
    ) -> None:
        """Send a signal to an open run.

        Args:
            workflow_id: The workflow id.
            name: The signal's name.
            payload: The signal's payload.
            run_id: A run of the id; the current run unless given.
            namespace: The namespace of the id, unless the client's.

        Raises:
            NotFound: The id has no open run.
        """
        raw = NULL if payload is None else Payload(self.converter.encode(payload, name="payload"))
        target = self._target(workflow_id, run_id, namespace)
        await self.transport.signal(target, check_id(name, "signal name"), raw)

    async def cancel(
        self,
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
            namespace: The namespace of the id, unless the client's.

        Raises:
            NotFound: The id has no open run.
        """
        words, limit = check_text(reason, "reason"), duration(deadline, "deadline")
        await self.transport.cancel(self._target(workflow_id, run_id, namespace), words, limit)

    async def terminate(
        self, workflow_id: str, reason: str | None = None, *, run_id: str | None = None, namespace: str | None = None
    ) -> None:
        """End an open run at once, without running its code.

        Args:
            workflow_id: The workflow id.
            reason: The reason, which is recorded.
            run_id: A run of the id; the current run unless given.
            namespace: The namespace of the id, unless the client's.

        Raises:
            NotFound: The id has no open run.
        """
        words = check_text(reason, "reason")
        await self.transport.terminate(self._target(workflow_id, run_id, namespace), words)

    async def continue_as_new(
        self, workflow_id: str, input: Any = KEEP_INPUT, *, run_id: str | None = None, namespace: str | None = None
    ) -> Handle[Any]:
        """Start the next run of an id with an empty history; an open run is closed, a closed run is left unchanged.

        Args:
            workflow_id: The workflow id.
            input: The next run's input, which may be None; left out, the next run has the input of this run.
            run_id: A run of the id; the newest unless given.
            namespace: The namespace of the id, unless the client's.

        Returns:
            A handle of the new run.

        Raises:
            NotFound: The run does not exist.
        """
        raw = None if input is KEEP_INPUT else NULL
        if raw is not None and input is not None:
            raw = Payload(self.converter.encode(input, name="input"))
        started = await self.transport.continue_as_new(self._target(workflow_id, run_id, namespace), raw)
        return Handle(self, started.key, started=started.started, status=started.status)

    async def retry(
        self,
        workflow_id: str,
        *,
        reason: str,
        run_id: str | None = None,
        from_seq: int | None = None,
        requested_by: str | None = None,
        namespace: str | None = None,
    ) -> Handle[Any]:
        """Continue a run that failed, timed out or was cancelled as a new run, with fixed code.

        Args:
            workflow_id: The workflow id.
            reason: The reason, which is recorded.
            run_id: A run of the id; the newest unless given.
            from_seq: The last event to keep; without it no finished work is undone.
            requested_by: The person or program behind the retry; by default the user and host of this process.
            namespace: The namespace of the id, unless the client's.

        Returns:
            A handle of the new run.

        Raises:
            AssayError: The run is open, completed, a child, or continued already; `code` names the reason.
        """
        answer = await self._retry(workflow_id, reason, run_id, from_seq, requested_by, namespace)
        key = RunKey(self._space(namespace), WorkflowId(answer["workflow_id"]), RunId(answer["run_id"]))
        return Handle(self, key, started=True, status=answer["status"])

    async def _retry(
        self,
        workflow_id: str,
        reason: str,
        run_id: str | None,
        from_seq: int | None,
        requested_by: str | None,
        namespace: str | None,
    ) -> RetryRecord:
        """Retry a run; return the engine's record of the new run."""
        answer = await self.transport.retry(
            self._target(workflow_id, run_id, namespace),
            requested_by=requester() if requested_by is None else check_words(requested_by, "requested_by"),
            reason=check_words(reason, "reason"),
            from_seq=_whole(from_seq),
        )
        return RetryRecord(answer)

    def _target(self, workflow_id: str, run_id: str | None, namespace: str | None) -> Target:
        return target_of(workflow_id, run_id, namespace, self._space(None))


def _whole(from_seq: Any) -> int | None:
    if from_seq is None or (isinstance(from_seq, int) and not isinstance(from_seq, bool)):
        return from_seq
    raise Invalid("from_seq is the seq of an event: a whole number", code="bad_from_seq", field="from_seq")
