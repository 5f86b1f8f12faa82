"""The `ctx` of activity code: facts about the attempt, and heartbeats."""

import logging
from collections.abc import Callable, MutableMapping
from typing import Any, Protocol

import msgspec

from assay.sdk.workflow.carried import Carried, CarriedValues
from assay.sdk.workflow.replay.exceptions import CancelRequested


class ActivityInfo(msgspec.Struct, frozen=True):
    """Identity of an attempt: its activity, its run and its number."""

    name: str
    activity_id: int
    attempt: int
    workflow_id: str
    run_id: str
    workflow_type: str
    namespace: str
    task_queue: str


class HeartbeatSink(Protocol):
    """The receiver of heartbeats; called from the thread or process that runs the activity."""

    def __call__(self, details: Any) -> bool:
        """Send a heartbeat; return True if the attempt is to stop."""
        ...


class _RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that adds the facts of an attempt to those of a call."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}


class ActivityContext(CarriedValues):
    """The `ctx` of an activity.

    Args:
        info: Returns the facts of the attempt.
        details: The last heartbeat details of the previous attempt.
        beat: Receives the heartbeats.
        carried: Returns the values that the run carries from its caller.
    """

    def __init__(
        self,
        info: Callable[[], ActivityInfo],
        details: Any,
        beat: HeartbeatSink,
        carried: Callable[[], Carried] = Carried,
    ) -> None:
        self._info = info
        self._read_carried = carried
        self._details = details
        self._beat = beat

    def _carried(self) -> Carried:
        return self._read_carried()

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """Return a logger whose records have the fields `workflow_id`, `run_id` and `attempt`."""
        info = self.info()
        facts = {"workflow_id": info.workflow_id, "run_id": info.run_id, "attempt": info.attempt}
        return _RunLogger(logging.getLogger(f"assay.activity.{info.name}"), facts)

    def info(self) -> ActivityInfo:
        """Return facts about this attempt.

        Returns:
            The ids of the activity and its run, and the number of the attempt.
        """
        return self._info()

    @property
    def heartbeat_details(self) -> Any:
        """Return the last heartbeat details of the previous attempt, or None."""
        return self._details

    def heartbeat(self, details: Any = None) -> None:
        """Report that the attempt is alive; required for activities with `heartbeat_timeout_secs`.

        Args:
            details: The progress so far; the next attempt reads it as `heartbeat_details` if this one fails.

        Raises:
            CancelRequested: The attempt is to stop: the activity was cancelled, or its result is no longer awaited.
        """
        if self._beat(details):
            raise CancelRequested("the activity is no longer wanted")
