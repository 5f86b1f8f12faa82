"""The OpenAPI 3.1 description of the API, built from the table of routes; `python -m assay.api.openapi` prints it."""

import inspect
import re
import sys
from functools import cache
from typing import Any, Final

import msgspec

from assay._version import __version__
from assay.api.access import PUBLIC
from assay.api.event_schemas import describe_events
from assay.api.polling_protocol import Sent
from assay.api.router import PREFIXES, Parameter, Route
from assay.api.routes.table import ROUTES
from assay.api.schemas import Schemas
from assay.core.model.events import ActivityOptions
from assay.core.model.policies import RetryPolicy
from assay.wire.request_bodies import CommandsBody
from assay.wire.responses import Problem
from assay.worker_protocol import messages

ABOUT: Final = """The durable workflow engine assay. Every route is also served under `/api/v1/engine/workflow`.

Times are seconds since the epoch. Durations are seconds, or texts such as `1h30m`. The body of every error is a
`Problem` with a stable code. A change with an `Idempotency-Key` has its effect once, even if the request is repeated.
Later versions add fields, error codes and event types."""

TAGS: Final = {
    "workflows": "Start, read, signal and end runs.",
    "messages": "Send messages to addresses.",
    "activities": "Read the activities of runs.",
    "worker protocol": "Get tasks and report their outcomes, for workers in any language.",
    "workers": "Register and list workers.",
    "queues": "List task queues.",
    "schedules": "Start runs at the times of a cron expression.",
    "namespaces": "Separate workflows, schedules and workers of different tenants.",
    "events": "Receive events while they are recorded.",
    "api keys": "Create, rotate and revoke API keys.",
    "session": "Sign in and out, and describe the caller.",
    "meta": "Health, version, metrics and documentation of the engine.",
}
PROBLEMS: Final = {
    "400": "The request is not valid.",
    "401": "The credential is missing or not valid.",
    "404": "The object does not exist.",
    "409": "The current state does not allow the change. Nothing was changed.",
    "410": "The requested events have been deleted.",
    "413": "The body or a payload is too large.",
    "415": "The body is not JSON.",
    "422": "The body has a wrong shape.",
    "429": "Too many requests. Try again in a moment.",
    "503": "The engine is not available. Try again with the same idempotency key.",
}
ANY_PROBLEM: Final = "Any other error, such as a request that was sent too slowly or by a page of another site."
READING_PROBLEMS: Final = ("400", "404", "503")
CHANGING_PROBLEMS: Final = ("400", "404", "409", "413", "415", "422", "429", "503")
KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A key chosen by the caller, at most 255 characters. Requests with the same key have one effect.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
SECURITY_SCHEMES: Final = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key or a token (JWT), if the engine was started with authentication.",
    }
}
NAMES: Final[dict[type, str]] = {
    ActivityOptions: "ExchangedActivityOptions",
    RetryPolicy: "ExchangedRetryPolicy",
    **messages.COMPONENT_NAMES,
}
"""Component names of structs in the worker protocol of the SDK whose class names are used by REST components, too."""


@cache
def document() -> bytes:
    """Return the description as indented JSON; it is the same under both prefixes."""
    return msgspec.json.format(msgspec.json.encode(description()), indent=2) + b"\n"


def description() -> dict[str, Any]:
    """Return the description as a dict."""
    schemas = Schemas(NAMES)
    schemas.of(Problem)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        if not route.described:
            continue
        path = (PREFIXES[0] if route.prefixed else "") + route.path
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "assay-workflow API",
            "version": __version__,
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This engine"}],
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "paths": paths,
        "components": {"schemas": _components(schemas), "securitySchemes": SECURITY_SCHEMES},
        "security": [{name: []} for name in SECURITY_SCHEMES],
    }


def _components(schemas: Schemas) -> dict[str, Any]:
    """Return all components by name. Commands and events are typed here, although the structs keep raw JSON."""
    properties = schemas.components[CommandsBody.__name__]["properties"]
    properties["commands"] = {"type": "array", "items": schemas.of(Sent), "default": []}
    describe_events(schemas)
    return dict(sorted(schemas.components.items()))


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "description": inspect.cleandoc(route.reaction.__doc__ or ""),
        "tags": [route.tag],
        "parameters": _parameters(route, schemas),
        "responses": _responses(route, schemas),
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {"application/json": {"schema": schemas.of(route.body)}},
        }
    described = {name: value for name, value in operation.items() if value}
    return {**described, "security": []} if route.access is PUBLIC else described


def _parameters(route: Route, schemas: Schemas) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in re.findall(r"{(\w+)}", route.path):
        kind = "integer" if name in ("activity_id", "task_id") else "string"
        found.append({"name": name, "in": "path", "required": True, "schema": {"type": kind}})
    found += [_parameter(parameter, "query", schemas) for parameter in route.query]
    found += [_parameter(parameter, "header", schemas) for parameter in route.asking]
    return [*found, KEY] if route.idempotent else found


def _parameter(parameter: Parameter, place: str, schemas: Schemas) -> dict[str, Any]:
    schema: dict[str, Any] = schemas.of(parameter.kind)
    if parameter.several:
        schema = {"type": "array", "items": schema}
    return {"name": parameter.name, "in": place, "description": parameter.about, "schema": schema}


def _responses(route: Route, schemas: Schemas) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, kind in route.answers.items():
        answer: dict[str, Any] = {"description": _MEANINGS[status]}
        if kind is not None:
            answer["content"] = {route.media: {"schema": schemas.of(kind)}}
        if route.headers:
            answer["headers"] = {
                header.name: {"description": header.about, "schema": schemas.of(header.kind)}
                for header in route.headers
            }
        found[str(status)] = answer
    problem = {"application/json": {"schema": schemas.of(Problem)}}
    for code in sorted({*(CHANGING_PROBLEMS if route.method != "GET" else READING_PROBLEMS), *route.problems}):
        found[code] = {"description": PROBLEMS[code], "content": problem}
    return {**found, "default": {"description": ANY_PROBLEM, "content": problem}}


_MEANINGS: Final = {
    200: "Done.",
    201: "Created.",
    202: "The run is still open.",
    204: "Done. The response has no body.",
    303: "Continue at the address in the header Location.",
}

if __name__ == "__main__":
    sys.stdout.write(document().decode())
