"""The state of an update: a request to a run whose caller waits for an answer."""

from typing import Final

import msgspec

from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId
from assay.core.model.payload import NULL, Payload

RECEIVED, ACCEPTED, COMPLETED, REJECTED, FAILED = "received", "accepted", "completed", "rejected", "failed"
UPDATE_STATUSES: Final = (RECEIVED, ACCEPTED, COMPLETED, REJECTED, FAILED)
FINAL_STATUSES: Final = (COMPLETED, REJECTED, FAILED)

ACK, NAK, OK, ERROR = "ack", "nak", "ok", "error"
ANSWERS: Final = (ACK, NAK, OK, ERROR)
"""The answers to an update, which are also the topics of replies to messages."""


class UpdateState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An update of a run, as of its last event."""

    run_id: RunId
    update_id: str
    status: str
    result: Payload = NULL
    failure: FailureInfo | None = None

    @property
    def is_final(self) -> bool:
        """Return whether the update has its outcome."""
        return self.status in FINAL_STATUSES
