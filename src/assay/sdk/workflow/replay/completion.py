"""The product of running workflow code: a completion, with commands and steps."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from assay.core.model.commands import AnyCommand
from assay.core.model.policies import RetryPolicy
from assay.sdk.workflow.replay.determinism import WorkflowFuture


class StepOrder(msgspec.Struct, frozen=True):
    """An inline step as ordered by code; `attempt` is the number of its first attempt.

    `input_hash` is of the arguments at the time of the call: the step may change them, and a replay does not run it.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    retry: RetryPolicy
    timeout: float | None = None
    attempt: int = 1
    input_hash: str | None = None


class StepCall(msgspec.Struct, frozen=True):
    """An inline step that the worker starts as soon as the preceding commands are durable."""

    seq: int
    order: StepOrder


class PausePoint(WorkflowFuture):
    """The place where a speculative turn stops. A replay has none, so it has no number, and no cancel ends it early."""

    __slots__ = ()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.order = 0

    def cancel(self, msg: Any = None) -> bool:
        return False


class ChildFuture(WorkflowFuture):
    """The future result of a child, with the facts that its parent's code has about it."""

    __slots__ = (
        "linked", "monitored", "pid", "sent", "seq", "spawned", "unstarted", "workflow_id", "workflow_type",
    )  # fmt: skip
    seq: int
    workflow_type: str
    workflow_id: str
    pid: str
    spawned: bool
    monitored: bool
    """True if the end of the child is an event for the code; of a spawned child, unless code ends the monitor."""
    linked: bool
    unstarted: bool
    """True if the history has the failure of this child's start."""
    sent: asyncio.Future[None] | None
    """The time when a spawned child is ordered, if the run has too many children before."""

    def describe(self, seq: int, workflow_type: str, workflow_id: str, pid: str) -> None:
        """Set the facts; asyncio creates the future without arguments."""
        self.seq, self.workflow_type, self.workflow_id, self.pid = seq, workflow_type, workflow_id, pid
        self.unstarted, self.sent = False, None
        self.spawned = self.monitored = self.linked = False


class Completion(msgspec.Struct, frozen=True):
    """The result of an activation: the commands of a turn, in order, and the steps to start.

    `paused` is True if a speculative turn stopped at a side effect, and resumes when it is accepted. `failure` is the
    reason and the message of a failed task. `deadlock` is a sentence about code that waits for nothing that can come.
    """

    commands: tuple[AnyCommand, ...] = ()
    steps: tuple[StepCall, ...] = ()
    paused: bool = False
    closes: bool = False
    failure: tuple[str, str] | None = None
    deadlock: str | None = None

    @property
    def is_plain(self) -> bool:
        """Return True if the completion orders steps and nothing more."""
        return bool(self.steps) and not (self.commands or self.paused or self.closes or self.failure)
