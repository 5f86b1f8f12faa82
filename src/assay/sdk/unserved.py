"""Warnings about awaited runs whose queue no worker serves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from assay.core.model.errors import AssayError
from assay.sdk.client.registry import Registering
from assay.sdk.ports import ClientPort

Outcome = TypeVar("Outcome")
UNSERVED_AFTER_SECONDS: Final = 5.0
"""Seconds of waiting after which an unserved run is logged."""
PENDING: Final = "PENDING"
log = logging.getLogger("assay.client")


class AwaitedRun(Protocol):
    """The names of a run that a program waits for."""

    @property
    def namespace(self) -> str:
        """The namespace of the run."""
        ...

    @property
    def workflow_id(self) -> str:
        """The workflow id of the run."""
        ...


async def watched(transport: ClientPort, run: AwaitedRun, wait: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Return the outcome of `wait()`; log a warning if no worker serves the awaited run.

    `wait` is called here: a coroutine made by the caller would never be awaited if this task is cancelled first.
    """
    loop = asyncio.get_running_loop()
    looking: list[asyncio.Task[None]] = []

    def look() -> None:
        looking.append(loop.create_task(_warn(transport, run)))

    timer = loop.call_later(UNSERVED_AFTER_SECONDS, look)  # a timer, not a task: most runs end before it fires
    try:
        return await wait()
    finally:
        timer.cancel()
        for task in looking:
            task.cancel()


async def _warn(transport: ClientPort, run: AwaitedRun) -> None:
    with contextlib.suppress(AssayError):  # a failed check must not disturb the program
        # Poll until the start is durable: no event reports that, because the caller waits for the end.
        while (record := await transport.describe(run.namespace, run.workflow_id)) is None:  # noqa: ASYNC110
            await asyncio.sleep(UNSERVED_AFTER_SECONDS)
        if record["stuck"] is not None:
            log.warning("workflow %s is stuck: %s", run.workflow_id, record["stuck"]["message"])
            return
        if not isinstance(transport, Registering):
            return
        workers = await transport.registry.workers(run.namespace)
        queue = record["task_queue"]
        if record["status"] == PENDING and not any(worker["task_queue"] == queue for worker in workers):
            log.warning(
                "workflow %s waits for a worker: none serves the queue %s of the namespace %s; start one with"
                " `assay run` or workflow.listen()",
                run.workflow_id,
                queue,
                run.namespace,
            )
