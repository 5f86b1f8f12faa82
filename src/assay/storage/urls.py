"""Parse the URL of a database: `sqlite://w.db` and a bare name are relative paths, `sqlite:///var/w.db` is absolute."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from assay.core.model.errors import Invalid

EXAMPLES = "sqlite://app.db, sqlite:///var/lib/assay/app.db, postgres://user@host/database"


class SqliteUrl(msgspec.Struct, frozen=True):
    """The path of a SQLite file, relative to the current folder unless absolute."""

    path: Path


class PostgresUrl(msgspec.Struct, frozen=True):
    """The connection string of a Postgres database, in the form that the driver takes."""

    dsn: str


def parse_url(url: str) -> SqliteUrl | PostgresUrl:
    """Return the database that `url` names; raise `Invalid` with examples if the URL has another form."""
    text = url.strip()
    scheme, separator, rest = text.partition("://")
    if not separator:
        return SqliteUrl(_file(text.removeprefix("sqlite:"), url))
    match scheme.lower():
        case "sqlite":
            return SqliteUrl(_file(unquote(rest.partition("?")[0]), url))
        case "postgres" | "postgresql":
            return _postgres(text, url)
        case _:
            raise _invalid(url, f"{scheme} is neither sqlite nor postgres")


def _file(name: str, url: str) -> Path:
    if not name or name.endswith("/"):
        raise _invalid(url, "it names no file")
    if name == ":memory:":
        raise _invalid(url, "a durable engine needs a file")
    return Path(name).expanduser()


def _postgres(text: str, url: str) -> PostgresUrl:
    try:
        parts = urlsplit(text)
        _ = parts.port  # urlsplit validates the port on access
    except ValueError as error:
        raise _invalid(url, str(error)) from None
    if not parts.path.strip("/") and not parts.query:
        raise _invalid(url, "it names no database")
    return PostgresUrl(text)


def _invalid(url: str, reason: str) -> Invalid:
    shown = url if "@" not in url else url.partition("://")[0] + "://..."  # the URL may contain a password
    return Invalid(f"{shown!r} is no database URL: {reason}; examples: {EXAMPLES}", code="bad_url", field="url")
