"""The end of a run's code, and the command that closes the run."""

import asyncio
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import Failure, Invalid, Kind
from assay.core.model.events import Recorded
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import RetryPolicy
from assay.sdk.client.recorded_results import encode_result
from assay.sdk.values.converter import Converter
from assay.sdk.values.failures import judged, shown, to_info
from assay.sdk.workflow.replay.cancellation import Cancellation
from assay.sdk.workflow.replay.exceptions import Intrusion, TaskFailed, defect_in, ending_in, next_run
from assay.sdk.workflow.replay.loop import WorkflowLoop
from assay.sdk.workflow.replay.mailbox import Mailbox
from assay.sdk.workflow.replay.peers import Peers
from assay.sdk.workflow.replay.task_errors import exception_of, is_unretrieved

CARRIED_INPUTS = (ev.SignalReceived, ev.WorkflowCancelRequested, ev.PeerExited)
"""Inputs that are carried over to the next run if the code ended before they were applied."""


class Closing:
    """The end of one run, seen from its code."""

    __slots__ = (
        "_annotation", "_cancellation", "_converter", "_loop", "_mailbox", "error", "peers", "policy", "unretrieved",
        "waits",
    )  # fmt: skip

    def __init__(
        self,
        converter: Converter,
        loop: WorkflowLoop,
        mailbox: Mailbox,
        cancellation: Cancellation,
        annotation: Any,
        *,
        waits: bool,
    ) -> None:
        self._converter = converter
        self._annotation = annotation
        self._loop = loop
        self._mailbox = mailbox
        self._cancellation = cancellation
        self.peers: Peers | None = None
        self.policy: RetryPolicy | None = None
        """The run's own retry policy, which marks failures as final."""
        self.waits = waits
        """True if an exception other than a `Failure` fails the task and leaves the run open."""
        self.unretrieved: list[asyncio.Task[Any]] = []
        """Failed tasks; an exception that no code has retrieved when the main coroutine returns fails the run."""
        self.error: BaseException | None = None
        """The exception that the code ended with, if it failed."""

    def command(self, main: "asyncio.Task[Any]", unapplied: Iterable[Recorded]) -> cmd.AnyCommand:
        """Return the command that closes the run; raise `TaskFailed` if the run is to wait for fixed code.

        `unapplied` are the inputs that the code did not receive because it ended first.
        """
        error = self._raised(main)
        if error is None:
            return self._completed(main.result())
        following = next_run(error)
        if following is not None:
            return msgspec.structs.replace(following, unread=self._unread(unapplied))
        return self._cancelled() if isinstance(error, asyncio.CancelledError) else self._failed(error)

    def exception(self, main: "asyncio.Task[Any]") -> Exception | None:
        """Return the exception that ended the code; None if it returned, was cancelled or began the next run."""
        error = self._raised(main)
        return error if isinstance(error, Exception) else None

    def prevented(self, error: Exception, step: str | None) -> TaskFailed:
        """Return the failure of a task whose code raised `error` on a replay, before the recorded `step`."""
        self.error = error
        before = "" if step is None else f", before {step}"
        info = to_info(error)
        named = info.message if info.message == info.type else f"{info.type or 'Failure'}: {info.message}"
        place = _place_of(error)
        return TaskFailed(f"the code raised {named}{place}{before}. The run goes on when fixed code is deployed")

    def _raised(self, main: "asyncio.Task[Any]") -> BaseException | None:
        """Return the exception that ended the code, or None if it returned."""
        if self._loop.errors:
            return self._loop.errors[0]
        try:
            error = ending_in(main.exception())
        except asyncio.CancelledError as cancelled:
            notice = cancelled.args[0] if cancelled.args else None
            # It arrived between the last await and the return.
            return notice.exception if isinstance(notice, Intrusion) else cancelled
        return self._overlooked() if error is None else error

    def _overlooked(self) -> BaseException | None:
        """Return an exception that was raised beside the main coroutine and that no code has received, or None."""
        intrusion = self._cancellation.intrusion
        if intrusion is not None and not intrusion.delivered:
            return intrusion.exception
        return next((exception_of(task) for task in self.unretrieved if is_unretrieved(task)), None)

    def _unread(self, unapplied: Iterable[Recorded]) -> tuple[int, ...]:
        """Return the seqs of the signals that the code has not received.

        An unapplied cancel request is carried over too: it was acknowledged, and asks the whole chain to end (I1).
        """
        carried = (recorded.seq for recorded in unapplied if isinstance(recorded.event, CARRIED_INPUTS))
        events = () if self.peers is None else self.peers.unread()
        return tuple(sorted((*self._mailbox.unread(), *events, *carried)))

    def _failed(self, error: BaseException) -> cmd.FailWorkflow:
        self.error = error
        self._wait_for_fix(error)
        info = to_info(error, source="workflow")
        if self.policy is not None:
            info = judged(info, error, self.policy)
        return cmd.FailWorkflow(info.message or type(error).__name__, info)

    def _wait_for_fix(self, error: BaseException) -> None:
        """Raise `TaskFailed` if the run is to wait for code that does not end with `error`."""
        defect = defect_in(error) if self.waits else None
        if defect is not None:
            infos = [to_info(one) for one in ((defect,) if defect is error else (error, defect))]
            raise TaskFailed(": ".join(f"{info.type}: {info.message}" for info in infos))

    def _cancelled(self) -> cmd.AnyCommand:
        cancellation = self._cancellation
        if cancellation.requested or cancellation.by_code:
            return cmd.CancelWorkflow(cancellation.reason)
        return self._failed(
            Failure("the workflow awaited a task or future that it had itself cancelled", kind=Kind.CANCELED)
        )

    def _completed(self, result: Any) -> cmd.AnyCommand:
        try:
            raw = encode_result(self._converter, result, "result", self._annotation)
        except Invalid as error:
            return self._failed(error)
        return cmd.CompleteWorkflow(NULL if raw == b"null" else Payload(raw))


def _place_of(error: BaseException) -> str:
    """Return the file and line of the user's code that raised an error, for messages."""
    trace = shown(error)
    if trace is None:
        return ""
    *_, (frame, line) = traceback.walk_tb(trace[2])
    return f" at {Path(frame.f_code.co_filename).name}:{line}"
