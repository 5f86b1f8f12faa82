"""Reports that have no answer yet, and what they hear."""

import logging
from typing import Any, Final

import msgspec

from assay.core.errors import AssayError
from assay.core.replies import Told
from assay.core.requests import ToRun
from assay.wire import exchange as wire

log = logging.getLogger("assay.worker")


class Beaten(msgspec.Struct, frozen=True):
    """The answer to a sign of life."""

    cancel_requested: bool


BEATEN: Final = Beaten(False), Beaten(True)


class Waiting(msgspec.Struct, frozen=True):
    """A report that has no answer yet; one that is no request is a question."""

    report: wire.Report
    request: ToRun | None
    told: Told

    def settle(self, reply: Any, error: AssayError | None = None) -> None:
        """Tell the answer; whoever fails over it must not keep others from theirs."""
        try:
            self.told(reply, error)
        except Exception:
            log.exception("whoever heard an answer failed over it")
