"""What a shell offers for ids and names: asked of the engine, quickly, and nothing at all if that does not work."""

from typing import Any, Final

import click

from assay.cli.command_errors import CommandError
from assay.cli.session import session_of

SUGGESTION_TIMEOUT_SECONDS: Final = 1.0
SUGGESTIONS_LIMIT: Final = 50


def workflow_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids of the newest runs."""
    return _offered(context, incomplete, "id", "workflows", text=incomplete or None, limit=SUGGESTIONS_LIMIT)


def schedule_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of schedules."""
    return _offered(context, incomplete, "name", "schedules")


def namespace_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of namespaces."""
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
