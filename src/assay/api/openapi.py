"""The API's description in OpenAPI 3.1, from the table of routes (R41); `python -m assay.api.openapi` prints it."""

import re
import sys
from functools import cache
from typing import Any, Final

import msgspec

from assay._version import __version__
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

Times are seconds since the epoch, durations seconds or texts such as `1h30m`. Every error, whatever its status, is a
`Problem`; its code is stable. A change that carries an `Idempotency-Key` has its effect once, however often it is
sent. Later versions add fields, codes of errors and types of events."""

TAGS: Final = {
    "workflows": "Runs: start them, look at them, talk to them, end them.",
    "activities": "Activities of runs.",
    "worker protocol": "How workers get tasks and report on them, in any language.",
    "workers": "Who does the work.",
    "queues": "Where work waits.",
    "schedules": "Runs that begin when it is time.",
    "namespaces": "Tenants.",
    "events": "What happens, as it happens.",
    "meta": "The engine about itself.",
}
PROBLEMS: Final = {
    "400": "Something in the request cannot be accepted.",
    "404": "There is no such thing.",
    "409": "The state of things does not allow it; nothing was changed.",
    "410": "What was asked for is older than what is kept.",
    "413": "The body or a payload is too large.",
    "415": "The body is not JSON.",
    "422": "The body is not what was asked for.",
    "429": "Too much at a time; try again in a moment.",
    "503": "The engine cannot take it now; try again with the same idempotency key.",
}
ANY_PROBLEM: Final = "Any other error, such as a request that came too slowly or from a page of another site."
READING_PROBLEMS: Final = ("400", "404", "503")
CHANGING_PROBLEMS: Final = ("400", "404", "409", "413", "415", "422", "429", "503")
KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A key of the caller's, 255 characters at most; the same key has its effect once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
NAMES: Final[dict[type, str]] = {
    ActivityOptions: "ExchangedActivityOptions",
    RetryPolicy: "ExchangedRetryPolicy",
    **messages.COMPONENT_NAMES,
}
"""What workers of the SDK are sent, in microseconds and other words than records use, is not called like it."""


@cache
def document() -> bytes:
    """The whole description, the same under both prefixes."""
    return msgspec.json.format(msgspec.json.encode(description()), indent=2) + b"\n"


def description() -> dict[str, Any]:
    """The whole description."""
    schemas = Schemas(NAMES)
    schemas.of(Problem)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
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
        "components": {"schemas": _components(schemas)},
    }


def _components(schemas: Schemas) -> dict[str, Any]:
    """All types by name; commands are typed, although the body keeps them raw, and so are events."""
    properties = schemas.components[CommandsBody.__name__]["properties"]
    properties["commands"] = {"type": "array", "items": schemas.of(Sent), "default": []}
    describe_events(schemas)
    return dict(sorted(schemas.components.items()))


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "description": (route.reaction.__doc__ or "").strip(),
        "tags": [route.tag],
        "parameters": _parameters(route, schemas),
        "responses": _responses(route, schemas),
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {"application/json": {"schema": schemas.of(route.body)}},
        }
    return {name: value for name, value in operation.items() if value}


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
    202: "Not yet: the run is still open.",
    204: "Done, with nothing to show.",
}

if __name__ == "__main__":
    sys.stdout.write(document().decode())
