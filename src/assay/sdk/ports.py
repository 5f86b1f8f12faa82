"""The two ports of the SDK: the engine's interface for clients, and the engine's interface for workers.

Programs use `Client`, `Worker` and contexts, which use only the ports. An engine of another kind needs an
implementation of both ports and of `Context`, and nothing more. The requests, leases and events of our engine are no
part of the ports: `Transport` implements both ports with them. `StartWorkflow` describes a start with all of its
options, `Started` is the reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from assay.core.model.limits import WORKER_DRAIN_SECONDS

if TYPE_CHECKING:
    import asyncio

    from assay.core.model.errors import Failure
    from assay.core.model.ids import Namespace, RunId, RunKey, Time, WorkflowId
    from assay.core.model.mailboxes import StoredLetter
    from assay.core.model.payload import Payload
    from assay.core.model.replies import Started
    from assay.core.model.requests import StartWorkflow
    from assay.core.model.update_states import UpdateState
    from assay.sdk.app import App
    from assay.sdk.values.converter import Converter


class Target(NamedTuple):
    """A workflow id, and optionally one of its runs; the current run if `run_id` is None."""

    namespace: Namespace
    workflow_id: WorkflowId
    run_id: RunId | None = None


class WorkflowOutcome(NamedTuple):
    """The end of a chain of runs: the result of its last run, or the exception for callers."""

    result: Payload | None
    """None if the chain goes on under another id."""
    failure: Failure | None = None


class ListedRuns(list[dict[str, Any]]):
    """One page of records of runs; `next_cursor` is None after the last page."""

    def __init__(self, records: Iterable[dict[str, Any]], next_cursor: str | None) -> None:
        super().__init__(records)
        self.next_cursor = next_cursor


class ClientPort(Protocol):
    """The engine's interface for clients: the verbs of `Client`, with JSON documents and checked arguments.

    A call that returns is durable. A refused call raises the reason. `Unavailable` means that the outcome is unknown,
    and that the same call may be repeated.
    """

    async def open(self) -> None:
        """Connect, or start the engine."""
        ...

    async def close(self) -> None:
        """Disconnect, or stop the engine."""
        ...

    async def start(self, start: StartWorkflow) -> Started:
        """Start a workflow, or attach to the open run of its id if the start allows it."""
        ...

    async def result(self, key: RunKey) -> WorkflowOutcome:
        """Wait for the end of the chain of a run."""
        ...

    async def signal(self, target: Target, name: str, payload: Payload) -> None:
        """Send a signal to an open run; raise `NotFound` if the run is not open."""
        ...

    async def update(
        self, target: Target, name: str, args: tuple[Payload, ...], update_id: str, seconds: float
    ) -> UpdateState:
        """Send an update, once per id, and wait some seconds for its outcome; return its state."""
        ...

    async def post(self, to: str, topic: str, args: tuple[Payload, ...], sender: str | None) -> None:
        """Send a message to an address; raise `NotFound` if nothing is there."""
        ...

    async def open_mailbox(self, namespace: str, mailbox_id: str | None) -> tuple[str, str]:
        """Create or find a mailbox; return its id and its address."""
        ...

    async def read_mailbox(self, namespace: str, mailbox_id: str, after: int, seconds: float) -> Sequence[StoredLetter]:
        """Return the mail after a seq; wait some seconds for it. Raise `NotFound` if the mailbox is gone."""
        ...

    async def delete_mailbox(self, namespace: str, mailbox_id: str) -> None:
        """Delete a mailbox; no error if it is gone."""
        ...

    async def cancel(self, target: Target, reason: str | None, deadline: Time | None) -> None:
        """Request the end of an open run; terminate it if it is open after `deadline`."""
        ...

    async def terminate(self, target: Target, reason: str | None) -> None:
        """End an open run without running its code."""
        ...

    async def continue_as_new(self, target: Target, input: Payload | None) -> Started:
        """Start the next run of an id, with the current input if `input` is None."""
        ...

    async def retry(self, target: Target, *, reason: str, requested_by: str, from_seq: int | None) -> dict[str, Any]:
        """Continue a closed run as a new run; return the engine's answer as a record."""
        ...

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any] | None:
        """Return the record of a run, or None."""
        ...

    async def explain(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any]:
        """Return what a run waits for; raise `NotFound` for an unknown id."""
        ...

    async def list(self, namespace: str, filters: Mapping[str, Any]) -> ListedRuns:
        """Return a page of records of runs, newest first, with the cursor of the next page if more runs follow."""
        ...

    async def events(self, namespace: str, workflow_id: str, run_id: str | None = None) -> Sequence[dict[str, Any]]:
        """Return a history as records; raise `NotFound` for an unknown id."""
        ...

    async def state(self, namespace: str, workflow_id: str, name: str | None = None) -> dict[str, Any] | None:
        """Return the latest answers of a run's queries, or None."""
        ...


class WorkerOptions(msgspec.Struct, kw_only=True):
    """Options of a worker: its queue, its limits, and the event that stops it."""

    namespace: str
    queue: str
    identity: str
    worker_id: str
    converter: Converter
    stopping: asyncio.Event
    max_concurrent_workflows: int = 256
    max_concurrent_activities: int = 256
    max_processes: int | None = None
    max_cached_runs: int = 1_000
    drain_seconds: float = WORKER_DRAIN_SECONDS
    errors: str = "fail"
    strict: bool = False
    max_activities_per_second: float | None = None
    ends_unhealthy: bool = False
    """True to stop serving when more threads are abandoned than activities run at a time."""
    is_overrun: bool = False
    """Set by the port when it has stopped serving for this reason."""


class WorkerPort(Protocol):
    """The engine's interface for workers."""

    async def serve(self, app: App, options: WorkerOptions) -> None:
        """Serve the handlers of `app` until `options.stopping` is set; then finish begun work and release the rest."""
        ...


class EngineConnection(ClientPort, WorkerPort, Protocol):
    """Both ports of one engine, opened by a URL."""
