"""Answers on standard output: lists, records and actions, each in four formats (wire 6.3)."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from assay.cli.trouble import Trouble

NOTHING: Final = "-"


class Column(NamedTuple):
    """A column of a table: its title, and the field it shows."""

    title: str
    field: str
    is_time: bool = False


class Printer:
    """Writes answers in one format."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.terminal = sys.stdout.isatty()

    def list(self, records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
        """Several records: rows, one array, one object per line, or a sequence."""
        match self.output:
            case "table":
                self._write("".join(f"{line}\n" for line in table(records, columns)))
            case "jsonl":
                self._write("".join(f"{_compact(record)}\n" for record in records))
            case _:
                self._document(records)

    def record(self, record: object) -> None:
        """One record; a table of one would say less than its JSON."""
        if self.output == "jsonl":
            self._write(f"{_compact(record)}\n")
        else:
            self._document(record)

    def action(self, sentence: str) -> None:
        """Something was done."""
        done = {"message": sentence, "ok": True}
        match self.output:
            case "table":
                self._write(f"{_line(sentence)}\n")
            case "json":
                self._write(f"{json.dumps(done, ensure_ascii=False)}\n")
            case _:
                self.record(done)

    def event(self, event: Mapping[str, Any]) -> None:
        """One event of a history that is being followed, at once."""
        if self.output == "table":
            time = _cell(event, Column("TIMESTAMP", "timestamp", is_time=True))
            line = f"{_cell(event, Column('SEQ', 'seq')):>4}  {_cell(event, Column('TYPE', 'event_type')):<30}  {time}"
        else:
            line = _compact(event)
        self._write(f"{line}\n")

    def sentence(self, text: str) -> None:
        """For people: on a terminal, and nowhere else."""
        if self.terminal:
            self._write(f"{_line(text)}\n")

    def _document(self, document: object) -> None:
        if self.output == "yaml":
            self._write(_yaml(document))
        else:
            self._write(f"{json.dumps(document, indent=2, ensure_ascii=False)}\n")

    def _write(self, text: str) -> None:
        """All output passes here, so that no text of somebody else's can steer a terminal (5.2)."""
        if self.terminal:
            text = "".join(f"{_line(line)}\n" for line in text.split("\n")[:-1])
        try:
            click.echo(text, nl=False)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Trouble(f"the answer cannot be written: {error.strerror}") from None


def table(records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> Iterable[str]:
    """A header and rows: left-aligned, two blanks between, the last column unpadded."""
    rows = [
        [column.title for column in columns],
        *([_cell(record, column) for column in columns] for record in records),
    ]
    widths = [max(len(row[number]) for row in rows) for number in range(len(columns) - 1)]
    for row in rows:
        padded = [f"{text:<{width}}" for text, width in zip(row, widths, strict=False)]
        yield "  ".join([*padded, row[-1]])


def _cell(record: Mapping[str, Any], column: Column) -> str:
    value = record.get(column.field)
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return _line(value)
    if column.is_time and isinstance(value, int | float):
        return timestamp(value)
    return _compact(value)


def timestamp(seconds: float) -> str:
    """A time for people, to the millisecond, without blanks: 2026-01-31T12:00:00.000Z."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def _line(text: str) -> str:
    """`text` with control characters written out: it stays on its line."""
    if text.isprintable():
        return text
    from assay.server.logs import one_line

    return one_line(text)


def _compact(document: object) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _yaml(document: object) -> str:
    import yaml  # only who asks for it pays for it

    text: str = yaml.dump(
        document,
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=1_000_000,
    )
    return text
