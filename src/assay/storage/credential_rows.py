"""Rows of credentials as they are stored: API keys, browser sessions and tickets of event streams."""

import msgspec

from assay.core.model.ids import Time


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored API key; the text of the key is not stored."""

    digest: str
    prefix: str
    label: str | None
    role: str
    namespaces: tuple[str, ...]
    queues: tuple[str, ...] | None
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in browser; `roles` and `queues` are JSON."""

    digest: str
    user_name: str | None
    credential: str | None
    roles: bytes
    queues: bytes | None
    csrf: str
    created_at: Time
    expires_at: Time
