"""The differences between the SQL of SQLite and Postgres: placeholders, bulk binding, locks and type names.

Statements are written once, in `queries` and in the shapes below. They use `$1` for a parameter and name fragments:
`$one_of(1)` is membership in a list of texts, `$pairs(1)` a table of pairs, `$claim` a lock that skips rows locked by
other transactions, `$demands(1, 2, 3, 4)` a table of work that workers can take, `$committed_after(1, 2, 3)` the events
`e` after a position and below a horizon, in commit order.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from string import Template
from typing import Protocol

import msgspec

from assay.storage.ports import Demand
from assay.storage.sql.tables import Table, Type

Row = Sequence[object]


class Verb(StrEnum):
    """The operation of a write on the rows of a table."""

    INSERT = "insert"
    KEEP = "keep"
    """Insert, but keep an existing row with the same key."""
    UPSERT = "upsert"
    UPDATE = "update"
    """Compare and set: change only a row with the previous `version`."""
    SET = "set"
    """Change some columns of an existing row."""
    DELETE = "delete"


class Dialect(Protocol):
    """The fragments of one database."""

    def write(self, verb: Verb, table: Table) -> str:
        """Return the statement that applies `verb` to rows of `table`."""
        ...

    def query(self, text: str) -> str:
        """Return a statement with its parameters and fragments expanded."""
        ...

    def script(self, text: str) -> str:
        """Return a migration with its type names and table options expanded."""
        ...

    def texts(self, values: Sequence[str]) -> object:
        """Return the argument of `$one_of`."""
        ...

    def pairs(self, values: Sequence[tuple[str, str]]) -> tuple[object, ...]:
        """Return the arguments of `$pairs`, which must be the last arguments of a query."""
        ...


_PARAMETER = re.compile(r"\$(\d+)")
_FRAGMENT = re.compile(r"\$([a-z_]+)(?:\(([^)]*)\))?")


def _expand(text: str, fragments: Mapping[str, str]) -> str:
    def fragment(found: re.Match[str]) -> str:
        arguments = [argument.strip() for argument in (found[2] or "").split(",")]
        return fragments[found[1]].format(*arguments)

    return _FRAGMENT.sub(fragment, text)


def _on_conflict(verb: Verb, table: Table) -> str:
    keys = ", ".join(table.keys)
    if verb is Verb.KEEP:
        return f" ON CONFLICT ({keys}) DO NOTHING"
    if verb is Verb.UPSERT:
        settings = ", ".join(f"{name} = excluded.{name}" for name in table.changing)
        return f" ON CONFLICT ({keys}) DO UPDATE SET {settings}"
    return ""


class SqliteDialect:
    """SQLite: a prepared statement for each table, executed row by row."""

    _fragments: Mapping[str, str] = {
        "one_of": "IN (SELECT value FROM json_each(?{0}))",
        "pairs": "(SELECT value ->> 0 AS first, value ->> 1 AS second FROM json_each(?{0})) AS wanted",
        "contains": "instr(lower({0}), ?{1}) > 0",
        "mentions": "instr({0}, CAST({1} AS BLOB)) > 0",
        "before": "substr({0}, 1, instr({0}, {1}) - 1)",
        "claim": "",
        "committed_after": "e.id > ?{1} AND e.id < ?{2} ORDER BY e.id",
        "newest_committed": "e.id < ?{0} ORDER BY e.id DESC LIMIT 1",
    }
    _types: Mapping[str, str] = {
        "text": "TEXT",
        "int": "INTEGER",
        "bytes": "BLOB",
        "identity": "INTEGER PRIMARY KEY",
        "transaction": "INTEGER NOT NULL DEFAULT 0",
        "table": "STRICT",
        "hot_table": "STRICT",
        "key_table": "STRICT, WITHOUT ROWID",
        "append_only_events": (
            "CREATE TRIGGER events_append_only BEFORE UPDATE ON events BEGIN\n"
            "    SELECT RAISE(ABORT, 'a recorded event never changes');\nEND;"
        ),
        "commit_order": "",  # one writer: ids are in order of commits already
        "shared_clock": "",  # one engine: its own boot clock is steady
    }

    @cache  # noqa: B019  # a dialect lives as long as the program
    def write(self, verb: Verb, table: Table) -> str:
        """See `Dialect`."""
        matching = " AND ".join(f"{name} = ?{place}" for place, name in enumerate(table.keys, 1))
        if verb is Verb.DELETE:
            return f"DELETE FROM {table.name} WHERE {matching}"  # noqa: S608  # names are constants of `tables`
        settings = ", ".join(f"{name} = ?{place}" for place, name in enumerate(table.changing, table.fixed + 1))
        if verb is Verb.SET:
            return f"UPDATE {table.name} SET {settings} WHERE {matching}"  # noqa: S608
        if verb is Verb.UPDATE:
            version = table.names.index("version") + 1
            return f"UPDATE {table.name} SET {settings} WHERE {matching} AND version = ?{version} - 1"  # noqa: S608
        places = ", ".join(f"?{place}" for place in range(1, len(table.columns) + 1))
        columns = ", ".join(table.names)
        conflict = _on_conflict(verb, table)
        return f"INSERT INTO {table.name} ({columns}) VALUES ({places}){conflict}"  # noqa: S608

    @cache  # noqa: B019
    def query(self, text: str) -> str:
        """See `Dialect`."""
        return _PARAMETER.sub(r"?\1", _expand(text, self._fragments))

    def script(self, text: str) -> str:
        """See `Dialect`."""
        return Template(text).substitute(self._types)

    def texts(self, values: Sequence[str]) -> object:
        """See `Dialect`."""
        return msgspec.json.encode(values).decode()

    def pairs(self, values: Sequence[tuple[str, str]]) -> tuple[object, ...]:
        """See `Dialect`."""
        return (msgspec.json.encode(values).decode(),)


def _numbers(column: Iterable[object]) -> str:
    return "{" + ",".join(["NULL" if number is None else str(number) for number in column]) + "}"


_SHARED_CLOCK = """
CREATE TABLE clock (
    id bigint NOT NULL PRIMARY KEY CHECK (id = 1),
    correction_us bigint NOT NULL,
    seen_at bigint NOT NULL
);

