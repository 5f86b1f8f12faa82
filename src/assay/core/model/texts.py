"""Checks of texts from callers, so that every store can keep the texts unchanged (I20)."""

from assay.core.model.errors import Invalid
from assay.core.model.limits import LIMITS


def check_words(value: object, name: str) -> str:
    """Return a text for people; raise `Invalid` if a store cannot keep every character, or beyond the size limit."""
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
    """Return the error for a value of another type than str."""
    return Invalid(f"{name} must be a text, not {type(value).__name__}", field=name)


def plain(value: str) -> str:
    """Return the text as a plain str, because subclasses of str cannot be encoded as JSON."""
    return value if type(value) is str else str.__str__(value)
