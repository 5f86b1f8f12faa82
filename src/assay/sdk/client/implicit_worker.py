"""Workers that a client runs by itself, so that a short script needs no `listen`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from assay.core.model.errors import NotFound, Unavailable
from assay.sdk.client.connections import Hosting

if TYPE_CHECKING:
    from assay.sdk.client.client import Client
    from assay.sdk.worker.worker import Worker

Outcome = TypeVar("Outcome")
IMPLICIT_WORKER_DRAIN_SECONDS: Final = 5.0
GIVE_UP_SECONDS: Final = 2.0
"""Seconds beyond the drain in which a worker may release unfinished work."""


class ImplicitWorker:
    """Serves the queues of an embedded engine that no other worker of this process serves."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._host = client.transport if isinstance(client.transport, Hosting) else None
        self._workers: dict[tuple[str, str], tuple[Worker, asyncio.Task[None]]] = {}
        self._waiting: set[asyncio.Task[Any]] = set()
        self._failed: BaseException | None = None

    async def serve(self, namespace: str, queue: str, workflow_type: str) -> None:
        """Start a worker for the queue, unless a worker of this process serves the queue."""
        transport = self._host
        if transport is None or (namespace, queue) in self._workers:
            return
        if not transport.served(namespace, queue):
            await asyncio.sleep(0)  # a worker whose task was just created connects first
        if transport.served(namespace, queue) or (namespace, queue) in self._workers:
            self._failed = None
            return
        if transport.lease is None and workflow_type not in self._client.app.workflows:
            # Only this process can open the database, so no other worker could ever serve the run.
            raise NotFound(f"no workflow '{workflow_type}' is registered: decorate a function with @workflow.define")
        self._start(namespace, queue)

    def _start(self, namespace: str, queue: str) -> None:
        from assay.sdk.worker.worker import Worker  # programs without workers do not pay for the import

        worker = Worker(self._client, queue=queue, namespace=namespace, drain_seconds=IMPLICIT_WORKER_DRAIN_SECONDS)
        task = asyncio.get_running_loop().create_task(worker.run(), name=f"assay-standby-{namespace}-{queue}")
        self._workers[namespace, queue] = worker, task
        self._failed = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Cancel the callers that wait for results: the worker stopped unexpectedly."""
        self._workers = {key: entry for key, entry in self._workers.items() if entry[1] is not task}
        failed = None if task.cancelled() else task.exception()
        self._failed = failed or Unavailable("the worker of this client has stopped", code="worker_stopped")
        for waiting in self._waiting:
            waiting.cancel()

    async def outcome(self, waiting: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Return the outcome of `waiting`; raise the worker's failure if the worker stops first."""
        if self._failed is not None:
            waiting.close()
            raise self._failed
        if not self._workers:
            return await waiting
        task = asyncio.get_running_loop().create_task(waiting)
        self._waiting.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            failed: BaseException | None = self._failed
            if failed is None or not task.cancelled() or _is_cancelling():
                task.cancel()
                raise
            raise failed from None
        finally:
            self._waiting.discard(task)

    async def close(self) -> None:
        """Stop the workers; begun work gets a few seconds to finish."""
        workers = tuple(self._workers.values())
        for worker, task in workers:
            task.remove_done_callback(self._ended)
            worker.stop()
        if workers:
            tasks = {task for _, task in workers}
            _, busy = await asyncio.wait(tasks, timeout=IMPLICIT_WORKER_DRAIN_SECONDS + GIVE_UP_SECONDS)
            for task in busy:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._workers.clear()


def _is_cancelling() -> bool:
    """Return True if the current task itself is being cancelled, not only the task that it awaits."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
