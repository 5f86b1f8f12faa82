"""The handle of a started run: wait for its result, send signals, read its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from assay.core.model.addresses import workflow_address
from assay.core.model.duration import Duration
from assay.core.model.errors import NotFound
from assay.core.model.ids import RunKey
from assay.sdk.client.records import StartRecord, WorkflowRecord

if TYPE_CHECKING:
    from assay.sdk.client.client import Client

Result = TypeVar("Result", covariant=True)


class Handle(Generic[Result]):
    """A run that a start created (`started` is True) or attached to.

    `result` waits for this run and for the runs that continue it. Every other call addresses the current run of the
    workflow id, so that a handle remains valid after continue-as-new.

    Attributes:
        started: True if the start created the run.
        status: The run's status at the time of the start; `describe` returns the current one.
    """

    __slots__ = ("_annotation", "_client", "_key", "started", "status")

    def __init__(self, client: Client, key: RunKey, annotation: Any = Any, *, started: bool, status: str) -> None:
        self._client = client
        self._key = key
        self._annotation = annotation
        self.started = started
        self.status = status

    @property
    def namespace(self) -> str:
        """Return the namespace of the workflow id."""
        return self._key.namespace

    @property
    def workflow_id(self) -> str:
        """Return the workflow id, which names the whole chain of runs."""
        return self._key.workflow_id

    @property
    def run_id(self) -> str:
        """Return the id of the run."""
        return self._key.run_id

    @property
    def pid(self) -> str:
        """Return the address of the workflow id, for messages and watches."""
        return workflow_address(self.namespace, self.workflow_id)

    async def result(self) -> Result:
        """Wait for the end of the workflow.

        Returns:
            The result of the last run in the chain, decoded by the workflow's return annotation.

        Raises:
            WorkflowFailed: The workflow failed; `WorkflowCancelled`, `WorkflowTerminated` and `WorkflowTimedOut`
                likewise.
        """
        found: Result = await self._client._wait(self._key, self._annotation)
        return found

    async def signal(self, name: str, payload: Any = None) -> None:
        """Send a signal to the current run.

        Args:
            name: The signal's name.
            payload: The signal's payload.

        Raises:
            NotFound: The workflow has no open run.
        """
        await self._client.signal(self.workflow_id, name, payload, namespace=self.namespace)

    async def query(self, name: str) -> Any:
        """Return the latest answer of a query.

        Args:
            name: The query's name.

        Returns:
            The value that the query function returned after the last step of the run.

        Raises:
            NotFound: The run has no such query, or has not run yet.
        """
        return await self._client.query(self.workflow_id, name, namespace=self.namespace)

    async def cancel(self, reason: str | None = None, deadline: Duration | None = None) -> None:
        """Request the cancellation of the current run.

        Args:
            reason: The reason, which is recorded.
            deadline: A time from now, after which a run that is still open is terminated.

        Raises:
            NotFound: The workflow has no open run.
        """
        await self._client.cancel(self.workflow_id, reason, deadline, namespace=self.namespace)

    async def terminate(self, reason: str | None = None) -> None:
        """End the current run at once, without running its code.

        Args:
            reason: The reason, which is recorded.

        Raises:
            NotFound: The workflow has no open run.
        """
        await self._client.terminate(self.workflow_id, reason, namespace=self.namespace)

    async def describe(self) -> WorkflowRecord:
        """Return the record of the current run.

        Returns:
            The run's record.

        Raises:
            NotFound: The engine no longer has the run.
        """
        record = await self._client.describe(self.workflow_id, namespace=self.namespace)
        if record is None:
            raise NotFound(f"workflow {self.workflow_id} not found")
        return record

    def record(self) -> StartRecord:
        """Return the engine's answer to the start.

        Returns:
            A record with the ids, the status and `started`.
        """
        return StartRecord(
            workflow_id=self.workflow_id,
            run_id=self.run_id,
            status=self.status,
            started=self.started,
            pid=self.pid,
        )

    def __repr__(self) -> str:
        return f"Handle(workflow_id={self.workflow_id!r}, run_id={self.run_id!r})"
