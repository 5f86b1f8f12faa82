"""The stores of authentication, on the tables of an engine's database."""

from collections.abc import Sequence

import msgspec

from assay.auth.api_keys import ApiKey
from assay.auth.permissions import Role
from assay.auth.sessions import BrowserSession
from assay.core.model.attached_rows import NO_ROWS, AttachedRows
from assay.core.model.ids import Time
from assay.storage.credential_rows import KeyRow, SessionRow
from assay.storage.sql.credentials import SqlCredentials


class StoredCredentials:
    """See `KeyStore` and `SessionStore`."""

    def __init__(self, rows: SqlCredentials) -> None:
        self._rows = rows

    async def changes(self) -> int:
        """See `KeyStore`."""
        return await self._rows.changes()

    async def keys(self) -> Sequence[ApiKey]:
        """See `KeyStore`."""
        return [_key(row) for row in await self._rows.keys()]

    async def had_key(self) -> bool:
        """See `KeyStore`."""
        return await self._rows.had_key()

    async def add_key(self, key: ApiKey, rows: AttachedRows = NO_ROWS) -> None:
        """See `KeyStore`."""
        await self._rows.add_key(_row(key), rows)

    async def add_first_key(self, key: ApiKey, rows: AttachedRows = NO_ROWS) -> bool:
        """See `KeyStore`."""
        return await self._rows.add_first_key(_row(key), rows)

    async def add_key_of_label(self, key: ApiKey, rows: AttachedRows = NO_ROWS) -> ApiKey:
        """See `KeyStore`."""
        return _key(await self._rows.add_key_of_label(_row(key), rows))

    async def rotate(self, prefix: str, expires_at: Time, successor: ApiKey, rows: AttachedRows = NO_ROWS) -> bool:
        """See `KeyStore`."""
        return await self._rows.rotate(prefix, expires_at, _row(successor), rows)

    async def revoke(self, prefix: str, now: Time, rows: AttachedRows = NO_ROWS) -> bool:
        """See `KeyStore`."""
        return await self._rows.revoke(prefix, now, rows)

    async def used(self, digest: str, now: Time) -> None:
        """See `KeyStore`."""
        await self._rows.used(digest, now)

    async def add_session(self, session: BrowserSession) -> None:
        """See `SessionStore`."""
        await self._rows.add_session(_session_row(session))

    async def session(self, digest: str, now: Time) -> BrowserSession | None:
        """See `SessionStore`."""
        row = await self._rows.session(digest, now)
        return None if row is None else _session(row)

    async def end_session(self, digest: str) -> bool:
        """See `SessionStore`."""
        return await self._rows.end_session(digest)

    async def add_ticket(self, digest: str, content: bytes, expires_at: Time, now: Time) -> None:
        """See `SessionStore`."""
        await self._rows.add_ticket(digest, content, expires_at, now)

    async def take_ticket(self, digest: str, now: Time) -> bytes | None:
        """See `SessionStore`."""
        return await self._rows.take_ticket(digest, now)


def _row(key: ApiKey) -> KeyRow:
    return KeyRow(**{**msgspec.structs.asdict(key), "role": key.role.value})


def _key(row: KeyRow) -> ApiKey:
    return ApiKey(**{**msgspec.structs.asdict(row), "role": Role(row.role)})


def _session_row(session: BrowserSession) -> SessionRow:
    return SessionRow(
        digest=session.digest,
        user_name=session.user,
        credential=session.credential,
        roles=msgspec.json.encode(session.roles),
        queues=None if session.queues is None else msgspec.json.encode(session.queues),
        csrf=session.csrf,
        created_at=session.created_at,
        expires_at=session.expires_at,
    )


def _session(row: SessionRow) -> BrowserSession:
    return BrowserSession(
        digest=row.digest,
        user=row.user_name,
        credential=row.credential,
        roles=msgspec.json.decode(row.roles, type=dict[str, list[str]]),
        queues=None if row.queues is None else msgspec.json.decode(row.queues, type=list[str]),
        csrf=row.csrf,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
