"""The port of failure groups."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from assay.core.model.attached_rows import AuditRow
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId, Time
from assay.core.rules.failure_groups import FailureGroup


class Failures(Protocol):
    """Reads and changes of failure groups; the runs of a group are added by the transaction that ends them."""

    async def groups(self, namespace: str, since: Time, limit: int) -> Sequence[FailureGroup]:
        """Return the groups with a failure after a time, the latest failure first."""
        ...

    async def group(self, namespace: str, fingerprint: str) -> FailureGroup | None:
        """Return a group, or None."""
        ...

    async def per_hour(self, namespace: str, fingerprints: Sequence[str], start: Time) -> Mapping[str, Sequence[int]]:
        """Return the numbers of failures of groups in each of the 24 hours after a time."""
        ...

    async def sample(self, namespace: str, fingerprint: str) -> tuple[str, RunId] | None:
        """Return workflow id and run id of the newest run of a group."""
        ...

    async def change(self, group: FailureGroup, audit: AuditRow | None) -> None:
        """Write what people said about a group."""
        ...

    async def failing(self, namespace: str, limit: int) -> Sequence[tuple[RunId, str, str, str, FailureInfo, Time]]:
        """Return activities between two tries: run, workflow id, workflow type, activity, last failure and its time."""
        ...
