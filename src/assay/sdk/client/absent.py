"""Marks of arguments that were left out, where None is a value like any other; light to import."""

import enum
from typing import Any, Final


class _Absent(enum.Enum):
    KEEP_INPUT = enum.auto()

    def __repr__(self) -> str:
        return self.name


KEEP_INPUT: Final[Any] = _Absent.KEEP_INPUT
"""Stands for an input that the caller left out, where None is an input like any other."""
