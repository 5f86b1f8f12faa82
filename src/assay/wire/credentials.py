"""Request bodies and records of API keys and of the caller's own session."""

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


class SignInBody(msgspec.Struct, kw_only=True):
    """The credential of a person who signs in: an API key, or a token where the engine accepts tokens."""

    api_key: str


class SignInWays(msgspec.Struct, kw_only=True):
    """The ways to sign in."""

    api_key: bool
    """True if a person can sign in with an API key or a token."""
    oidc: str | None
    """The label of the sign-in at the issuer; None if there is no such sign-in."""
    bootstrap: bool
    """True as long as the first API key has not been created."""


class TicketBody(msgspec.Struct, kw_only=True):
    """The parameters of an event stream, as its address has them; lists may be texts with commas."""

    namespace: str | list[str] | None = None
    ns: str | list[str] | None = None
    workflow_id: str | None = None
    kind: str | list[str] | None = None
    subsystem: str | list[str] | None = None


class TicketRecord(msgspec.Struct, kw_only=True):
    """A ticket, which opens an event stream once."""

    ticket: str
    expires_at: float


class SessionRecord(msgspec.Struct, kw_only=True):
    """The authenticated caller, and the ways to sign in."""

    authenticated: bool
    user: str | None
    roles: dict[str, str]
    csrf: str | None
    auth: str
    sign_in: SignInWays
    features: list[str]
