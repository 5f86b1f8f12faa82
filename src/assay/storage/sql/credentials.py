"""API keys, sessions and tickets in either database.

Each change of keys or sessions first updates the single row of `credential_changes`. The lock of the row serializes the
changes of all engines, and its number shows every engine that keys have changed.
"""

# ruff: noqa: S608  # the names of columns are a constant of this file; values are parameters

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from assay.core.model.attached_rows import NO_ROWS, AttachedRows
from assay.core.model.ids import Time
from assay.storage.credential_rows import KeyRow, SessionRow
from assay.storage.sql.attached import Statement, attached_statements
from assay.storage.sql.registry import KEEP_SECRET, Rows

_names = msgspec.json.Decoder(tuple[str, ...]).decode

_KEY: Final = "digest, prefix, label, role, namespaces, queues, created_at, expires_at, revoked_at, last_used_at"

CHANGES: Final = "SELECT number FROM credential_changes WHERE id = 1"
NOTE_CHANGE: Final = """
INSERT INTO credential_changes (id, number) VALUES (1, 1)
ON CONFLICT (id) DO UPDATE SET number = credential_changes.number + 1"""
KEYS: Final = f"SELECT {_KEY} FROM api_keys ORDER BY created_at DESC, prefix"
ANY_KEY: Final = "SELECT 1 FROM secrets WHERE name = 'bootstrap'"
LIVE_KEY_OF_LABEL: Final = f"""
SELECT {_KEY} FROM api_keys
WHERE label = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)
ORDER BY created_at, prefix LIMIT 1"""
ADD_KEY: Final = f"""
INSERT INTO api_keys ({_KEY}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"""
ADD_KEY_OF_NEW_LABEL: Final = f"""
INSERT INTO api_keys ({_KEY}) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
WHERE NOT EXISTS (SELECT 1 FROM api_keys k WHERE k.label = $3 AND k.revoked_at IS NULL
    AND (k.expires_at IS NULL OR k.expires_at > $7))"""
