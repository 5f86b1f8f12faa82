"""The page of permissions, built from the table of routes; `python -m assay.api.permission_table` prints it."""

import sys
from collections.abc import Iterator
from typing import Final

from assay.api.access import NamespaceSource
from assay.api.router import Route
from assay.api.routes.table import ROUTES
from assay.auth.permissions import GRANTED, LOWEST_ROLE, Permission

_BEGINNING: Final = """# Permissions

This page is made from the routes: `python -m assay.api.permission_table > docs/reference/permissions.md`. Paths
are below `/api/v1` and `/api/v1/engine/workflow`, unless they are marked as *root*. HEAD needs what GET needs.
How callers get roles stands in [making an engine safe to expose](../howto/secure.md).

There are four permissions, and a role grants some of them in its namespaces:
"""
_MEANINGS: Final = {
    Permission.READ: "look at runs, schedules, workers, queues and events",
    Permission.WORK: "the protocol of workers: register, poll, report",
    Permission.ACT: "start, signal, cancel, retry and end runs; change schedules",
    Permission.MANAGE: "manage keys and namespaces, read the audit and metrics",
}
_PLACES: Final = {
    NamespaceSource.NOWHERE: "",
    NamespaceSource.QUERY: "of the query",
    NamespaceSource.PATH: "of the path",
    NamespaceSource.ALL: "all (`*`)",
    NamespaceSource.SHOWN: "each that is shown",
    NamespaceSource.CONTENT: "of the body, the registration or the object",
}
_END: Final = """
Without a role in the namespace the answer is 404, as for a namespace that does not exist; with a role that
grants too little it is 403 `forbidden`, with the lowest role that would do as `needs`. `POST /api-keys` also
takes a caller without a credential, once: while no key was ever made, and only from the engine's own machine.
`--metrics-public` makes `GET /metrics` public. Without authentication everybody is an admin of all namespaces.
"""


def page() -> str:
    """Return the page as Markdown."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield from _BEGINNING.splitlines()
    yield ""
    yield "| permission | for | roles |"
    yield "|---|---|---|"
    for permission in Permission:
        roles = ", ".join(f"`{role}`" for role, granted in GRANTED.items() if permission in granted)
        yield f"| `{permission}` | {_MEANINGS[permission]} | {roles} |"
    for needed in (*Permission, None):
        yield from _section(needed)
    yield from _END.splitlines()


def _section(permission: Permission | None) -> Iterator[str]:
    title = "Public" if permission is None else f"`{permission}`: at least {LOWEST_ROLE[permission]}"
    yield f"\n## {title}\n"
    yield "| method | path | operation | namespace |"
    yield "|---|---|---|---|"
    for route in sorted(ROUTES, key=_order):
        if route.access.permission is permission:
            yield f"| {route.method} | {_path(route)} | `{route.operation_id}` | {_PLACES[route.access.where]} |"


def _path(route: Route) -> str:
    return f"`{route.path}`" if route.prefixed else f"`{route.path}` (root)"


def _order(route: Route) -> tuple[bool, str, str]:
    return not route.prefixed, route.path, route.method


if __name__ == "__main__":
    sys.stdout.write(page())
