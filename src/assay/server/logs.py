"""Structured logs of `assay serve` and `assay run`: readable on a terminal, a JSON object per line elsewhere.

A record is a single line, whatever an id or an error contains; secrets never reach a log; no value is longer than a
kibibyte. Only programs install these logs: importing the library changes no logging.
"""

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, TextIO

VALUE_LIMIT: Final = 1024
TRACEBACK_LIMIT: Final = 8 * 1024
HIDDEN: Final = "***"
THROTTLED_RECORDS: Final = 10
THROTTLE_SECONDS: Final = 60.0
THROTTLED_KINDS: Final = 1_000
"""Most messages with a count of records; beyond this number all counts start anew."""
CAUSED_BY_CLIENTS: Final = ("uvicorn.error", "assay.api")
"""Loggers of warnings that clients can cause at any rate."""

# C0, DEL, C1, the two line separators of Unicode, characters that change the direction of text, invisible characters.
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_SECRET_NAME: Final = re.compile(r"authorization|cookie|x[-_]api[-_]key|api[-_]?key|passw(or)?d|secret|token", re.I)
_SECRETS: Final = (
    (re.compile(r"\bassay_[0-9a-f]{16,}", re.I), f"assay_{HIDDEN}"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@\"']*):[^\s\"']+@", re.I), rf"\1:{HIDDEN}@"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.I), rf"\1 {HIDDEN}"),
    (
        re.compile(r"\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)([\"']?\s*[:=]\s*[\"']?)[^\"'\r\n]+", re.I),
        rf"\1\2{HIDDEN}",
    ),
    (
        re.compile(r"\b(password|passwd|api[-_]?key|secret|token)([\"']?\s*[:=]\s*[\"']?)[^\s\"'&,;]+", re.I),
        rf"\1\2{HIDDEN}",
    ),
)
_KNOWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_COLORS: Final = {
    "DEBUG": "\x1b[2m",
    "INFO": "\x1b[32m",
    "WARNING": "\x1b[33m",
    "ERROR": "\x1b[31m",
    "CRITICAL": "\x1b[1;31m",
}
_PLAIN: Final = "\x1b[0m"


def redacted(text: str) -> str:
    """Return `text` without keys, tokens and the passwords of URLs."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def one_line(text: str) -> str:
    """Return `text` with an escape for each character that could move a cursor, end a line or reverse text."""
    return _UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(found[0]) or f"\\u{ord(found[0]):04x}"


def _cut(text: str, limit: int = VALUE_LIMIT) -> str:
    """Return at most `limit` bytes: the end of a traceback, the beginning of any other text."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= limit:
        return text
    if limit == TRACEBACK_LIMIT:
        return f"[{len(raw) - limit:,} bytes cut]…" + raw[-limit:].decode("utf-8", "ignore")
    return raw[:limit].decode("utf-8", "ignore") + f"…[{len(raw) - limit:,} bytes cut]"


def _message(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception as error:  # noqa: BLE001 - a bad format must not lose the line
        text = f"{record.msg!r} with {record.args!r} ({type(error).__name__})"
    # Redact before cutting: a cut could remove the prefix that marks a secret.
    return _cut(redacted(text))


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """Yield the fields that the caller passed as `extra`."""
    for name, value in vars(record).items():
        if name not in _KNOWN and not name.startswith("_"):
            yield name, HIDDEN if _SECRET_NAME.search(name) else _value(value)


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return _cut(redacted(value if isinstance(value, str) else repr(value)))


def _traceback(record: logging.LogRecord, formatter: logging.Formatter) -> str | None:
    if not record.exc_info and not record.stack_info:
        return None
    text = formatter.formatException(record.exc_info) if record.exc_info else record.stack_info or ""
    return _cut(redacted(text), TRACEBACK_LIMIT)


class JsonLines(logging.Formatter):
    """A formatter of records as JSON objects, one per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        line.update((name, value) for name, value in _fields(record) if name not in line)
        trace = _traceback(record, self)
        if trace is not None:
            line["exception"] = trace
        text = json.dumps(line, ensure_ascii=False, default=repr)
        return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Readable(logging.Formatter):
    """A formatter of records for a terminal: a line, and the traceback below if the record has one."""

    def __init__(self, *, colors: bool) -> None:
        super().__init__()
        self._colors = colors

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, and the lines of its traceback, indented."""
        level = f"{record.levelname:<8}"
        if self._colors:
            level = f"{_COLORS.get(record.levelname, '')}{level}{_PLAIN}"
        fields = "".join(f" {name}={one_line(str(value))}" for name, value in _fields(record))
        line = f"{_time(record)[11:23]} {level} {one_line(record.name)}: {one_line(_message(record))}{fields}"
        trace = _traceback(record, self)
        if trace is None:
            return line
        return "\n".join([line, *(f"    {one_line(row)}" for row in trace.splitlines())])


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def colorful(stream: TextIO) -> bool:
    """Return whether to use colours: on a terminal without `NO_COLOR` (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


class Throttle(logging.Filter):
    """A filter that passes a few records of each kind per minute; the next record shows the number left out.

    For warnings caused by clients: a malformed request is worth a log line, a million of them are not.
    """

    def __init__(self, most: int = THROTTLED_RECORDS, seconds: float = THROTTLE_SECONDS) -> None:
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._kinds: dict[str, tuple[float, int]] = {}
        """For each message: the start of its current minute, and the number of records since then."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`; errors always pass, because clients cannot cause them."""
        if record.levelno >= logging.ERROR:
            return True
        kind = str(record.msg)
        if kind not in self._kinds and len(self._kinds) >= THROTTLED_KINDS:
            self._kinds.clear()
        since, count = self._kinds.get(kind, (record.created, 0))
        if not 0 <= record.created - since < self._seconds:
            if count > self._most:
                record.msg = f"{kind} ({count - self._most:,} more like this were not logged)"
            since, count = record.created, 0
        self._kinds[kind] = since, count + 1
        return count < self._most


def install(
    level: str | int = "INFO", stream: TextIO | None = None, *, json_lines: bool | None = None
) -> Callable[[], None]:
    """Send all logs of this program to `stream`, as JSON except on a terminal; return the undo function."""
    target = sys.stderr if stream is None else stream
    terminal = target.isatty()
    outlet = logging.StreamHandler(target)
    as_json = not terminal if json_lines is None else json_lines
    outlet.setFormatter(JsonLines() if as_json else Readable(colors=colorful(target)))
    root = logging.getLogger()
    before = root.level
    root.addHandler(outlet)
    root.setLevel(level)
    throttled = [(logging.getLogger(name), Throttle()) for name in CAUSED_BY_CLIENTS]
    for logger, throttle in throttled:
        logger.addFilter(throttle)

    def uninstall() -> None:
        for logger, throttle in throttled:
            logger.removeFilter(throttle)
        root.removeHandler(outlet)
        root.setLevel(before)

    return uninstall
