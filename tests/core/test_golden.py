"""Histories written by any release must be read for ever: the lines under `golden/` are never edited, only added to.

A line holds an event as it was recorded, and under `means` what it says. `first.jsonl` has every kind twice: with all
its fields, and with as few as a history may hold, so that a default that is left out keeps its value, too.
"""

from typing import Any

import msgspec
import pytest

from assay.core.codec import encode
from assay.core.model.events import KINDS
from assay.core.model.payload import NULL, Payload
from tests.core.golden_lines import LINES, read


def plain(value: Any) -> Any:
    """An event as dicts, lists and numbers, with every field, also those at their default."""
    match value:
        case Payload():
            return msgspec.json.decode(value)
        case msgspec.Struct():
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case tuple():
            return [plain(entry) for entry in value]
        case str():
            return str(value)
    return value


def within(wanted: Any, found: Any) -> bool:
    """Is all that is wanted there? What a later version added may be there, too."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and within(value, found[key]) for key, value in wanted.items())
    return bool(wanted == found)


def test_every_kind_of_event_has_its_lines():
    assert {line.kind for line in LINES} == set(KINDS)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_some_line_says_what_every_field_means(kind):
    """A field that no line names, at whatever depth, could be renamed without anybody noticing."""
    assert any(within(plain(read(line)), line.means) for line in LINES if line.kind == kind)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.kind)
def test_what_was_recorded_means_what_it_meant(line):
    event = read(line)
    assert type(event) is KINDS[line.kind]
    assert within(line.means, plain(event)), plain(event)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.kind)
def test_what_is_recorded_now_has_what_was_recorded_then(line):
    payload, data = encode(read(line))
    assert within(msgspec.json.decode(line.payload), msgspec.json.decode(payload))
    if line.data != NULL:
        assert within(msgspec.json.decode(line.data), msgspec.json.decode(data or b"null"))
