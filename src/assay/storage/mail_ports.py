"""Parts of the port `Store`: values for metrics, and updates."""

from collections.abc import Sequence
from typing import Protocol

from assay.core.model.ids import RunId
from assay.core.model.update_states import UpdateState


class MeasuredStore(Protocol):
    """The values of a store that metrics show."""

    @property
    def wal_bytes(self) -> int | None:
        """Return the size of the write-ahead log; None for a store without its own log."""
        ...


class MailStore(Protocol):
    """The reads of updates."""

    async def updates(self, run_id: RunId, update_ids: Sequence[str]) -> Sequence[UpdateState]:
        """Return updates of a run; unknown ids are left out."""
        ...

    async def find_update(self, namespace: str, workflow_id: str, update_id: str) -> tuple[UpdateState, bool] | None:
        """Return the update of the newest run with this update id, and whether that run is closed; None if unknown."""
        ...
