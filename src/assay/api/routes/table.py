"""The table of all routes, for the router and the OpenAPI document."""

from typing import Final

from assay.api.router import Route
from assay.api.routes import (
    api_keys,
    attempts,
    audit,
    catalog,
    control,
    dashboard,
    exchange,
    failures,
    lists,
    mail,
    meta,
    namespaces,
    schedules,
    session,
    sign_in,
    starts,
    statistics,
    streams,
    updates,
    worker_protocol,
    workers,
    workflows,
)

ROUTES: Final[tuple[Route, ...]] = (
    *starts.ROUTES,
    *lists.ROUTES,
    *workflows.ROUTES,
    *attempts.ROUTES,
    *statistics.ROUTES,
    *failures.ROUTES,
    *catalog.ROUTES,
    *control.ROUTES,
    *mail.ROUTES,
    *updates.ROUTES,
    *worker_protocol.ROUTES,
    *workers.ROUTES,
    *exchange.ROUTES,
    *namespaces.ROUTES,
    *schedules.ROUTES,
    *streams.ROUTES,
    *api_keys.ROUTES,
    *audit.ROUTES,
    *session.ROUTES,
    *sign_in.ROUTES,
    *meta.ROUTES,
    *dashboard.ROUTES,
)
