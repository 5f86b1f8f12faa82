"""The lines under `golden/`: events as they were recorded, and under `means` what they say."""

from pathlib import Path
from typing import Any

import msgspec

from assay.core.codec import decode
from assay.core.model.payload import NULL, Payload

FOLDER = Path(__file__).parent / "golden"


class Line(msgspec.Struct, omit_defaults=True):
    kind: str
    payload: Payload
    means: dict[str, Any]
    data: Payload = NULL


LINES = [
    msgspec.json.decode(line, type=Line)
    for path in sorted(FOLDER.glob("*.jsonl"))
    for line in path.read_bytes().splitlines()
]


def read(line: Line) -> Any:
    return decode(line.kind, bytes(line.payload), None if line.data == NULL else bytes(line.data))
