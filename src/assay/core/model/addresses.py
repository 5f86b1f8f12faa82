"""Addresses of workflows, mailboxes and updates, as texts: parse and format.

`wf://<namespace>/<id>[?run=<run id>]`, `mbx://<namespace>/<id>[?re=<number>]`, `upd://<namespace>/<workflow id>/<update
id>`. Letters, digits and `-_.~` stand for themselves, all other characters are percent-encoded UTF-8. Readers decode
`%XX` and accept every other character as it is.
"""

import re
from typing import Final

import msgspec

WORKFLOW, MAILBOX, UPDATE = "wf://", "mbx://", "upd://"
SCHEMES: Final = (WORKFLOW, MAILBOX, UPDATE)
"""The beginnings of addresses; no workflow id may begin so."""

_ENCODED: Final = re.compile(rb"[^A-Za-z0-9\-_.~]")
_DECODED: Final = re.compile(rb"%([0-9A-Fa-f]{2})")


class Address(msgspec.Struct, frozen=True, gc=False):
    """A parsed address; `part` is the run of a workflow, the number of a request, or the id of an update."""

    scheme: str
    namespace: str
    id: str
    part: str | None = None


def workflow_address(namespace: str, workflow_id: str, run_id: str | None = None) -> str:
    """Return the address of the current run of a workflow id, or of one run alone."""
    text = f"{WORKFLOW}{_quoted(namespace)}/{_quoted(workflow_id)}"
    return text if run_id is None else f"{text}?run={_quoted(run_id)}"


def mailbox_address(namespace: str, mailbox_id: str, request: int | None = None) -> str:
    """Return the address of a mailbox, or of the replies to one of its requests."""
    text = f"{MAILBOX}{_quoted(namespace)}/{_quoted(mailbox_id)}"
    return text if request is None else f"{text}?re={request}"


def update_address(namespace: str, workflow_id: str, update_id: str) -> str:
    """Return the address of the caller of an update."""
    return f"{UPDATE}{_quoted(namespace)}/{_quoted(workflow_id)}/{_quoted(update_id)}"


def parse_address(text: object) -> Address | None:
    """Return the address that a text is; None for any other text or value."""
    if not isinstance(text, str):
        return None
    scheme = next((scheme for scheme in SCHEMES if text.startswith(scheme)), None)
    if scheme is None:
        return None
    namespace, _, rest = text[len(scheme) :].partition("/")
    if scheme == UPDATE:
        rest, _, part = rest.partition("/")
    else:
        rest, _, part = rest.partition("?run=" if scheme == WORKFLOW else "?re=")
    found = [_unquoted(piece) for piece in (namespace, rest, part)]
    if not found[0] or not found[1] or (scheme == UPDATE and not found[2]):
        return None
    return Address(scheme, found[0], found[1], found[2] or None)


def _quoted(text: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    return _ENCODED.sub(lambda found: b"%%%02X" % found[0][0], raw).decode("ascii")


def _unquoted(text: str) -> str | None:
    """Return a decoded part of an address; None if its bytes are not UTF-8."""
    if "%" not in text:
        return text
    try:
        raw = text.encode("utf-8", "surrogatepass")
        return _DECODED.sub(lambda found: bytes((int(found[1], 16),)), raw).decode("utf-8")
    except UnicodeDecodeError:
        return None
