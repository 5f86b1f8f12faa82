"""Mailboxes of programs outside of workflows, and the mail in them."""

from typing import Final

import msgspec

from assay.core.model.ids import SECOND, RunId, Time
from assay.core.model.payload import Payload

MAILBOX_LIFETIME: Final[Time] = 120 * SECOND
"""How long a mailbox lives after its last use."""
MAIL_PAGE: Final = 1_000


class OpenMailbox(msgspec.Struct, frozen=True, gc=False):
    """A mailbox: its address, its namespace and id, and the time at which it ends unless it is used."""

    address: str
    namespace: str
    mailbox_id: str
    expires_at: Time


class Letter(msgspec.Struct, frozen=True, gc=False):
    """A message on its way to a mailbox; `re` is the number of the request that it answers."""

    mailbox: str
    topic: str
    args: Payload
    at: Time
    sender: str | None = None
    re: int | None = None
    owner: RunId = RunId("")
    """The delivery that is lost if the mailbox does not exist."""


class StoredLetter(msgspec.Struct, frozen=True, gc=False):
    """A message in a mailbox; seqs are dense from 1."""

    seq: int
    topic: str
    sender: str | None
    args: Payload
    re: int | None
    at: Time
