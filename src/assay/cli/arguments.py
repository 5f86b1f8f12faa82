"""Types and options of the command line that several commands use."""

from collections.abc import Sequence
from typing import Any, Final, cast

import click

from assay.cli.json_input import JsonInput

STATUSES: Final = ("PENDING", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT")
OVERLAPS: Final = ("skip", "queue", "cancel_old", "terminate_old", "allow_all")
DEFAULT_QUEUE: Final = "default"
JSON_FORMS: Final = "Literal JSON, @FILE, or - for standard input."

JSON: Final = JsonInput()
JSON_OBJECT: Final = JsonInput(must_be_object=True)
STATUS: Final = click.Choice(STATUSES, case_sensitive=False)
LISTED_STATUS: Final = click.Choice((*STATUSES, "open", "closed"), case_sensitive=False)


class Attributes(click.ParamType[dict[str, Any]]):
    """Search attributes: `key=value`, or a JSON object."""

    name = "attributes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """Return the attributes; a value that looks like a JSON number, boolean, list or string is parsed as JSON."""
        key, separator, text = str(value).partition("=")
        if not separator or not key.isidentifier():
            return cast(dict[str, Any], JSON_OBJECT.convert(value, param, ctx))
        try:
            found = JSON.convert(text, param, ctx) if text[:1] in '-0123456789"tf[' and text != "-" else text
        except click.UsageError:
            found = text
        return {key: found}


def merged(context: click.Context, parameter: click.Parameter, values: Sequence[dict[str, Any]]) -> Any:
    """Return the attributes of all options in a single object, or None without options."""
    return {key: value for one in values for key, value in one.items()} if values else None


ATTRIBUTES: Final = Attributes()


class Name(click.ParamType[str]):
    """An id or a name: any text but the empty text."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name unchanged."""
        text = str(value)
        if not text:
            self.fail("must not be empty", param, ctx)
        return text


class Seconds(click.ParamType[float]):
    """A duration: a number of seconds, or a text such as 1h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the duration in seconds."""
        from assay.core.model.duration import SECOND, parse_duration
        from assay.core.model.errors import Invalid

        try:
            number: float | str = float(value)
        except ValueError:
            number = value
        try:
            return parse_duration(number, "duration") / SECOND
        except Invalid as error:
            self.fail(str(error).removeprefix("duration: "), param, ctx)


class PointInTime(click.ParamType[float]):
    """A point in time: seconds since the epoch, or ISO 8601, by default in UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the time in seconds since the epoch."""
        from datetime import UTC, datetime

        try:
            return float(value)
        except ValueError:
            pass
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time: write 2026-01-31T12:00:00Z, or seconds since the epoch", param, ctx)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


NAME: Final = Name()
SECONDS: Final = Seconds()
MOMENT: Final = PointInTime()

backend_option: Final = click.option(
    "--backend",
    metavar="URL",
    envvar="DATABASE_URL",
    help="Database: sqlite://file.db, sqlite:///absolute/file.db or postgres://user:password@host/database."
    "  [env: DATABASE_URL; default: assay-workflow.db in the current folder]",
)
