"""The transport to an engine behind HTTP: client calls are requests, workers use the exchange."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.core.model.errors import Invalid, Refused, Unavailable
from assay.core.model.events import Event, Recorded
from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import RunId, RunKey, Time
from assay.core.model.limits import WORKER_LEASE
from assay.core.model.payload import Payload
from assay.core.model.replies import ReplyCallback, Started, future_callback
from assay.core.model.requests import Request, RetryFailed, StartWorkflow, ToRun
from assay.core.model.update_states import UpdateState
from assay.sdk.client.connections import DEFAULT_TIMEOUT_SECONDS
from assay.sdk.client.credential import Credential
from assay.sdk.client.http.calls import Calls
from assay.sdk.client.http.clock import LearnedClock
from assay.sdk.client.http.health_report import report_health
from assay.sdk.client.http.http1 import API_PREFIX, path_of, query_of
from assay.sdk.client.http.mail_calls import HttpMail
from assay.sdk.client.http.pool import HttpPool
from assay.sdk.client.http.registry import HttpRegistry
from assay.sdk.client.http.schedules import HttpSchedules
from assay.sdk.client.http.update_calls import send_update
from assay.sdk.client.results import outcome_of
from assay.sdk.client.transport import OnRefusal, Transport
from assay.sdk.ports import ListedRuns, Target, WorkflowOutcome
from assay.worker_protocol.worker_side import WorkerEndpoint

LAST_REPLIES_SECONDS: Final = 2.0
"""Seconds for which a closing transport waits for its last replies."""


class HttpTransport(HttpMail, Transport):
    """See `Transport`."""

    def __init__(self, url: str, token: str | None = None, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        self.lease: Time | None = WORKER_LEASE
        self._url = ",".join(_api_url(one.strip()) for one in url.split(","))
        self._timeout_seconds = timeout_seconds
        self._clock = LearnedClock()
        self._credential = Credential(token, self._url)
        self._pool = HttpPool(self._url, self._credential)
        self._calls: Calls | None = None
        self._endpoints: dict[WorkerEndpoint, asyncio.Task[None]] = {}
        self.schedules = HttpSchedules(lambda: self._open().call)
        self.registry = HttpRegistry(lambda: self._open().call)

    async def open(self) -> None:
        """Prepare to connect; the first call shows whether an engine responds."""
        if self._calls is not None:
            raise Invalid("this transport is open already", code="already_open")
        if self._pool.closed:
            self._pool = HttpPool(self._url, self._credential)
        self._calls = Calls(self._pool, self._timeout_seconds)

    async def close(self) -> None:
        """Send the last reports and disconnect."""
        calls, self._calls = self._calls, None
        if calls is None:
            return
        for endpoint in self._endpoints:
            endpoint.leave()
        if self._endpoints:
            await asyncio.wait(self._endpoints.values(), timeout=LAST_REPLIES_SECONDS)
        for endpoint, driver in tuple(self._endpoints.items()):
            driver.cancel()
            await asyncio.gather(driver, return_exceptions=True)
            endpoint.end(_closed())
        self._pool.close()

    def _open(self) -> Calls:
        if self._calls is None:
            raise _closed()
        return self._calls

    def now(self) -> Time:
        """See `Transport`."""
        return self._clock.now()

    # calls

    async def ask(self, request: Request) -> Any:
        """See `Transport`."""
        return await self._open().ask(request)

    async def ask_retry(self, request: RetryFailed) -> dict[str, Any]:
        """See `Transport`."""
        return await self._open().retry(request)

    async def run(self, start: StartWorkflow) -> tuple[Started, WorkflowOutcome]:
        """Start a workflow and wait for its end, in one request if the run ends within the hold time."""
        started, ending = await self._open().run(start)
        return started, outcome_of(*ending)

    async def closed(self, key: RunKey, *, follow: bool = True) -> tuple[RunKey, Event]:
        """See `Transport`."""
        return await self._open().closed(key, follow=follow)

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any] | None:
        """See `Transport`."""
        return await self._open().describe(namespace, workflow_id, run_id)

    async def explain(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any]:
        """See `Transport`."""
        return await self._open().explain(namespace, workflow_id, run_id)

    async def list(self, namespace: str, filters: Mapping[str, Any]) -> ListedRuns:
        """See `Transport`."""
        return await self._open().list(namespace, filters)

    async def events(self, namespace: str, workflow_id: str, run_id: str | None = None) -> Sequence[dict[str, Any]]:
        """See `Transport`."""
        return await self._open().events(namespace, workflow_id, run_id)

    async def state(self, namespace: str, workflow_id: str, name: str | None = None) -> dict[str, Any] | None:
        """See `Transport`."""
        return await self._open().state(namespace, workflow_id, name)

    # workers

    def send(self, request: Request, callback: ReplyCallback) -> None:
        """See `Transport`."""
        if isinstance(request, ToRun):
            for endpoint in self._endpoints:
                if endpoint.owns(request):
                    endpoint.send(request, callback)
                    return
        callback(None, Refused("no worker of this process holds the lease", code="stale_attempt"))

    async def update(
        self, target: Target, name: str, args: tuple[Payload, ...], update_id: str, seconds: float
    ) -> UpdateState:
        """See `Transport`."""
        return await send_update(self._open(), target, name, args, update_id, seconds)

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        """See `Transport`; only runs that a worker of this process holds can be read."""
        for endpoint in self._endpoints:
            if endpoint.has_run(run_id):
                events: asyncio.Future[Sequence[Recorded]] = asyncio.get_running_loop().create_future()
                endpoint.read_history(run_id, after, future_callback(events))
                return await events
        raise Refused("no worker of this process holds the run", code="stale_task")

    def report_health(self, worker: str, *, healthy: bool, abandoned_threads: int) -> None:
        """See `Transport`."""
        report_health(self._pool.endpoint, worker, healthy=healthy, abandoned_threads=abandoned_threads)

    def add_worker(self, worker: ConnectedWorker, refused: OnRefusal | None = None) -> None:
        """See `Transport`."""
        from assay.sdk.client.http.reconnector import (
            Reconnector,  # programs without workers do not pay for the import
        )

        self._open()
        endpoint = WorkerEndpoint(worker, self._clock.learn)
        path = f"{path_of('workers', worker.worker, 'exchange')}{query_of({'namespace': worker.namespace})}"
        reconnector = Reconnector(self._pool, path, endpoint, refused)
        driver = asyncio.get_running_loop().create_task(reconnector.run(), name="assay-exchange")
        self._endpoints[endpoint] = driver
        driver.add_done_callback(lambda _: self._endpoints.pop(endpoint, None))

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        for endpoint in self._endpoints:
            if endpoint.worker is worker:
                endpoint.leave()

    def offer_slots(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        for endpoint in self._endpoints:
            if endpoint.worker is worker:
                endpoint.offer_slots()


def _api_url(url: str) -> str:
    """Return the address of an engine's API, or raise `Invalid` if the URL names no host."""
    if not url.partition("://")[2].strip("/"):
        raise Invalid("the URL of an engine names its host: http://127.0.0.1:8080", code="invalid_url", field="url")
    return url.rstrip("/").removesuffix(API_PREFIX) + API_PREFIX


def _closed() -> Unavailable:
    return Unavailable("this client is closed: connect again", code="client_closed")
