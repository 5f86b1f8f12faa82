"""Permissions, the roles that grant them, and principals: callers with roles in namespaces."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from assay.core.model.ids import Time

ALL_NAMESPACES: Final = "*"
"""The key of a role in every namespace, present and future."""


class Permission(StrEnum):
    """A kind of operation that a route requires."""

    READ = "read"
    WORK = "work"
    ACT = "act"
    MANAGE = "manage"


class Role(StrEnum):
    """A named set of permissions in a namespace."""

    READER = "reader"
    WORKER = "worker"
    OPERATOR = "operator"
    ADMIN = "admin"


GRANTED: Final[Mapping[Role, frozenset[Permission]]] = {
    Role.READER: frozenset({Permission.READ}),
    Role.WORKER: frozenset({Permission.WORK}),
    Role.OPERATOR: frozenset({Permission.READ, Permission.WORK, Permission.ACT}),
    Role.ADMIN: frozenset(Permission),
}

LOWEST_ROLE: Final[Mapping[Permission, Role]] = {
    Permission.READ: Role.READER,
    Permission.WORK: Role.WORKER,
    Permission.ACT: Role.OPERATOR,
    Permission.MANAGE: Role.ADMIN,
}
"""The role with the fewest permissions that grants each permission: errors name this role."""

_SHOWN_FIRST: Final = (Role.ADMIN, Role.OPERATOR, Role.READER, Role.WORKER)
"""The order for showing one of several roles in a namespace; a reader and worker is shown as a reader."""


class Principal(msgspec.Struct, frozen=True):
    """An authenticated caller: a display name, the credential, and the roles by namespace."""

    user: str | None
    """The label of a key, or the name in a token; None without authentication."""
    credential: str | None
    """The prefix of an API key, `jwt` for a token; None without authentication."""
    roles: Mapping[str, frozenset[Role]]
    queues: frozenset[str] | None = None
    """The task queues for workers of the caller; None for all."""
    expires_at: Time | None = None
    session: str | None = None
    """The digest of the browser session that the caller uses; None for a program."""

    @property
    def identity(self) -> str | None:
        """Return the caller for limits: a browser session, a key, or a name in tokens; None without authentication."""
        if self.session is not None:
            return f"session {self.session}"
        return None if self.credential is None else f"{self.credential} {self.user}"

    def permissions_in(self, namespace: str) -> frozenset[Permission]:
        """Return the permissions in a namespace, including the permissions in all namespaces."""
        held = self.roles.get(namespace, frozenset()) | self.roles.get(ALL_NAMESPACES, frozenset())
        return frozenset().union(*(GRANTED[role] for role in held))

    def allows(self, permission: Permission, namespace: str) -> bool:
        """Return whether the principal has a permission in a namespace (`*`: in all of them)."""
        return permission in self.permissions_in(namespace)

    def has_role_in(self, namespace: str) -> bool:
        """Return whether the principal has a role in a namespace; a namespace without a role is hidden."""
        return bool(self.roles.get(namespace) or self.roles.get(ALL_NAMESPACES))

    def covers(self, permission: Permission, namespaces: Iterable[str]) -> bool:
        """Return whether the principal has a permission in each of these namespaces."""
        return all(self.allows(permission, namespace) for namespace in namespaces)

    def namespaces_with(self, permission: Permission) -> frozenset[str] | None:
        """Return the namespaces in which the principal has a permission; None for all namespaces."""
        if self.allows(permission, ALL_NAMESPACES):
            return None
        return frozenset(name for name in self.roles if self.allows(permission, name))

    def shown_roles(self) -> dict[str, str]:
        """Return a role for each namespace, as shown to clients."""
        return {
            namespace: next(role for role in _SHOWN_FIRST if role in held).value
            for namespace, held in self.roles.items()
            if held
        }


UNRESTRICTED: Final = Principal(None, None, {ALL_NAMESPACES: frozenset({Role.ADMIN})})
"""The caller without authentication: an admin of every namespace."""
