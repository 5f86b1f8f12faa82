"""Routes about the engine itself: health, readiness, version, limits, metrics and documentation."""

from functools import cache
from typing import Any, Final

from msgspec.structs import asdict

from assay._version import __version__
from assay.api import answers, docs, metrics
from assay.api.access import MANAGE_ALL, PUBLIC
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import BODY_LIMIT_BYTES, MAX_WAIT_SECONDS, ApiCall
from assay.api.guard import HEADERS_LIMIT_BYTES, URL_LIMIT_BYTES
from assay.api.polls import MAX_HELD_POLLS
from assay.api.router import Route
from assay.api.stream import MAX_EVENT_STREAMS, MAX_EVENT_STREAMS_OF_CALLER
from assay.auth.failed_attempts import ATTEMPTS_PER_MINUTE
from assay.core.model.errors import Unavailable
from assay.core.model.limits import LIMITS
from assay.core.model.payload import DEPTH_LIMIT, KEYS_LIMIT
from assay.wire import responses


async def health(backend: Backend, _: ApiCall) -> HttpResponse:
    """Return the health of the engine; any response means that the process is alive."""
    return answers.json(_health(backend.settings.exposed))


@cache
def _health(exposed: bool, read_only: bool = False) -> responses.Health:
    return responses.Health(
        status="ok", service="assay-workflow", auth="none" if exposed else None, read_only=read_only
    )


async def ready(backend: Backend, _: ApiCall) -> HttpResponse:
    """Return whether the engine is ready: the store is reachable, and the engine is not stopping."""
    if backend.drained.is_set():
        raise Unavailable("the engine is stopping", code="engine_stopping")
    await backend.engine.check_ready()
    return answers.json(_health(backend.settings.exposed, backend.settings.read_only))


async def version(_: Backend, __: ApiCall) -> HttpResponse:
    """Return the version of the engine and its limits."""
    return answers.json(responses.Version(version=__version__, build_profile="release", limits=limits()))


def limits() -> dict[str, Any]:
    """Return the values of all limits."""
    return {
        **asdict(LIMITS),
        "body_bytes": BODY_LIMIT_BYTES,
        "header_bytes": HEADERS_LIMIT_BYTES,
        "url_bytes": URL_LIMIT_BYTES,
        "json_depth": DEPTH_LIMIT,
        "json_keys": KEYS_LIMIT,
        "long_polls": MAX_HELD_POLLS,
        "long_poll_secs": MAX_WAIT_SECONDS,
        "event_streams": MAX_EVENT_STREAMS,
        "event_streams_of_caller": MAX_EVENT_STREAMS_OF_CALLER,
        "failed_credentials_a_minute": ATTEMPTS_PER_MINUTE,
    }


async def openapi(_: Backend, __: ApiCall) -> HttpResponse:
    """Return the OpenAPI document."""
    from assay.api.openapi import document  # imported here, because that module imports all routes

    return HttpResponse(200, document(), answers.PLAIN)


def _meta(path: str, operation_id: str, summary: str, reaction: Any, answer: Any, **more: Any) -> Route:
    return Route(
        method="GET",
        path=path,
        operation_id=operation_id,
        summary=summary,
        tag="meta",
        reaction=reaction,
        answers={200: answer},
        access=more.pop("access", PUBLIC),
        **more,
    )


ROUTES: Final = (
    _meta("/health", "getHealth", "Get the health of the engine", health, responses.Health),
    _meta("/version", "getVersion", "Get the version and the limits of the engine", version, responses.Version),
    _meta("/openapi.json", "getOpenApi", "Get the OpenAPI document", openapi, dict[str, Any]),
    _meta("/docs", "getDocs", "Get the API documentation page", docs.page, str, media="text/html"),
    _meta(
        "/docs/{file}", "getDocsFile", "Get a file of the documentation page", docs.part, str, media="text/javascript"
    ),
    _meta("/healthz", "getLiveness", "Check that the process is alive", health, responses.Health, prefixed=False),
    _meta("/readyz", "getReadiness", "Check that the engine is ready", ready, responses.Health, prefixed=False),
    _meta(
        "/metrics",
        "getMetrics",
        "Get metrics for Prometheus",
        metrics.exposition,
        str,
        media="text/plain",
        prefixed=False,
        access=MANAGE_ALL,
    ),
)
