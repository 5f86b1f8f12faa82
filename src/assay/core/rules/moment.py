"""The context of a decision beside its run and its request: the time, new ids, and the runs that commands name."""

from collections.abc import Mapping
from types import MappingProxyType

from assay.core.model.ids import Ids, Namespace, Time, WorkflowId
from assay.core.model.run import Run


class Unprepared(Exception):
    """Raised if rows that were read for a decision have changed since; the engine reads and decides again."""


NO_RUNS: Mapping[tuple[Namespace, WorkflowId], Run] = MappingProxyType({})


class Moment:
    """The context of one decision."""

    __slots__ = ("current", "history_full", "ids", "now")

    def __init__(
        self,
        now: Time,
        ids: Ids,
        current: Mapping[tuple[Namespace, WorkflowId], Run] = NO_RUNS,
        *,
        history_full: bool = False,
    ) -> None:
        self.now = now
        self.ids = ids
        self.current = current
        """The newest run of each workflow id that the request names, by namespace and workflow id."""
        self.history_full = history_full
        """True if the stored events of the run take more bytes than a history may."""
