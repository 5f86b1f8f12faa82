"""Recorded names stay as they are: a renaming of classes or modules must not reach what is stored, sent or measured."""

import json
from pathlib import Path

from tests.architecture.recorded_names import recorded_names

FROZEN = Path(__file__).with_name("recorded_names.json")


def test_recorded_names_are_the_frozen_ones():
    assert recorded_names() == json.loads(FROZEN.read_text(encoding="utf-8"))
