"""Reports of a worker without an answer."""

import logging
from typing import Any, Final

import msgspec

from assay.core.model.errors import AssayError
from assay.core.model.replies import ReplyCallback
from assay.core.model.requests import ToRun
from assay.worker_protocol import messages as wire

log = logging.getLogger("assay.worker")


class HeartbeatReply(msgspec.Struct, frozen=True):
    """The reply to a heartbeat or an extension."""

    cancel_requested: bool


HEARTBEAT_REPLIES: Final = HeartbeatReply(False), HeartbeatReply(True)


class Unacknowledged(msgspec.Struct, frozen=True):
    """A report, repeated until its answer arrives; `request` is None for a read of a history."""

    report: wire.Report
    request: ToRun | None
    callback: ReplyCallback

    def settle(self, reply: Any, error: AssayError | None = None) -> None:
        """Call back with the outcome; an exception of the callback must not affect other reports."""
        try:
            self.callback(reply, error)
        except Exception:
            log.exception("the callback of a report raised an error")
