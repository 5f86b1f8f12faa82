"""`assay replay`: check that workflow code matches recorded histories."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from assay.cli.arguments import NAME
from assay.cli.command_errors import FAILED, print_error, print_finding, warn_about_key
from assay.cli.options import RemoteCommand, flags_of, global_options
from assay.cli.suggestions import workflow_ids

if TYPE_CHECKING:
    from assay.sdk.app import App
    from assay.testing.histories import Source

STANDARD_INPUT: Final = "-"


class NamedHistory(NamedTuple):
    """A history, its name in messages, and the namespace of its run or None."""

    name: str
    source: Source
    namespace: str | None


@click.command(cls=RemoteCommand, short_help="Check that workflow code matches recorded histories.")
@click.argument(
    "histories",
    metavar="[HISTORY]...",
    nargs=-1,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="Files with events, in JSON or JSON lines; - for standard input.",
)
@click.option("--against", metavar="CODE", required=True, help="A Python file, a module, or module:app.")
@click.option(
    "--type", "workflow_type", metavar="TYPE", type=NAME, help="Workflow type.  [default: the type in the history]"
)
@click.option(
    "--id",
    "workflow_ids",
    metavar="ID",
    type=NAME,
    multiple=True,
    shell_complete=workflow_ids,
    help="Get the history of this workflow's newest run from the engine; may be repeated.",
)
@lambda command: global_options(command, without="--output")
@click.pass_context
def replay(
    context: click.Context,
    histories: tuple[str, ...],
    against: str,
    workflow_type: str | None,
    workflow_ids: tuple[str, ...],
) -> None:
    """Check that workflow code matches recorded histories.

    Use it before you deploy changed workflow code. A HISTORY is the output of `assay workflow events ID --output json`,
    of an open or closed run, or a file that `assay.testing.replay` has saved. The command runs the workflow code of
    CODE with the recorded events, and compares its commands with the history. No activity, step or side effect is run.

    \b
    Examples:
      assay workflow events order-1 --output json > order-1.json
      assay replay --against worker.py order-1.json
      assay replay --against shop.workflows histories/*.json
      assay replay --against worker.py --id order-1

    Exit codes: 0 the code matches all histories; 1 the code differs, with a line for each difference that shows the
    step, the history and the code; 64 wrong usage of the command.
    """
    if not histories and not workflow_ids:
        raise click.UsageError("give a file with a history, or --id")
    apps = _apps(against)
    kept = [*_files(context, histories), *_fetched(context, workflow_ids)]
    failed = [one for one in kept if not _follows(one, apps, against, workflow_type)]
    if failed:
        click.echo(f"{len(failed)} of {len(kept)} histories are not followed", err=True)
        raise click.exceptions.Exit(FAILED)


def _apps(against: str) -> Sequence[App]:
    from assay.cli.program import load_named

    program = load_named(against)
    if program is None:
        raise click.exceptions.Exit(FAILED)
    return program.apps


def _files(context: click.Context, names: Sequence[str]) -> Iterator[NamedHistory]:
    namespace = flags_of(context).get("namespace")
    for name in names:
        if name != STANDARD_INPUT:
            yield NamedHistory(name, Path(name), namespace)
        elif sys.stdin is None:
            raise click.UsageError("standard input is closed")
        else:
            yield NamedHistory("standard input", sys.stdin.buffer.read(), namespace)


def _fetched(context: click.Context, names: Sequence[str]) -> Iterator[NamedHistory]:
    """Return the current histories of workflows, read from the engine."""
    from assay.cli.session import session_of
    from assay.cli.waiting import history

    warn_about_key(flags_of(context).get("api_key"))
    for name in names:
        session = session_of(context)
        yield NamedHistory(name, history(session.engine, name, None), session.namespace)


def _follows(kept: NamedHistory, apps: Sequence[App], against: str, workflow_type: str | None) -> bool:
    """Replay a history with the code, print the outcome, and return whether the code matches."""
    from assay.core.model.errors import AssayError
    from assay.testing.replay import load_history, replay_history

    try:
        history = load_history(kept.source, workflow_type, kept.namespace)
        warnings = replay_history(history, _app(apps, history.workflow_type, against))
    except AssayError as error:
        print_finding(f"{kept.name}: not followed: {error}")
        return False
    for warning in warnings:
        print_error(f"{kept.name}: warning: {warning}")
    print_finding(f"{kept.name}: followed, {len(history.events)} events of {history.workflow_type}")
    return True


def _app(apps: Sequence[App], workflow_type: str, against: str) -> App:
    from assay.core.model.errors import NotFound

    for app in apps:
        if workflow_type in app.workflows:
            return app
    known = ", ".join(sorted({name for app in apps for name in app.workflows})) or "none"
    raise NotFound(f"{against} has no workflow of type {workflow_type}; its types: {known}")
