"""Bodies and records of API keys and of the caller's own session."""

from typing import Any

import msgspec


class KeyBody(msgspec.Struct, kw_only=True):
    """The fields of a new API key."""

    label: str | None = None
    role: str | None = None
    namespaces: list[str] | None = None
    queues: list[str] | None = None
    expires_at: float | None = None
    idempotent: bool = False
    """Return the oldest live key of the label instead, without its text, if there is one."""


class RotateBody(msgspec.Struct, kw_only=True):
    """How long the old key is accepted beside its successor; a day without a number."""

    overlap_secs: float | None = None


class ApiKeyRecord(msgspec.Struct, kw_only=True):
    """An API key as clients see it."""

    plaintext: str | msgspec.UnsetType = msgspec.UNSET
    """The key itself: only in the answer that makes it."""
    prefix: str
    label: str | None
    role: str
    namespaces: list[str]
    queues: list[str] | None
    created_at: float
    expires_at: float | None
    last_used_at: float | None
    revoked_at: float | msgspec.UnsetType = msgspec.UNSET
    """Only of a revoked key."""


class SessionRecord(msgspec.Struct, kw_only=True):
    """The caller as the engine sees it, and how callers sign in."""

    authenticated: bool
    user: str | None
    roles: dict[str, str]
    csrf: str | None
    auth: str
    sign_in: dict[str, Any]
    features: list[str]
