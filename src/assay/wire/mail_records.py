"""Response bodies of mailboxes."""

from typing import Any

import msgspec


class MailboxRecord(msgspec.Struct, kw_only=True):
    """A mailbox; `pid` is its address."""

    mailbox_id: str
    pid: str
    expires_at: float


class MailRecord(msgspec.Struct, kw_only=True):
    """A message in a mailbox; `re` is the number of the request that it answers."""

    seq: int
    topic: str
    sender: str | None = msgspec.field(name="from")
    args: Any
    at: float
    re: int | msgspec.UnsetType = msgspec.UNSET
