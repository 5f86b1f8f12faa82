"""Both ports of the SDK over the engine's requests, for embedded engines and engines behind HTTP.

A request that returns is durable; a refused request raises the engine's error; `Unavailable` means that the outcome is
unknown and the same request may be sent again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from assay.core.model.errors import AssayError
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
    Update,
)
from assay.core.model.update_states import UpdateState
from assay.sdk.client.results import outcome_of
from assay.sdk.ports import ListedRuns, Target, WorkerOptions, WorkflowOutcome

if TYPE_CHECKING:
    from assay.sdk.app import App


OnRefusal = Callable[[AssayError], None]


class Transport(ABC):
    """A connection to one of our engines; see `ClientPort` and `WorkerPort` for its calls."""

    lease: Time | None
    """How long a silent worker keeps its leases; None if the worker runs in the engine's own process."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, or start the engine."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect, or stop the engine."""

    @abstractmethod
    def now(self) -> Time:
        """Return the engine's time, as far as this process can estimate it."""

    @abstractmethod
    async def ask(self, request: Request) -> Any:
        """Send a request; return the engine's reply once the outcome is durable."""

    @abstractmethod
    async def ask_retry(self, request: RetryFailed) -> dict[str, Any]:
        """Continue a closed run as a new run; return the engine's answer as a record."""

    @abstractmethod
    def send(self, request: Request, callback: ReplyCallback) -> None:
        """Send a request like `ask`, but call back instead of creating a task: workers send many requests."""

    @abstractmethod
    async def closed(self, key: RunKey, *, follow: bool = True) -> tuple[RunKey, Event]:
        """Wait for the end of a run, or of its chain; return the run that ended and its closing event."""

    async def update(
        self, target: Target, name: str, args: tuple[Payload, ...], update_id: str, seconds: float
    ) -> UpdateState:
        """See `ClientPort`; without a wait, for a connection that only sends requests."""
        return cast(UpdateState, await self.ask(Update(*target, name=name, args=args, update_id=update_id)))

    @abstractmethod
    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        """Return the events of a run after a seq."""

    @abstractmethod
    async def describe(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any] | None:
        """Return the record of a run, or None."""

    @abstractmethod
    async def explain(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any]:
        """Return what a run waits for; raise `NotFound` for an unknown id."""

    @abstractmethod
    async def list(self, namespace: str, filters: Mapping[str, Any]) -> ListedRuns:
        """Return a page of records of runs, newest first, with the cursor of the next page if more runs follow."""

    @abstractmethod
    async def events(self, namespace: str, workflow_id: str, run_id: str | None = None) -> Sequence[dict[str, Any]]:
        """Return a history as records; raise `NotFound` for an unknown id."""

    @abstractmethod
    async def state(self, namespace: str, workflow_id: str, name: str | None = None) -> dict[str, Any] | None:
        """Return the latest answers of a run's queries, or None."""

    @abstractmethod
    def report_health(self, worker: str, *, healthy: bool, abandoned_threads: int) -> None:
        """Report the health of a worker; blocks, needs no event loop, and may be called from any thread."""

    @abstractmethod
    def add_worker(self, worker: ConnectedWorker, refused: OnRefusal | None = None) -> None:
        """Connect a worker: work of its queue is leased to it, up to its free slots, until `remove_worker`.

        Args:
            worker: The worker.
            refused: Called if the engine refuses the first connection of the worker.
        """

    @abstractmethod
    def remove_worker(self, worker: ConnectedWorker) -> None:
        """Lease no more work to a worker; its reports are still accepted."""

    @abstractmethod
    def offer_slots(self, worker: ConnectedWorker) -> None:
        """Announce that a worker has more free slots than before."""

    # the verbs of a client

    async def start(self, start: StartWorkflow) -> Started:
        """See `ClientPort`."""
        return cast(Started, await self.ask(start))

    async def result(self, key: RunKey) -> WorkflowOutcome:
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
        from assay.sdk.worker.engine_worker import EngineWorker  # programs without workers do not pay for the import

        await EngineWorker(self, app, options).run()
