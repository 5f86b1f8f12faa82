"""Events of other workflows and cancel requests, as workflow code receives them from `ctx.events()`."""

import datetime
from enum import StrEnum
from typing import Any

import msgspec

from assay.core.model.errors import Failure


class EventKind(StrEnum):
    """The kinds of events: the end of a watched workflow, the failed end of a linked one, and a cancel request."""

    EXIT = "pid.exit"
    LINK_DOWN = "pid.link.down"
    CANCEL = "pid.cancel"


class PeerEvent(msgspec.Struct, frozen=True):
    """An event about another workflow, or a cancel request.

    Attributes:
        kind: `EventKind.EXIT`, `EventKind.LINK_DOWN` or `EventKind.CANCEL`.
        from_: The address of the workflow that ended, as the code has named it; of CANCEL the requester, or None.
        at: The time of the event, in UTC.
        value: The result of a workflow that completed.
        error: The failure of a workflow that ended without a result: a `ChildError` for children.
        reason: The reason of a cancel request.
        deadline: The time after which a cancelled run is terminated, in UTC.
    """

    kind: EventKind
    from_: str | None
    at: datetime.datetime
    value: Any = None
    error: Failure | None = None
    reason: str | None = None
    deadline: datetime.datetime | None = None


Event = PeerEvent
"""The name that programs import."""