INSERT INTO clock (id, correction_us, seen_at) VALUES (1, 0, 0);

CREATE FUNCTION assay_wall() RETURNS bigint LANGUAGE sql VOLATILE AS
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint';

CREATE FUNCTION assay_time() RETURNS bigint LANGUAGE sql VOLATILE AS
    'SELECT read.wall + CASE WHEN c.correction_us < 0 THEN -1 ELSE 1 END
        * greatest(0, coalesce(abs(c.correction_us) - greatest(0, read.wall - c.seen_at) / 100, 0))
    FROM (SELECT assay_wall() AS wall) AS read LEFT JOIN clock c ON c.id = 1';
"""
"""`assay_wall` reads the server's clock, `assay_time` derives the engine time of all engines.

The correction shrinks by 1 % of the time since `seen_at`, therefore engine time never steps."""


class PostgresDialect:
    """Postgres: a single statement for all rows of a table, with an array for each column."""

    _fragments: Mapping[str, str] = {
        "one_of": "= ANY(${0}::text[])",
        "pairs": "unnest(${0}::text[], ${1}::text[]) AS wanted(first, second)",
        "demands": (
            "unnest(${0}::text[], ${1}::text[], ${2}::text[], ${3}::bigint[])"
            " AS wanted(namespace, task_queue, kind, free)"
        ),
        "contains": 'strpos(lower({0} COLLATE "C"), ${1}) > 0',
        "mentions": "position({1}::bytea IN {0}) > 0",
        "before": "split_part({0}, {1}, 1)",
        "claim": "FOR UPDATE SKIP LOCKED",
        "committed_after": ("(e.written_by, e.id) > (${0}, ${1}) AND e.written_by < ${2} ORDER BY e.written_by, e.id"),
        "newest_committed": "e.written_by < ${0} ORDER BY e.written_by DESC, e.id DESC LIMIT 1",
    }
    _arrays: Mapping[Type, str] = {Type.TEXT: "text[]", Type.INT: "text::bigint[]", Type.BYTES: "bytea[]"}
    _types: Mapping[str, str] = {
        "text": 'text COLLATE "C"',
        "int": "bigint",
        "bytes": "bytea",
        "identity": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "transaction": "bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)",
        "table": "",
        # Free space on the page for new versions of a row: its lease changes with every step.
        "hot_table": "WITH (fillfactor = 70)",
        "key_table": "",
        "append_only_events": (
            "CREATE FUNCTION events_append_only() RETURNS trigger LANGUAGE plpgsql AS\n"
            "    'BEGIN RAISE EXCEPTION ''a recorded event never changes''; END';\n"
            "CREATE TRIGGER events_append_only BEFORE UPDATE ON events\n"
            "    FOR EACH ROW EXECUTE FUNCTION events_append_only();"
        ),
        "commit_order": "CREATE INDEX events_commit_order ON events (written_by, id);",
        "shared_clock": _SHARED_CLOCK,
    }

    @cache  # noqa: B019  # a dialect lives as long as the program
    def write(self, verb: Verb, table: Table) -> str:
        """See `Dialect`."""
        arrays = ", ".join(f"${place}::{self._arrays[kind]}" for place, (_, kind) in enumerate(table.columns, 1))
        columns = ", ".join(table.names)
        matching = " AND ".join(f"target.{name} = source.{name}" for name in table.keys)
        source = f"unnest({arrays}) AS source({columns})"
        if verb is Verb.DELETE:
            return f"DELETE FROM {table.name} AS target USING {source} WHERE {matching}"  # noqa: S608  # constants
        if verb is Verb.SET:
            settings = ", ".join(f"{name} = source.{name}" for name in table.changing)
            return f"UPDATE {table.name} AS target SET {settings} FROM {source} WHERE {matching}"  # noqa: S608
        if verb is Verb.UPDATE:
            return self._compare_and_set(table, source, matching)
        conflict = _on_conflict(verb, table)
        return f"INSERT INTO {table.name} ({columns}) SELECT * FROM unnest({arrays}){conflict}"  # noqa: S608

    def _compare_and_set(self, table: Table, source: str, matching: str) -> str:
        """Return the statement; rows are locked in key order first, to prevent deadlocks between engines."""
        settings = ", ".join(f"{name} = source.{name}" for name in table.changing)
        key = table.keys[0]
        return (
            f"WITH locked AS MATERIALIZED (SELECT {key} FROM {table.name} WHERE {key} = ANY($1::text[])"  # noqa: S608
            f" ORDER BY {key} FOR UPDATE)"
            f" UPDATE {table.name} AS target SET {settings} FROM {source} JOIN locked USING ({key})"
            f" WHERE {matching} AND target.version = source.version - 1 RETURNING target.{key}, pg_current_xact_id()"
        )

    @cache  # noqa: B019
    def write_and_identify(self, verb: Verb, table: Table) -> str:
        """Return the statement of `write`, with the id of its transaction as its only row."""
        return f"WITH written AS ({self.write(verb, table)}) SELECT pg_current_xact_id()"

    def arrays(self, table: Table, cells: Iterable[tuple[object, ...]]) -> list[object]:
        """Return the parameters of `write`.

        A column of numbers is sent as a single text, because the driver encodes numbers one by one and slowly.
        """
        columns = zip(*cells, strict=True)
        return [
            _numbers(column) if kind is Type.INT else column
            for (_, kind), column in zip(table.columns, columns, strict=True)
        ]

    @cache  # noqa: B019
    def query(self, text: str) -> str:
        """See `Dialect`."""
        return _expand(text, self._fragments)

    def script(self, text: str) -> str:
        """See `Dialect`."""
        return Template(text).substitute(self._types)

    def texts(self, values: Sequence[str]) -> object:
        """See `Dialect`.

        Postgres stores no text with U+0000, and such a parameter would fail the whole batched query. The value matches
        no row, therefore it is left out.
        """
        return [value for value in values if "\0" not in value]

    def pairs(self, values: Sequence[tuple[str, str]]) -> tuple[object, ...]:
        """See `Dialect`; pairs with U+0000 are left out as in `texts`."""
        held = [pair for pair in values if "\0" not in pair[0] and "\0" not in pair[1]]
        return [first for first, _ in held], [second for _, second in held]

    def demands(self, values: Sequence[Demand]) -> tuple[object, ...]:
        """Return the arguments of `$demands`; demands with U+0000 are left out as in `texts`."""
        held = [demand for demand in values if "\0" not in f"{demand.namespace}{demand.queue}{demand.kind}"]
        return (
            [demand.namespace for demand in held],
            [demand.queue for demand in held],
            [demand.kind for demand in held],
            [demand.limit for demand in held],
        )
