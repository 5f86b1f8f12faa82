"""JSON on the command line: written out, from a file (`@path`), or from standard input (`-`)."""

import json
import math
import os
import sys
from typing import Any, NoReturn

import click


class JsonInput(click.ParamType[Any]):
    """A JSON document. A source that cannot be read, or is not JSON, is a usage error."""

    name = "json"

    def __init__(self, *, must_be_object: bool = False) -> None:
        self._must_be_object = must_be_object

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the document."""
        text = self._text(value, param, ctx)
        try:
            document = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            self.fail(f"not JSON: {error}", param, ctx)
        if self._must_be_object and not isinstance(document, dict):
            self.fail("must be a JSON object", param, ctx)
        return document

    def _text(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            if value == "-" and sys.stdin is None:
                self.fail("standard input is closed", param, ctx)
            if value == "-":
                return sys.stdin.buffer.read().decode("utf-8-sig")
            if value.startswith("@"):
                with open(os.path.expanduser(value[1:]), encoding="utf-8-sig") as file:
                    return file.read()
        except OSError as error:
            self.fail(f"cannot read {_source(value)}: {error.strerror or error}", param, ctx)
        except UnicodeDecodeError as error:
            self.fail(f"cannot read {_source(value)}: not UTF-8: {error.reason}", param, ctx)
        return value


def _source(value: str) -> str:
    return "standard input" if value == "-" else value[1:]


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number
