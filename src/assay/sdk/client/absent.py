"""Sentinels for arguments that were left out where None is a valid value; cheap to import."""

import enum
from typing import Any, Final


class _Absent(enum.Enum):
    KEEP_INPUT = enum.auto()

    def __repr__(self) -> str:
        return self.name


KEEP_INPUT: Final[Any] = _Absent.KEEP_INPUT
"""The default of an `input` parameter: keep the input of the previous run. None is a valid input."""
