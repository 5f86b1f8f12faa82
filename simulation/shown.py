"""Requests, replies and events as short text for traces."""

import msgspec

LONGEST = 120


def shown(value: object) -> str:
    """A value on less than one line: fields that have their default are left out, documents are cut."""
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, msgspec.Raw):
        text = bytes(value).decode()
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(shown, value))}]"
    if not isinstance(value, msgspec.Struct):
        return str(value)
    fields = [
        f"{field.name}={shown(getattr(value, field.name))}"
        for field in msgspec.structs.fields(value)
        if getattr(value, field.name) != field.default
    ]
    return f"{type(value).__name__}({' '.join(fields)})"
