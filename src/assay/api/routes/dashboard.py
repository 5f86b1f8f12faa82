"""The routes of the dashboard: redirects to it, its page at every address of a view, its files and its icon."""

from typing import Any, Final

from assay.api.access import PUBLIC
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.dashboard import page as pages
from assay.api.dashboard.assets import TYPES, built_assets
from assay.api.router import Route
from assay.core.model.errors import NotFound

ICON_CACHING: Final = (b"cache-control", b"public, max-age=86400")


async def redirect(_: Backend, call: ApiCall) -> HttpResponse:
    """Redirect to the dashboard. The address is relative, so that any proxy may mount the engine."""
    query: bytes = call.scope["query_string"]
    return HttpResponse(308, b"", [(b"location", b"workflow/" + (b"?" + query if query else b""))])


async def page(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return the page of the dashboard; for an unknown address the same page with status 404."""
    if call.path.startswith(pages.ASSETS):
        raise NotFound("file")
    known = pages.is_view(call.path)
    return pages.page(call.path, backend.settings.white_label, built_assets(), 200 if known else 404)


async def asset(_: Backend, call: ApiCall) -> HttpResponse:
    """Return a file of the dashboard."""
    assets = built_assets()
    if assets is None:
        raise NotFound(f"file {call.parameters['file']}")
    return assets.answer(call.parameters["file"], call)


async def favicon(_: Backend, __: ApiCall) -> HttpResponse:
    """Return the icon of the dashboard."""
    return HttpResponse(200, pages.FAVICON, [(b"content-type", TYPES["svg"]), ICON_CACHING])


def _route(path: str, operation_id: str, summary: str, reaction: Any, status: int = 200) -> Route:
    return Route(
        method="GET",
        path=path,
        operation_id=operation_id,
        summary=summary,
        tag="dashboard",
        reaction=reaction,
        answers={status: str},
        media="text/html",
        access=PUBLIC,
        prefixed=False,
        described=False,
    )


ROUTES: Final = (
    _route("/", "getFront", "Go to the dashboard", redirect, 308),
    _route("/workflow", "getDashboardBase", "Go to the dashboard", redirect, 308),
    _route("/workflow/", "getDashboardList", "Get the page of the dashboard", page),
    _route("/workflow/assets/{file}", "getDashboardAsset", "Get a file of the dashboard", asset),
    _route("/workflow/favicon.svg", "getDashboardIcon", "Get the icon of the dashboard", favicon),
    _route("/favicon.ico", "getIcon", "Get the icon of the dashboard", favicon),
    _route("/workflow/{*rest}", "getDashboard", "Get the page of the dashboard", page),
)
