"""`Worker`: serves the handlers of an app on one task queue of an engine."""

import asyncio
import os
import socket
import threading
import uuid
from typing import Final, Protocol

from assay.core.model.errors import Invalid
from assay.core.model.limits import WORKER_DRAIN_SECONDS
from assay.core.model.options import check_text
from assay.sdk.app import App, check_errors
from assay.sdk.arguments import check_flag, optional_id
from assay.sdk.ports import WorkerOptions, WorkerPort
from assay.sdk.values.converter import Converter
from assay.sdk.worker.rates import check_rate

_served: Final = threading.Event()


def has_served() -> bool:
    """Return True if this process has run a worker."""
    return _served.is_set()


class Connected(Protocol):
    """The attributes of a client that a worker uses."""

    @property
    def transport(self) -> WorkerPort:
        """Return the engine."""
        ...

    converter: Converter
    namespace: str
    app: App


class Worker:
    """Serves the handlers of an app on one task queue until stopped.

    Use `async with Worker(client):` to serve while a block runs, or `await worker.run()`.

    Args:
        client: The connection to the engine.
        queue: The task queue; the app's unless given.
        app: The handlers; the client's app unless given.
        namespace: The namespace, unless the client's.
        max_concurrent_workflows: How many workflow tasks run at a time.
        max_concurrent_activities: How many activities run at a time.
        max_processes: How many processes run activities with `runs_in="process"`; one per CPU unless given.
        max_cached_runs: How many runs stay in memory between their tasks; others are replayed.
        max_activities_per_second: How many activities start in a second, evenly spaced; no limit unless given. An
            attempt waits for its start in the worker, and its time-outs count meanwhile.
        identity: The worker's name in lists and histories; the host and process id unless given.
        drain_seconds: How long begun work may finish after `stop`.
        errors: `fail` fails a run whose code raises an exception other than a `Failure`; `wait` leaves the run stuck
            until fixed code is deployed. A definition's own `errors` takes precedence.
        strict: Raise in workflow code that calls a clock or a random source of Python, whose values differ on replay.

    Raises:
        Invalid: An option is malformed.
    """

    def __init__(
        self,
        client: Connected,
        queue: str | None = None,
        *,
        app: App | None = None,
        namespace: str | None = None,
        max_concurrent_workflows: int = 256,
        max_concurrent_activities: int = 256,
        max_processes: int | None = None,
        max_cached_runs: int = 1_000,
        max_activities_per_second: float | None = None,
        identity: str | None = None,
        drain_seconds: float = WORKER_DRAIN_SECONDS,
        errors: str = "fail",
        strict: bool = False,
    ) -> None:
        if max_processes is not None and max_processes < 1:
            raise Invalid("max_processes must be at least 1", field="max_processes")
        self._engine = client.transport
        self.app = app or client.app
        self.worker = f"w-{uuid.uuid4().hex[:16]}"
        self.identity = check_text(identity, "identity") or f"{socket.gethostname()}-{os.getpid()}"
        self.namespace = optional_id(namespace, "namespace") or client.namespace
        self.queue = optional_id(queue, "queue") or self.app.queue
        self.options = WorkerOptions(
            namespace=self.namespace,
            queue=self.queue,
            identity=self.identity,
            worker_id=self.worker,
            converter=client.converter,
            stopping=asyncio.Event(),
            max_concurrent_workflows=max_concurrent_workflows,
            max_concurrent_activities=max_concurrent_activities,
            max_processes=max_processes,
            max_cached_runs=max_cached_runs,
            max_activities_per_second=check_rate(max_activities_per_second, "max_activities_per_second"),
            drain_seconds=drain_seconds,
            errors=check_errors(errors),
            strict=check_flag(strict, "strict"),
        )

    async def run(self) -> None:
        """Serve until `stop` is called; then finish begun work and release the rest.

        Raises:
            AssayError: The worker failed.
        """
        _served.set()
        await self._engine.serve(self.app, self.options)

    async def __aenter__(self) -> "Worker":
        """Serve in the background while the block runs."""
        self._serving = asyncio.get_running_loop().create_task(self.run(), name="assay-worker")
        await asyncio.sleep(0)  # the worker joins before the block starts its first run
        if self._serving.done():
            await self._serving
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop, and wait until begun work is finished; raise the exception that the worker ended with."""
        self.stop()
        await self._serving

    def stop(self) -> None:
        """Accept no more work; `run` returns when begun work is finished."""
        self.options.stopping.set()