ADD_FIRST_KEY: Final = f"""
INSERT INTO api_keys ({_KEY}) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
WHERE NOT EXISTS (SELECT 1 FROM secrets WHERE name = 'bootstrap')"""
ADD_SUCCESSOR: Final = f"""
INSERT INTO api_keys ({_KEY}) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
WHERE EXISTS (SELECT 1 FROM api_keys k WHERE k.prefix = $11 AND k.revoked_at IS NULL) RETURNING digest"""
ADDED: Final = "EXISTS (SELECT 1 FROM api_keys WHERE digest = {0})"
REVOKED: Final = "EXISTS (SELECT 1 FROM api_keys WHERE prefix = {0} AND revoked_at = {1})"
REVOKE: Final = "UPDATE api_keys SET revoked_at = $2 WHERE prefix = $1 AND revoked_at IS NULL RETURNING prefix"
EXPIRE: Final = """
UPDATE api_keys SET expires_at = $2 WHERE prefix = $1 AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > $2)"""
USED: Final = "UPDATE api_keys SET last_used_at = $2 WHERE digest = $1"
ADD_SESSION: Final = """
INSERT INTO sessions (digest, user_name, credential, roles, queues, csrf, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""
SESSION: Final = """
SELECT digest, user_name, credential, roles, queues, csrf, created_at, expires_at FROM sessions
WHERE digest = $1 AND expires_at > $2"""
END_SESSION: Final = "DELETE FROM sessions WHERE digest = $1 RETURNING digest"
END_SESSIONS_OF_KEY: Final = "DELETE FROM sessions WHERE credential = $1"
FORGET_SESSIONS: Final = "DELETE FROM sessions WHERE expires_at <= $1"
ADD_TICKET: Final = "INSERT INTO stream_tickets (digest, content, expires_at) VALUES ($1, $2, $3)"
TAKE_TICKET: Final = "DELETE FROM stream_tickets WHERE digest = $1 AND expires_at > $2 RETURNING content"
FORGET_TICKETS: Final = "DELETE FROM stream_tickets WHERE expires_at <= $1"


class CredentialDatabase(Protocol):
    """The calls of a store that credentials need."""

    async def query(self, text: str, *arguments: object) -> Rows:
        """Return the rows of a query."""
        ...

    async def change(self, statements: Sequence[Statement]) -> Sequence[Rows]:
        """Execute statements in one transaction; return the rows of each."""
        ...


class SqlCredentials:
    """See `Credentials`."""

    def __init__(self, store: CredentialDatabase) -> None:
        self._store = store

    async def changes(self) -> int:
        """See `Credentials`."""
        found = await self._store.query(CHANGES)
        return int(found[0][0]) if found else 0

    async def keys(self) -> Sequence[KeyRow]:
        """See `Credentials`."""
        return [_key(row) for row in await self._store.query(KEYS)]

    async def had_key(self) -> bool:
        """See `Credentials`."""
        return bool(await self._store.query(ANY_KEY))

    async def add_key(self, row: KeyRow, rows: AttachedRows = NO_ROWS) -> None:
        """See `Credentials`."""
        await self._add(ADD_KEY, row, rows)

    async def add_first_key(self, row: KeyRow, rows: AttachedRows = NO_ROWS) -> bool:
        """See `Credentials`."""
        return await self._add(ADD_FIRST_KEY, row, rows)

    async def add_key_of_label(self, row: KeyRow, rows: AttachedRows = NO_ROWS) -> KeyRow:
        """See `Credentials`."""
        await self._add(ADD_KEY_OF_NEW_LABEL, row, rows)
        return _key((await self._store.query(LIVE_KEY_OF_LABEL, row.label, row.created_at))[0])

    async def _add(self, statement: str, row: KeyRow, rows: AttachedRows) -> bool:
        added, *_ = (
            await self._store.change(
                [
                    (NOTE_CHANGE, ()),
                    (f"{statement} RETURNING digest", _cells(row)),
                    (KEEP_SECRET, ("bootstrap", b"")),
                    *attached_statements(rows, ADDED, row.digest),
                ]
            )
        )[1:]
        return bool(added)

    async def revoke(self, prefix: str, now: Time, rows: AttachedRows = NO_ROWS) -> bool:
        """See `Credentials`."""
        attached = attached_statements(rows, REVOKED, prefix, now)
        _, revoked, *_ = await self._store.change(
            [(NOTE_CHANGE, ()), (REVOKE, (prefix, now)), (END_SESSIONS_OF_KEY, (prefix,)), *attached]
        )
        return bool(revoked)

    async def rotate(self, prefix: str, expires_at: Time, row: KeyRow, rows: AttachedRows = NO_ROWS) -> bool:
        """See `Credentials`."""
        _, added, *_ = await self._store.change(
            [
                (NOTE_CHANGE, ()),
                (ADD_SUCCESSOR, (*_cells(row), prefix)),
                (EXPIRE, (prefix, expires_at)),
                *attached_statements(rows, ADDED, row.digest),
            ]
        )
        return bool(added)

    async def used(self, digest: str, now: Time) -> None:
        """See `Credentials`."""
        await self._store.change([(USED, (digest, now))])

    async def add_session(self, row: SessionRow) -> None:
        """See `Credentials`."""
        cells = (row.digest, row.user_name, row.credential, row.roles, row.queues, row.csrf)
        await self._store.change(
            [(FORGET_SESSIONS, (row.created_at,)), (ADD_SESSION, (*cells, row.created_at, row.expires_at))]
        )

    async def session(self, digest: str, now: Time) -> SessionRow | None:
        """See `Credentials`."""
        found = await self._store.query(SESSION, digest, now)
        return _session(found[0]) if found else None

    async def end_session(self, digest: str) -> bool:
        """See `Credentials`."""
        _, ended = await self._store.change([(NOTE_CHANGE, ()), (END_SESSION, (digest,))])
        return bool(ended)

    async def add_ticket(self, digest: str, content: bytes, expires_at: Time, now: Time) -> None:
        """See `Credentials`."""
        await self._store.change([(FORGET_TICKETS, (now,)), (ADD_TICKET, (digest, content, expires_at))])

    async def take_ticket(self, digest: str, now: Time) -> bytes | None:
        """See `Credentials`."""
        (taken,) = await self._store.change([(TAKE_TICKET, (digest, now))])
        return bytes(taken[0][0]) if taken else None


def _cells(row: KeyRow) -> tuple[object, ...]:
    names = msgspec.json.encode(row.namespaces), None if row.queues is None else msgspec.json.encode(row.queues)
    times = row.created_at, row.expires_at, row.revoked_at, row.last_used_at
    return (row.digest, row.prefix, row.label, row.role, *names, *times)


def _key(row: Sequence[Any]) -> KeyRow:
    digest, prefix, label, role, namespaces, queues, created_at, expires_at, revoked_at, last_used_at = row
    return KeyRow(
        digest=digest,
        prefix=prefix,
        label=label,
        role=role,
        namespaces=_names(namespaces),
        queues=None if queues is None else _names(queues),
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        last_used_at=last_used_at,
    )


def _session(row: Sequence[Any]) -> SessionRow:
    digest, user_name, credential, roles, queues, csrf, created_at, expires_at = row
    return SessionRow(
        digest=digest,
        user_name=user_name,
        credential=credential,
        roles=bytes(roles),
        queues=None if queues is None else bytes(queues),
        csrf=csrf,
        created_at=created_at,
        expires_at=expires_at,
    )
