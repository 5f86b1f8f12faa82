"""The route of the event stream: its filters and its cursor."""

import re
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from assay.api.access import READ_SHOWN, require, require_shown
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Parameter, Route
from assay.api.shared_frames import StreamFilter
from assay.api.stream import EventStream
from assay.auth.permissions import Permission
from assay.wire import responses

EVERYWHERE: Final = "*"
SUBSYSTEM: Final = "workflow"
_IS_ID: Final = re.compile(r"\d{1,18}", re.ASCII)


async def events_stream(backend: Backend, call: ApiCall) -> EventStream:
    """Send events as Server-Sent Events: new events, or all events after the client's last event id."""
    stream = EventStream(
        backend.stream,
        backend.shared_frames,
        _permitted(call, _wanted(call)),
        _cursor(call),
        backend.stream_slots,
        backend.drained,
        partial(backend.auth.wait_until_invalid, call.principal) if backend.auth.settings.is_on else None,
        call.principal.identity,
    )
    await stream.begin()
    return stream


def _wanted(call: ApiCall) -> StreamFilter:
    namespaces = frozenset(_several(call, "namespace") + _several(call, "ns")) or frozenset({"main"})
    subsystems = _several(call, "subsystem")
    return StreamFilter(
        namespaces=frozenset() if EVERYWHERE in namespaces else namespaces,
        kinds=frozenset(_several(call, "kind")),
        workflow_id=call.text("workflow_id"),
        nothing=bool(subsystems) and SUBSYSTEM not in subsystems,
    )


def _permitted(call: ApiCall, wanted: StreamFilter) -> StreamFilter:
    """Return the filter, restricted to namespaces that the caller may read."""
    if wanted.namespaces:
        for namespace in wanted.namespaces:
            require(call.principal, Permission.READ, namespace)
        return wanted
    shown = require_shown(call.principal, Permission.READ)
    return wanted if shown is None else replace(wanted, namespaces=shown)


def _several(call: ApiCall, name: str) -> list[str]:
    """Return the values of a parameter that may be repeated, or be a list with commas."""
    values = call.all(name) if call.scope["query_string"] else []
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _cursor(call: ApiCall) -> int | None:
    """Return the last event id of the client, from the header or the query; ignore texts that are not numbers."""
    given = (call.header(b"last-event-id"), call.text("last_event_id"))
    return next((int(text) for text in given if text is not None and _IS_ID.fullmatch(text.strip())), None)


def _parameters(*named: tuple[str, str, Any]) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, about, kind, several=name in ("kind", "subsystem")) for name, about, kind in named)


ROUTES: Final = (
    Route(
        method="GET",
        path="/events/stream",
        operation_id="streamEvents",
        summary="Receive events as Server-Sent Events",
        tag="events",
        reaction=events_stream,
        query=_parameters(
            ("namespace", "The namespace; default `main`, `*` for all namespaces.", str),
            ("ns", "Another name of `namespace`.", str),
            ("workflow_id", "Only events of this workflow id.", str),
            ("kind", "Only events of these kinds; may be repeated, or be a list with commas.", str),
            ("subsystem", "Only events of these subsystems. The only subsystem is `workflow`.", str),
            ("last_event_id", "Begin after this event id. The header Last-Event-ID has precedence.", int),
        ),
        asking=(Parameter("Last-Event-ID", "Begin after this event id. Browsers send it when they reconnect.", int),),
        answers={200: responses.StreamEvent},
        access=READ_SHOWN,
        media="text/event-stream",
        problems=("410", "429"),
    ),
)
