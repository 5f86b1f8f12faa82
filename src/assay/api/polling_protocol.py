"""Parse the commands of polling workers, with the tolerance that their libraries require.

Unknown command types are skipped, a null or missing field has its default, an integer may be written as 1.0, and an
empty object may be written as an empty array. The result is checked like the commands of other workers.
"""

import logging
from typing import Any, Final, get_args

import msgspec

from assay.core.model.commands import AnyCommand, Command
from assay.core.model.errors import Invalid
from assay.core.model.options import check_text
from assay.core.model.payload import NULL, Payload, check_limits, is_empty
from assay.core.model.run import STUCK_REASONS, TASK_FAILED
from assay.core.model.start_options import OptionKind, options_of
from assay.wire.aliases import canonical_fields, has_aliases

log = logging.getLogger("assay.wire")


class FailTaskCommand(Command, frozen=True, gc=False, omit_defaults=True, tag="FailTask"):
    """Fail the workflow task: it is retried with a growing delay, and other commands of the list are ignored."""

    reason: str = TASK_FAILED
    message: str = ""

    def stuck(self) -> tuple[str, str]:
        """Return the reason and the message to show; an unknown reason becomes part of the message."""
        if self.reason in STUCK_REASONS:
            return self.reason, self.message
        return TASK_FAILED, f"{self.reason}: {self.message}" if self.message else self.reason


Sent = AnyCommand | FailTaskCommand
"""A command that a polling worker may send."""

BY_TYPE: Final[dict[str, type[Command]]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Sent)}

_exact: Final = msgspec.json.Decoder(list[Sent]).decode
_members: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_text: Final = msgspec.json.Decoder(str).decode
_OBJECTS: Final = frozenset({"patch", "state", "search", *options_of(OptionKind.OBJECT, OptionKind.RETRY)})
"""Fields that hold an object: an empty array there is an empty object."""


_TEXTS: Final = frozenset({"summary", "details", "reason", "message"})
"""Fields with a text for people."""


def commands_of(raw: Payload) -> tuple[Sent, ...]:
    """Return the commands of a JSON list; raise `Invalid` for a command that cannot be decoded."""
    if is_empty(raw):
        return ()
    try:
        found = _tolerated(raw) if has_aliases(raw) else _exact(raw)
    except msgspec.ValidationError:  # the tolerant way is slower, and only needed if the exact way fails
        found = _tolerated(raw)
    for place, command in enumerate(found):
        _check_payloads(command, f"commands[{place}]")
    return tuple([_with_objects(command) for command in found])


def _tolerated(raw: Payload) -> list[Sent]:
    try:
        members = _members(raw)
    except msgspec.ValidationError as error:
        raise Invalid(f"commands must be a list of objects: {error}", code="wrong_shape", field="commands") from None
    found = [_command(fields, f"commands[{place}]") for place, fields in enumerate(members)]
    return [command for command in found if command is not None]


def _command(fields: dict[str, msgspec.Raw], path: str) -> Any:
    kind = _type_of(fields.pop("type", NULL))
    if kind not in BY_TYPE:
        log.warning("skipped a command of the unknown type %r", kind)
        return None
    given = canonical_fields(kind, {name: value for name, value in fields.items() if bytes(value) != b"null"}, path)
    filled = {name: _filled(name, value) for name, value in given.items()}
    filled.update({name: Payload(b"{}") for name in ("patch", "state") if name not in filled})
    try:
        return msgspec.json.decode(msgspec.json.encode({"type": kind, **filled}), type=BY_TYPE[kind], strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"a {kind} command cannot be read: {error}", code="wrong_shape", field=path) from None


def _type_of(raw: msgspec.Raw) -> str:
    try:
        return _text(raw)
    except msgspec.ValidationError:
        return ""


def _filled(name: str, value: msgspec.Raw) -> msgspec.Raw:
    return Payload(b"{}") if name in _OBJECTS and bytes(value).startswith(b"[") and is_empty(value) else value


def _with_objects(command: Sent) -> Sent:
    """Return the command with empty arrays replaced by empty objects in the fields that hold objects."""
    names = _OBJECTS.intersection(command.__struct_fields__)
    if not names:
        return command
    held = {name: value for name in names if isinstance(value := getattr(command, name), msgspec.Raw)}
    filled = {name: _filled(name, value) for name, value in held.items()}
    return command if filled == held else msgspec.structs.replace(command, **filled)


def _check_payloads(command: Command, path: str) -> None:
    for name in command.__struct_fields__:
        value = getattr(command, name)
        if isinstance(value, msgspec.Raw) and value is not NULL:
            check_limits(bytes(value), name=f"{path}.{name}")
        elif name in _TEXTS:
            check_text(value, f"{path}.{name}")
