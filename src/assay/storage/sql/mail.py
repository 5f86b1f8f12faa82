"""Mailboxes for both databases. The row of a mailbox is locked while a message gets its seq: mail appears in order."""

from collections.abc import Sequence
from typing import Any

from assay.core.model.ids import Time
from assay.core.model.mailboxes import MAIL_PAGE, MAILBOX_LIFETIME, Letter, OpenMailbox, StoredLetter
from assay.core.model.payload import Payload

OPEN_MAILBOX = """
INSERT INTO mailboxes (address, namespace, mailbox_id, next_seq, expires_at) VALUES ($1, $2, $3, 1, $4)
ON CONFLICT (address) DO UPDATE SET expires_at = excluded.expires_at"""
FIND_MAILBOX = "SELECT address, namespace, mailbox_id, expires_at FROM mailboxes WHERE address = $1 AND expires_at > $2"
TAKE_SEQ = "UPDATE mailboxes SET next_seq = next_seq + 1 WHERE address = $1 AND expires_at > $2 RETURNING next_seq - 1"
PUT_LETTER = """
INSERT INTO mailbox_messages (mailbox, seq, topic, sender, args, re, at)
SELECT address, next_seq - 1, $3, $4, $5, $6, $7 FROM mailboxes WHERE address = $1 AND expires_at > $2"""
USE_MAILBOX = "UPDATE mailboxes SET expires_at = $2 WHERE address = $1 AND expires_at > $3 RETURNING address"
FORGET_LETTERS = "DELETE FROM mailbox_messages WHERE mailbox = $1 AND seq <= $2"
LETTERS = """
SELECT seq, topic, sender, args, re, at FROM mailbox_messages WHERE mailbox = $1 AND seq > $2 ORDER BY seq LIMIT $3"""
DELETE_MAILBOX = "DELETE FROM mailboxes WHERE address = $1 RETURNING address"
DELETE_LETTERS = "DELETE FROM mailbox_messages WHERE mailbox = $1"
DELETE_EXPIRED_LETTERS = """
DELETE FROM mailbox_messages WHERE mailbox IN (SELECT address FROM mailboxes WHERE expires_at <= $1)"""
DELETE_EXPIRED = "DELETE FROM mailboxes WHERE expires_at <= $1"

Statements = Sequence[tuple[str, tuple[object, ...]]]


def put_statements(letter: Letter, now: Time) -> tuple[tuple[str, tuple[object, ...]], tuple[str, tuple[object, ...]]]:
    """Return the statements that put a letter into its mailbox; the first returns no row for a missing mailbox."""
    fields = (letter.topic, letter.sender, bytes(letter.args), letter.re, letter.at)
    return (TAKE_SEQ, (letter.mailbox, now)), (PUT_LETTER, (letter.mailbox, now, *fields))


class SqlMail:
    """The mailboxes of `Store`."""

    async def change(self, statements: Statements) -> Sequence[Sequence[Sequence[Any]]]:
        """Execute statements in one transaction; return the rows of each."""
        raise NotImplementedError(statements)

    async def open_mailbox(self, mailbox: OpenMailbox, now: Time) -> bool:
        """See `Store`."""
        (*_, found, _) = await self.change(
            [
                (DELETE_EXPIRED_LETTERS, (now,)),
                (DELETE_EXPIRED, (now,)),
                (FIND_MAILBOX, (mailbox.address, now)),
                (OPEN_MAILBOX, (mailbox.address, mailbox.namespace, mailbox.mailbox_id, mailbox.expires_at)),
            ]
        )
        return not found

    async def has_mailbox(self, address: str, now: Time) -> bool:
        """See `Store`."""
        (found,) = await self.change([(FIND_MAILBOX, (address, now))])
        return bool(found)

    async def put_letter(self, letter: Letter, now: Time) -> bool:
        """See `Store`."""
        found, _ = await self.change(put_statements(letter, now))
        return bool(found)

    async def letters(self, address: str, after: int, now: Time) -> Sequence[StoredLetter] | None:
        """See `Store`."""
        used, _, found = await self.change(
            [
                (USE_MAILBOX, (address, now + MAILBOX_LIFETIME, now)),
                (FORGET_LETTERS, (address, after)),
                (LETTERS, (address, after, MAIL_PAGE)),
            ]
        )
        if not used:
            return None
        return [
            StoredLetter(seq, topic, sender, Payload(bytes(args)), re, at) for seq, topic, sender, args, re, at in found
        ]

    async def delete_mailbox(self, address: str) -> bool:
        """See `Store`."""
        _, found = await self.change([(DELETE_LETTERS, (address,)), (DELETE_MAILBOX, (address,))])
        return bool(found)
