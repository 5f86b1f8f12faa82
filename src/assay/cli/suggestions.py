"""Completions of ids and names, read from the engine; an engine that does not respond fast gives no completions."""

from typing import Any, Final

import click

from assay.cli.command_errors import CommandError
from assay.cli.session import session_of

SUGGESTION_TIMEOUT_SECONDS: Final = 1.0
SUGGESTIONS_LIMIT: Final = 50


def workflow_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of the newest runs."""
    return _offered(context, incomplete, "id", "workflows", text=incomplete or None, limit=SUGGESTIONS_LIMIT)


def schedule_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of schedules."""
    return _offered(context, incomplete, "name", "schedules")


def namespace_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of namespaces."""
    return _offered(context, incomplete, "name", "namespaces")


def _offered(context: click.Context, incomplete: str, field: str, path: str, **query: Any) -> list[str]:
    try:
        records = (
            session_of(context, SUGGESTION_TIMEOUT_SECONDS, warn=lambda _: None).engine.get(path, **query).document
        )
    except CommandError:
        return []
    names = dict.fromkeys(record[field] for record in records if record[field].startswith(incomplete))
    return list(names)
