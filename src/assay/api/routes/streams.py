"""The routes of the event stream: its filters, its cursor and its tickets."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from assay.api import answers
from assay.api.access import READ_SHOWN, require, require_shown
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Parameter, Route
from assay.api.shared_frames import StreamFilter
from assay.api.stream import EventStream
from assay.auth.permissions import Permission, Principal
from assay.core.model.ids import seconds
from assay.wire import responses
from assay.wire.credentials import TicketBody, TicketRecord

EVERYWHERE: Final = "*"
SUBSYSTEM: Final = "workflow"
_IS_ID: Final = re.compile(r"\d{1,18}", re.ASCII)


async def issue_ticket(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return a ticket for an event stream with these parameters, for clients that cannot send headers.

    The address of the stream then has the ticket, and of the other parameters `last_event_id` only. A ticket opens a
    single stream within 30 seconds, on any engine of the database.
    """
    body = await call.read(TicketBody)
    given = {field: getattr(body, field) for field in TicketBody.__struct_fields__}
    parameters = {
        name: [value] if isinstance(value, str) else value for name, value in given.items() if value is not None
    }
    _permitted(call.principal, _wanted(parameters))
    ticket, ends = await backend.auth.tickets.issue(call.principal, parameters)
    return answers.json(TicketRecord(ticket=ticket, expires_at=seconds(ends)), 201)


async def events_stream(backend: Backend, call: ApiCall) -> EventStream:
    """Send events as Server-Sent Events: new events, or all events after the client's last event id."""
    stream = EventStream(
        backend.stream,
        backend.shared_frames,
        _permitted(call.principal, _wanted(_parameters_of(call))),
        _cursor(call),
        backend.stream_slots,
        backend.drained,
        partial(backend.auth.wait_until_invalid, call.principal) if backend.auth.settings.is_on else None,
        call.principal.identity,
    )
    await stream.begin()
    return stream


def _parameters_of(call: ApiCall) -> Mapping[str, list[str]]:
    """Return the parameters of a stream by name: those of its ticket, or those of its address."""
    if call.ticket is not None:
        return call.ticket.parameters
    return {name: call.all(name) for name in TicketBody.__struct_fields__} if call.scope["query_string"] else {}


def _wanted(parameters: Mapping[str, list[str]]) -> StreamFilter:
    namespaces = frozenset(_several(parameters, "namespace") + _several(parameters, "ns")) or frozenset({"main"})
    subsystems = _several(parameters, "subsystem")
    workflow_ids = [workflow_id for workflow_id in parameters.get("workflow_id", ()) if workflow_id]
    return StreamFilter(
        namespaces=frozenset() if EVERYWHERE in namespaces else namespaces,
        kinds=frozenset(_several(parameters, "kind")),
        workflow_id=workflow_ids[-1] if workflow_ids else None,
        nothing=bool(subsystems) and SUBSYSTEM not in subsystems,
    )


def _permitted(caller: Principal, wanted: StreamFilter) -> StreamFilter:
    """Return the filter, restricted to namespaces that the caller may read."""
    if wanted.namespaces:
        for namespace in wanted.namespaces:
            require(caller, Permission.READ, namespace)
        return wanted
    shown = require_shown(caller, Permission.READ)
    return wanted if shown is None else replace(wanted, namespaces=shown)


def _several(parameters: Mapping[str, list[str]], name: str) -> list[str]:
    """Return the values of a parameter that may be repeated, or be a list with commas."""
    return [part.strip() for value in parameters.get(name, ()) for part in value.split(",") if part.strip()]


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
            ("ticket", "A ticket instead of a credential; it has the other parameters but `last_event_id`.", str),
            ("last_event_id", "Begin after this event id. The header Last-Event-ID has precedence.", int),
        ),
        asking=(Parameter("Last-Event-ID", "Begin after this event id. Browsers send it when they reconnect.", int),),
        answers={200: responses.StreamEvent},
        access=READ_SHOWN,
        ticket=True,
        media="text/event-stream",
        problems=("410", "429"),
    ),
    Route(
        method="POST",
        path="/sse-ticket",
        operation_id="issueTicket",
        summary="Get a ticket for the event stream",
        tag="events",
        reaction=issue_ticket,
        body=TicketBody,
        body_optional=True,
        answers={201: TicketRecord},
        access=READ_SHOWN,
        served_read_only=True,
    ),
)
