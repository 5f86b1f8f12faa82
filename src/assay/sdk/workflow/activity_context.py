"""What activity code works with: who it is, and a way to say that it is alive."""

import logging
from collections.abc import Callable, MutableMapping
from typing import Any, Protocol

import msgspec

from assay.sdk.workflow.replay.exceptions import CancelRequested


class ActivityInfo(msgspec.Struct, frozen=True):
    """Which activity this is, of which run, and which attempt."""

    name: str
    activity_id: int
    attempt: int
    workflow_id: str
    run_id: str
    workflow_type: str
    namespace: str
    task_queue: str


class Beat(Protocol):
    """Where heartbeats go; called from whatever thread or process the activity runs in."""

    def __call__(self, details: Any) -> bool:
        """Send a heartbeat; True if the attempt is asked to stop."""
        ...


class _RunLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the facts of an attempt to those that a call has given."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}


class ActivityContext:
    """The `ctx` of an activity."""

    def __init__(self, info: Callable[[], ActivityInfo], details: Any, beat: Beat) -> None:
        self._info = info
        self._details = details
        self._beat = beat

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records have the `workflow_id`, the `run_id` and the `attempt` as fields."""
        info = self.info()
        facts = {"workflow_id": info.workflow_id, "run_id": info.run_id, "attempt": info.attempt}
        return _RunLogger(logging.getLogger(f"assay.activity.{info.name}"), facts)

    def info(self) -> ActivityInfo:
        """Facts about this attempt."""
        return self._info()

    @property
    def heartbeat_details(self) -> Any:
        """What the attempt before this one said last in its heartbeats, or None."""
        return self._details

    def heartbeat(self, details: Any = None) -> None:
        """Say that the attempt is alive, and where it is; raises `CancelRequested` when it is no longer wanted.

        Needed with `heartbeat_timeout_secs`; `details` are given to the next attempt if this one fails.
        """
        if self._beat(details):
            raise CancelRequested("the activity is no longer wanted")
