"""A worker: serves the handlers of an app on one queue of an engine."""

import asyncio
import os
import socket
import uuid
from typing import ClassVar, Protocol

from assay.core.model.errors import Invalid
from assay.core.model.limits import WORKER_DRAIN_SECONDS
from assay.core.model.options import check_text
from assay.sdk.app import App, check_errors
from assay.sdk.arguments import optional_id
from assay.sdk.ports import WorkerOptions, WorkerPort
from assay.sdk.values.converter import Converter


class Connected(Protocol):
    """The parts of a client that a worker uses."""

    @property
    def transport(self) -> WorkerPort:
        """The engine."""
        ...

    converter: Converter
    namespace: str
    app: App


class Worker:
    """Serves an app's handlers until it is stopped."""

    begun: ClassVar[int] = 0
    """How many workers this process has run."""

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
        identity: str | None = None,
        drain_seconds: float = WORKER_DRAIN_SECONDS,
        errors: str = "fail",
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
            drain_seconds=drain_seconds,
            errors=check_errors(errors),
        )

    @property
    def ends_unhealthy(self) -> bool:
        """True if the worker stops by itself when too many of its threads are abandoned."""
        return self.options.ends_unhealthy

    @ends_unhealthy.setter
    def ends_unhealthy(self, value: bool) -> None:
        self.options.ends_unhealthy = value

    @property
    def is_overrun(self) -> bool:
        """True if the worker ended because more threads are abandoned than it runs activities at a time."""
        return self.options.is_overrun

    async def run(self) -> None:
        """Serve until `stop` is called; then finish begun work and give back the rest."""
        Worker.begun += 1
        await self._engine.serve(self.app, self.options)

    async def __aenter__(self) -> "Worker":
        """Serve in the background while the block runs."""
        self._serving = asyncio.get_running_loop().create_task(self.run(), name="assay-worker")
        await asyncio.sleep(0)  # the worker joins before the block starts its first run
        if self._serving.done():
            await self._serving
        return self

    async def __aexit__(self, *error: object) -> None:
        """Finish the work that is begun, as `stop` does; raise the exception that the worker ended with."""
        self.stop()
        await self._serving

    def stop(self) -> None:
        """Take no more work, and end `run` when begun work is done."""
        self.options.stopping.set()
