"""Texts that callers give, beside ids: names and words for people, as every store can keep them (I20)."""

from assay.core.errors import Invalid
from assay.core.limits import LIMITS


def check_text(value: object, name: str) -> str:
    """`value` if it is a text that comes back as it was, or `Invalid`."""
    if not isinstance(value, str):
        raise no_text(value, name)
    if "\0" in value:
        raise Invalid(f"{name} contains the character U+0000", code="nul_character", field=name)
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{name} contains half of a surrogate pair", code="lone_surrogate", field=name) from None
    if size > LIMITS.payload_bytes:
        raise Invalid(f"{name} is longer than {LIMITS.payload_bytes:,} bytes", code="payload_too_large", field=name)
    return plain(value)


def no_text(value: object, name: str) -> Invalid:
    """What is said of a value that should have been a text."""
    return Invalid(f"{name} must be a text, not {type(value).__name__}", field=name)


def plain(value: str) -> str:
    """The text itself: one of a subclass cannot be written as JSON."""
    return value if type(value) is str else str.__str__(value)
