"""Schemas of events as answers show them: one for each kind, derived from the structs of `core.events` (R16, R41)."""

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
"""What is shown otherwise than it is recorded."""

BARE: Final[dict[type[Event], str | None]] = {
    WorkflowStarted: "input",
    WorkflowCompleted: "result",
    WorkflowCancelled: None,
}
"""Kinds whose payload is a bare value, and which of their fields it is; the others stand beside it."""

MAYBE_NULL: Final = frozenset({WorkflowCancelRequested})
"""Kinds that have no payload if they have nothing to say."""

OPEN: Final = """{about}

Its `event_type` tells what it is. Later versions add types and fields: fields that one does not know are passed over,
and an event of a type that is not among `EventType` is an `{other}`. Who shows events can pass over it, too; who
replays them cannot go on without it. `{known}` leaves such events out."""


def describe_events(schemas: Schemas) -> None:
    """Put what is known of each kind in place of the common parts of events."""
    said = "What an event can be; later versions add to it."
    schemas.add(TYPES, words(KINDS, TYPES, said))
    events = EventSchemas(schemas)
    events.describe(responses.EventRecord, "Record", beside=True)
    events.describe(responses.HistoryEvent, "Event", beside=False)


class EventSchemas(Schemas):
    """Adds schemas of events to those of others."""

    def __init__(self, others: Schemas) -> None:
        super().__init__({kind: f"{name}Payload" for name, kind in KINDS.items()})
        self.components = others.components
        self.described = others.described

    def describe(self, face: type[msgspec.Struct], word: str, *, beside: bool) -> None:
        """Describe the events that have `face` in common; `word` ends the names of what is made of it."""
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
        "description": "An event of a type that this description knows.",
        "oneOf": [{"$ref": member} for member in members.values()],
        "discriminator": {"propertyName": "event_type", "mapping": members},
    }
