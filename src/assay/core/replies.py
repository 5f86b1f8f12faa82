"""What decisions answer to their callers."""

import msgspec

from assay.core.ids import RunKey


class Started(msgspec.Struct, frozen=True):
    """A start's answer; `started` is False when an existing run was used (C22)."""

    key: RunKey
    status: str
    started: bool


class Reopened(msgspec.Struct, frozen=True):
    """A retry's answer: the new run, its activity that is tried again, and how many later ones were given up (R20)."""

    key: RunKey
    activity_id: int
    invalidated: int


class Advanced(msgspec.Struct, frozen=True):
    """A turn's answer: were its commands accepted, and what the worker must know to go on.

    `recorded` tells for each outcome whether it became an event, even when the commands were refused (R8).
    """

    accepted: bool
    code: str | None = None
    last_seq: int = 0
    seen_seq: int = 0
    epoch: int = 0
    leased: bool = False
    closed: bool = False
    recorded: tuple[bool, ...] = ()
