"""API keys: their form, their stored fields, and the keys that a caller may create and see.

A key is `assay_` and 64 hex digits: 256 random bits. Only the SHA-256 of its text is stored. A fast hash suffices for a
secret with full entropy; a slow hash would let unauthenticated callers consume the engine's time.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from assay.auth.permissions import ALL_NAMESPACES, Permission, Principal, Role
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time
from assay.core.model.options import check_id

SECRET_BYTES: Final = 32
PREFIX_DIGITS: Final = 8
MAX_LABEL_CHARACTERS: Final = 255
DEFAULT_OVERLAP_SECONDS: Final = 86_400.0
"""The time for which a rotated key is still accepted, unless the caller chooses."""
BOOTSTRAP_LABEL: Final = "generated"

LATEST_EXPIRY: Final[Time] = 100_000_000_000 * SECOND
"""Beyond every calendar, and far below the numbers that a database can store."""
_NAMESPACE: Final = re.compile(r"[a-z0-9-]{1,63}\Z")
_FORM: Final = re.compile(r"assay_[0-9a-f]{64}\Z")
_DOTS: Final = "..."


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A stored API key; the text of the key is not stored."""

    digest: str
    """The hex SHA-256 of the key's text."""
    prefix: str
    label: str | None
    role: Role
    namespaces: tuple[str, ...]
    """Names of namespaces, or `*` alone."""
    queues: tuple[str, ...] | None = None
    """The task queues for workers with this key; None for all."""
    created_at: Time
    expires_at: Time | None = None
    revoked_at: Time | None = None
    last_used_at: Time | None = None

    def is_live(self, now: Time) -> bool:
        """Return whether the key is accepted at `now`: neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def principal(self) -> Principal:
        """Return the principal of a caller with this key."""
        held = frozenset({self.role})
        return Principal(
            user=self.label or self.prefix,
            credential=self.prefix,
            roles=dict.fromkeys(self.namespaces, held),
            queues=None if self.queues is None else frozenset(self.queues),
            expires_at=self.expires_at,
        )


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """The validated fields of a new key, chosen by its creator."""

    label: str | None = None
    role: Role = Role.OPERATOR
    namespaces: tuple[str, ...] = (ALL_NAMESPACES,)
    queues: tuple[str, ...] | None = None
    expires_at: Time | None = None

    def stored(self, plaintext: str, now: Time) -> ApiKey:
        """Return the stored form of the key with this text."""
        return ApiKey(
            digest=digest_of(plaintext),
            prefix=prefix_of(plaintext),
            label=self.label,
            role=self.role,
            namespaces=self.namespaces,
            queues=self.queues,
            created_at=now,
            expires_at=self.expires_at,
        )


BOOTSTRAP_KEY: Final = NewKey(label=BOOTSTRAP_LABEL, role=Role.ADMIN)
"""The first key of a database, as created by the command line."""


def key_text(secret: bytes) -> str:
    """Return the text of a key from its random bytes."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a key has {SECRET_BYTES} random bytes")
    return f"assay_{secret.hex()}"


def is_key(text: str) -> bool:
    """Return whether a text has the form of a key; other texts are refused without a search of the stored keys."""
    return _FORM.match(text) is not None


def digest_of(plaintext: str) -> str:
    """Return the hex SHA-256 of a key's whole text: stored and compared instead of the key."""
    return hashlib.sha256(plaintext.encode()).hexdigest()


def prefix_of(plaintext: str) -> str:
    """Return the prefix of a key, shown to users and used in paths."""
    return plaintext[: len("assay_") + PREFIX_DIGITS] + _DOTS


def full_prefix(text: str) -> str:
    """Return a prefix with its dots, given with or without them."""
    return text if text.endswith(_DOTS) else text + _DOTS


def check_new_key(
    *,
    label: object = None,
    role: object = None,
    namespaces: object = None,
    queues: object = None,
    expires_at: Time | None = None,
    creator: Principal,
    now: Time,
) -> NewKey:
    """Return the checked fields of a new key.

    Args:
        label: A name for people.
        role: The name of a role; None for `operator`.
        namespaces: Names, or `["*"]`; None for all namespaces in which `creator` is an admin.
        queues: The queues for workers with the key; None for all.
        expires_at: The end of the key; None for never.
        creator: The caller.
        now: The present; `expires_at` must be later.

    Raises:
        Invalid: A field has an invalid value.
    """
    return NewKey(
        label=_checked_label(label),
        role=_checked_role(role),
        namespaces=_checked_namespaces(namespaces, creator),
        queues=None if queues is None else _checked_names(queues, "queues"),
        expires_at=_checked_expiry(expires_at, now),
    )


def may_manage(principal: Principal, namespaces: Sequence[str]) -> bool:
    """Return whether a caller may create, see, rotate and revoke keys of these namespaces, as an admin of all."""
    return principal.covers(Permission.MANAGE, namespaces)


def _checked_label(label: object) -> str | None:
    if label is None:
        return None
    if not isinstance(label, str) or not label.strip() or len(label) > MAX_LABEL_CHARACTERS or not label.isprintable():
        raise Invalid(f"label must be a text of 1 to {MAX_LABEL_CHARACTERS} printable characters", field="label")
    return label


def _checked_role(role: object) -> Role:
    if role is None:
        return Role.OPERATOR
    if not isinstance(role, str) or role not in set(Role):
        raise Invalid(f"role is {role!r}; it can be {', '.join(Role)}", field="role")
    return Role(role)


def _checked_namespaces(namespaces: object, creator: Principal) -> tuple[str, ...]:
    if namespaces is None:
        own = creator.namespaces_with(Permission.MANAGE)
        return (ALL_NAMESPACES,) if own is None else tuple(sorted(own))
    names = _checked_names(namespaces, "namespaces", wildcard=True)
    if ALL_NAMESPACES in names and len(names) > 1:
        raise Invalid('namespaces is either ["*"] or a list of names', field="namespaces")
    return names


def _checked_names(names: object, field: str, *, wildcard: bool = False) -> tuple[str, ...]:
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise Invalid(f"{field} must be a list of names with at least one name", field=field)
    if not wildcard:
        return tuple(dict.fromkeys(check_id(name, field) for name in names))
    for name in names:
        if name != ALL_NAMESPACES and not _NAMESPACE.match(name):
            raise Invalid(f"{field}: a namespace is 1 to 63 lower-case letters, digits or dashes", field=field)
    return tuple(dict.fromkeys(names))


def _checked_expiry(expires_at: Time | None, now: Time) -> Time | None:
    if expires_at is not None and not now < expires_at <= LATEST_EXPIRY:
        raise Invalid("expires_at must be a time in the future, in seconds since the epoch", field="expires_at")
    return expires_at
