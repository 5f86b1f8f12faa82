"""Texts that callers give, beside ids: as every store can keep them (I20)."""

from assay.core.model.errors import Invalid
from assay.core.model.limits import LIMITS


def check_words(value: object, name: str) -> str:
    """A text for people, of which every store can keep each letter, and within its limit; or `Invalid`."""
    if not isinstance(value, str):
        raise not_a_text(value, name)
    if "\0" in value:
        raise Invalid(f"{name} contains the character U+0000", code="nul_character", field=name)
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{name} contains half of a surrogate pair", code="lone_surrogate", field=name) from None
    if size > LIMITS.text_bytes:
        message = f"{name} is {size:,} bytes long; the limit is {LIMITS.text_bytes:,}"
        raise Invalid(message, code="text_too_long", field=name)
    return plain(value)


def not_a_text(value: object, name: str) -> Invalid:
    """What is said of a value that should have been a text."""
    return Invalid(f"{name} must be a text, not {type(value).__name__}", field=name)


def plain(value: str) -> str:
    """The text itself: one of a subclass cannot be written as JSON."""
    return value if type(value) is str else str.__str__(value)
