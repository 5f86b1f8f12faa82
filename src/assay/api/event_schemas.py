"""JSON schemas of events as responses show them, a schema per kind, derived from the structs of `core.model.events`."""

from typing import Any, Final

import msgspec

from assay.api.schemas import REF, Schema, Schemas, about, words
from assay.core.model.events import (
    KINDS,
    ActivityOptions,
    Event,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowStarted,
)
from assay.core.model.failure import FailureInfo
from assay.wire import responses
from assay.wire.render import DEFAULTS

TYPES: Final = "EventType"
SHOWN: Final[dict[Any, Any]] = {FailureInfo: responses.Failure, ActivityOptions: responses.ActivityOptions}
"""Types whose shape in a response differs from the recorded shape."""

BARE: Final[dict[type[Event], str | None]] = {
    WorkflowStarted: "input",
    WorkflowCompleted: "result",
    WorkflowCancelled: None,
}
"""Kinds whose payload is a bare value, with the field that holds the value; other fields stand beside the payload."""

MAYBE_NULL: Final = frozenset({WorkflowCancelRequested})
"""Kinds whose payload may be null."""

OPEN: Final = """{about}

The field `event_type` has the type of the event. Later versions add types and fields: clients ignore unknown fields,
and an event whose type is not in `EventType` is an `{other}`. A client that only shows events can skip such an event;
a client that replays a history must stop at it. `{known}` leaves such events out."""


def describe_events(schemas: Schemas) -> None:
    """Replace the common schema of events by schemas per kind."""
    schemas.add(TYPES, words(KINDS, TYPES, "The types of events. Later versions add types."))
    events = EventSchemas(schemas)
    events.describe(responses.EventRecord, "Record", beside=True)
    events.describe(responses.HistoryEvent, "Event", beside=False)


class EventSchemas(Schemas):
    """Schemas of events, added to the components of other schemas."""

    def __init__(self, others: Schemas) -> None:
        super().__init__({kind: f"{name}Payload" for name, kind in KINDS.items()})
        self.components = others.components
        self.described = others.described

    def describe(self, face: type[msgspec.Struct], word: str, *, beside: bool) -> None:
        """Add a schema per kind for the events of a common struct.

        Args:
            face: The struct with the common fields.
            word: The end of the components' names.
            beside: Whether further fields of an event stand beside its payload.
        """
        known, other = f"Known{word}", f"Other{word}"
        for name, kind in KINDS.items():
            self.add(name + word, self._event(face, kind, name + word, beside=beside))
        self.add(known, _closed(known, {name: REF + name + word for name in KINDS}))
        self.add(other, self._other(face, other))
        self.components[face.__name__] = {
            "title": face.__name__,
            "description": OPEN.format(about=about(face), known=known, other=other),
            "anyOf": [{"$ref": REF + known}, {"$ref": REF + other}],
        }

    def of(self, kind: Any) -> Schema:
        """See `Schemas`."""
        return super().of(SHOWN.get(kind, kind))

    def _always(self, kind: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> bool:
        if field.default is msgspec.UNSET:
            return False
        usual = field.encode_name in DEFAULTS.get(kind, ())
        return field.required or usual or not kind.__struct_config__.omit_defaults

    def _other(self, face: type[msgspec.Struct], title: str) -> Schema:
        schema = self.struct(face, title)
        schema["description"] = "An event of a type that a later version has added."
        schema["properties"]["event_type"] = {"type": "string", "not": {"$ref": REF + TYPES}}
        return schema

    def _event(self, face: type[msgspec.Struct], kind: type[Event], title: str, *, beside: bool) -> Schema:
        schema = self.struct(face, title)
        schema["description"] = about(kind)
        schema["properties"]["event_type"] = {"type": "string", "const": kind.recorded_name}
        schema["properties"]["payload"] = self._payload(kind)
        if beside and kind in BARE:
            siblings = self._siblings(kind)
            schema["properties"] |= siblings["properties"]
            schema["required"] += siblings.get("required", [])
        return schema

    def _payload(self, kind: type[Event]) -> Schema:
        if kind in BARE:
            return {"type": "null"} if BARE[kind] is None else {}
        return self.of(kind | None if kind in MAYBE_NULL else kind)

    def _siblings(self, kind: type[Event]) -> Schema:
        if kind is WorkflowStarted:
            return self.struct(responses.StartedFields, "")
        schema = self.struct(kind, "")
        schema["properties"].pop(BARE[kind], None)
        schema["required"] = [name for name in schema.get("required", ()) if name != BARE[kind]]
        return schema


def _closed(title: str, members: dict[str, str]) -> Schema:
    return {
        "title": title,
        "description": "An event of a type in `EventType`.",
        "oneOf": [{"$ref": member} for member in members.values()],
        "discriminator": {"propertyName": "event_type", "mapping": members},
    }
