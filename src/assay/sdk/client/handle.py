"""What a start returns: a run to wait for, to talk to and to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from assay.core.model.duration import Duration
from assay.core.model.errors import NotFound
from assay.core.model.ids import RunKey
from assay.sdk.client.records import StartRecord, WorkflowRecord

if TYPE_CHECKING:
    from assay.sdk.client.client import Client

Result = TypeVar("Result", covariant=True)


class Handle(Generic[Result]):
    """A run that was started, or one that was there already (`started` is False).

    `result` waits for this run and those that follow it; everything else goes to the current run of the workflow id,
    so that a handle outlives continue-as-new.
    """

    __slots__ = ("_annotation", "_client", "_key", "started", "status")

    def __init__(self, client: Client, key: RunKey, annotation: Any = Any, *, started: bool, status: str) -> None:
        self._client = client
        self._key = key
        self._annotation = annotation
        self.started = started
        self.status = status
        """Its status when it was started; `describe` has the one of now."""

    @property
    def namespace(self) -> str:
        """The namespace of the workflow id."""
        return self._key.namespace

    @property
    def workflow_id(self) -> str:
        """The workflow id, which names the whole chain of runs."""
        return self._key.workflow_id

    @property
    def run_id(self) -> str:
        """The id of the run that was started."""
        return self._key.run_id

    async def result(self) -> Result:
        """Wait for the end: the result, or an exception that says how it ended."""
        found: Result = await self._client._wait(self._key, self._annotation)
        return found

    async def signal(self, name: str, payload: Any = None) -> None:
        """Send a signal."""
        await self._client.signal(self.workflow_id, name, payload, namespace=self.namespace)

    async def query(self, name: str) -> Any:
        """What a query answered last."""
        return await self._client.query(self.workflow_id, name, namespace=self.namespace)

    async def cancel(self, reason: str | None = None, deadline: Duration | None = None) -> None:
        """Ask it to end."""
        await self._client.cancel(self.workflow_id, reason, deadline, namespace=self.namespace)

    async def terminate(self, reason: str | None = None) -> None:
        """End it without asking."""
        await self._client.terminate(self.workflow_id, reason, namespace=self.namespace)

    async def describe(self) -> WorkflowRecord:
        """Its record."""
        record = await self._client.describe(self.workflow_id, namespace=self.namespace)
        if record is None:
            raise NotFound(f"workflow {self.workflow_id} not found")
        return record

    def record(self) -> StartRecord:
        """The answer to the start as a record."""
        return StartRecord(
            workflow_id=self.workflow_id,
            run_id=self.run_id,
            status=self.status,
            started=self.started,
            pid=f"wf://{self.namespace}/{self.workflow_id}",
        )

    def __repr__(self) -> str:
        return f"Handle(workflow_id={self.workflow_id!r}, run_id={self.run_id!r})"
