"""Access to routes: the permission that a route requires, in which namespace, and the refusal without it."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Final

import msgspec

from assay.auth.permissions import ALL_NAMESPACES, LOWEST_ROLE, Permission, Principal
from assay.core.model.errors import NotFound
from assay.wire.errors import Forbidden


class NamespaceSource(StrEnum):
    """The source of the namespace in which a route requires its permission."""

    NOWHERE = "nowhere"
    """Public: the route needs no credential."""
    QUERY = "query"
    """The namespace of the query."""
    PATH = "path"
    """The namespace in the path."""
    ALL = "all"
    """Every namespace."""
    SHOWN = "shown"
    """Each namespace in the response: the route leaves out namespaces without the permission."""
    CONTENT = "content"
    """The namespace of the body, of a worker's registration or of a stored object: the route checks the permission."""


class Access(msgspec.Struct, frozen=True):
    """A permission, and the source of the namespace in which a route requires the permission."""

    permission: Permission | None
    where: NamespaceSource


PUBLIC: Final = Access(None, NamespaceSource.NOWHERE)
READ: Final = Access(Permission.READ, NamespaceSource.QUERY)
READ_NAMED: Final = Access(Permission.READ, NamespaceSource.PATH)
READ_SHOWN: Final = Access(Permission.READ, NamespaceSource.SHOWN)
READ_FOUND: Final = Access(Permission.READ, NamespaceSource.CONTENT)
WORK: Final = Access(Permission.WORK, NamespaceSource.QUERY)
WORK_REGISTERED: Final = Access(Permission.WORK, NamespaceSource.CONTENT)
ACT: Final = Access(Permission.ACT, NamespaceSource.QUERY)
ACT_IN_BODY: Final = Access(Permission.ACT, NamespaceSource.CONTENT)
MANAGE_SHOWN: Final = Access(Permission.MANAGE, NamespaceSource.SHOWN)
MANAGE_ALL: Final = Access(Permission.MANAGE, NamespaceSource.ALL)


def require(principal: Principal, permission: Permission, namespace: str) -> None:
    """Return if a caller has a permission in a namespace.

    Raises:
        NotFound: The caller has no role in the namespace. A hidden namespace looks like a missing namespace.
        Forbidden: The caller's role grants too little.
    """
    if principal.allows(permission, namespace):
        return
    if namespace != ALL_NAMESPACES and not principal.has_role_in(namespace):
        raise NotFound(f"namespace {namespace}")
    raise forbidden(permission, namespace)


def require_shown(principal: Principal, permission: Permission) -> frozenset[str] | None:
    """Return the namespaces in which a caller has a permission; None means all namespaces.

    Raises:
        Forbidden: The caller has the permission in no namespace.
    """
    namespaces = principal.namespaces_with(permission)
    if namespaces is not None and not namespaces:
        raise forbidden(permission, ALL_NAMESPACES)
    return namespaces


def require_queue(principal: Principal, queue: str, namespace: str) -> None:
    """Raise `Forbidden` if the caller's key is for other task queues."""
    if principal.queues is not None and queue not in principal.queues:
        raise forbidden(Permission.WORK, namespace, f"The key does not serve the queue {queue}.")


def may_act(principal: Principal) -> Callable[[str], bool] | None:
    """Return a check of the namespaces that a worker's commands name; None for a caller who may act in all of them."""
    if principal.allows(Permission.ACT, ALL_NAMESPACES):
        return None
    return partial(principal.allows, Permission.ACT)


def forbidden(permission: Permission, namespace: str, message: str | None = None) -> Forbidden:
    """Return the error for a caller whose role grants too little. The error names the lowest sufficient role."""
    role = LOWEST_ROLE[permission].value
    place = "all namespaces" if namespace == ALL_NAMESPACES else namespace
    return Forbidden(message or f"Needs the {role} role in {place}.", needs=role, namespace=namespace)
