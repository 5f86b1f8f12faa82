"""Request bodies and records of API keys and of the caller's own session."""

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
    """True returns the oldest live key of the label, without its text, instead of a new key, if the label has one."""


class RotateBody(msgspec.Struct, kw_only=True):
    """The time for which the old key is accepted beside its successor; by default a day."""

    overlap_secs: float | None = None


class ApiKeyRecord(msgspec.Struct, kw_only=True):
    """An API key as clients see it."""

    plaintext: str | msgspec.UnsetType = msgspec.UNSET
    """The text of the key: only in the response to its creation."""
    prefix: str
    label: str | None
    role: str
    namespaces: list[str]
    queues: list[str] | None
    created_at: float
    expires_at: float | None
    last_used_at: float | None
    revoked_at: float | msgspec.UnsetType = msgspec.UNSET
    """Only for a revoked key."""


class SessionRecord(msgspec.Struct, kw_only=True):
    """The authenticated caller, and the ways to sign in."""

    authenticated: bool
    user: str | None
    roles: dict[str, str]
    csrf: str | None
    auth: str
    sign_in: dict[str, Any]
    features: list[str]
