"""Both ports of the SDK for our engines, in this process or behind HTTP: each verb is a request to the engine.

A request that returns is durable; one that was refused raises what the engine said; `Unavailable` means that the
outcome is not known and the same request may be sent again.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from assay.core.model.events import Event, Recorded
from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import RunId, RunKey, Time
from assay.core.model.payload import NULL, Payload
from assay.core.model.replies import ReplyCallback, Started
from assay.core.model.requests import (
    Request,
    RequestCancel,
    RestartAsNew,
    RetryFailed,
    Signal,
    StartWorkflow,
    Terminate,
)
from assay.sdk.client.results import outcome_of
from assay.sdk.ports import ListedRuns, Outcome, Target, WorkerOptions

if TYPE_CHECKING:
    from assay.sdk.app import App


class Transport(ABC):
    """An engine of ours, wherever it is: see `ClientPort` and `WorkerPort` for its verbs."""

    lease: Time | None
    """How long a worker may be silent before its work is given to others; None if it dies with the engine."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, or start the engine."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect, or stop the engine."""

    @abstractmethod
    def now(self) -> Time:
        """The engine's time, as well as it is known here (R12)."""

    @abstractmethod
    async def ask(self, request: Request) -> Any:
        """Have a request decided; its reply when the outcome is durable."""

    @abstractmethod
    async def ask_retry(self, request: RetryFailed) -> dict[str, Any]:
        """Let a closed run go on; the answer as a record."""

    @abstractmethod
    def send(self, request: Request, told: ReplyCallback) -> None:
        """Like `ask`, without a task of its own: the way of a worker, which sends many."""

    @abstractmethod
    async def closed(self, key: RunKey, *, follow: bool = True) -> tuple[RunKey, Event]:
        """Wait for the end of a run, or of its chain: the run that ended and its closing event."""

    @abstractmethod
    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        """A run's events after a seq."""

    @abstractmethod
    async def describe(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any] | None:
        """A run's record, or None."""

    @abstractmethod
    async def list(self, namespace: str, filters: Mapping[str, Any]) -> ListedRuns:
        """Return a page of records of runs, newest first, with the cursor of the next page if more runs follow."""

    @abstractmethod
    async def events(self, namespace: str, workflow_id: str, run_id: str | None = None) -> Sequence[dict[str, Any]]:
        """A history as records; `NotFound` for an unknown id."""

    @abstractmethod
    async def state(self, namespace: str, workflow_id: str, name: str | None = None) -> dict[str, Any] | None:
        """What the run's queries answer, or None."""

    @abstractmethod
    def report_health(self, worker: str, *, healthy: bool, abandoned_threads: int) -> None:
        """Report the health of a worker; may block, from any thread, and needs no event loop."""

    @abstractmethod
    def add_worker(self, worker: ConnectedWorker) -> None:
        """Connect a worker: work of its queue is leased to it, up to its free slots, until `remove_worker`."""

    @abstractmethod
    def remove_worker(self, worker: ConnectedWorker) -> None:
        """Lease no more work to a worker; its reports are sent on."""

    @abstractmethod
    def offer_slots(self, worker: ConnectedWorker) -> None:
        """Announce that a worker has more free slots than before."""

    # the verbs of a client

    async def start(self, start: StartWorkflow) -> Started:
        """See `ClientPort`."""
        return cast(Started, await self.ask(start))

    async def result(self, key: RunKey) -> Outcome:
        """See `ClientPort`."""
        return outcome_of(*await self.closed(key))

    async def signal(self, target: Target, name: str, payload: Payload) -> None:
        """See `ClientPort`."""
        await self.ask(Signal(*target, name=name, payload=payload))

    async def cancel(self, target: Target, reason: str | None, deadline: Time | None) -> None:
        """See `ClientPort`."""
        await self.ask(RequestCancel(*target, reason=reason, deadline=deadline))

    async def terminate(self, target: Target, reason: str | None) -> None:
        """See `ClientPort`."""
        await self.ask(Terminate(*target, reason=reason))

    async def continue_as_new(self, target: Target, input: Payload | None) -> Started:
        """See `ClientPort`."""
        keeps = input is None
        request = RestartAsNew(*target, input=NULL if input is None else input, keep_input=keeps)
        return cast(Started, await self.ask(request))

    async def retry(self, target: Target, *, reason: str, requested_by: str, from_seq: int | None) -> dict[str, Any]:
        """See `ClientPort`."""
        return await self.ask_retry(RetryFailed(*target, requested_by=requested_by, reason=reason, from_seq=from_seq))

    # the verb of a worker

    async def serve(self, app: "App", options: WorkerOptions) -> None:
        """See `WorkerPort`."""
        from assay.sdk.worker.engine_worker import EngineWorker  # a program that only manages needs no worker

        await EngineWorker(self, app, options).run()
