"""Rules of the messages that a run accepts: their topics and their number."""

from assay.core.model.errors import AssayError, Invalid, Kind
from assay.core.model.limits import LIMITS
from assay.core.model.run import Run

RESERVED = "@"
"""The first character of topics that only the engine uses."""


class TooManyMessages(AssayError):
    """The run has too many messages that its code has not seen; the same message may be accepted later."""

    code = "too_many_messages"
    kind = Kind.RATE_LIMITED


def check_topic(topic: str) -> None:
    """Raise `Invalid` for a topic that only the engine may use."""
    if topic.startswith(RESERVED):
        raise Invalid(f"topics that begin with {RESERVED} are reserved: '{topic}'", field="topic")


def check_room(run: Run, count: int) -> None:
    """Raise `TooManyMessages` if the run has no room for more messages."""
    if len(run.unseen) + count > LIMITS.signals:
        raise TooManyMessages(no_room(run))


def no_room(run: Run) -> str:
    """Return the error for a message to a run with too many unseen messages."""
    return f"workflow {run.workflow_id} has {LIMITS.signals} messages that its code has not seen"
