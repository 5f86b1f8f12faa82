"""`assay workflow watch`: the ends of workflows, a line for each."""

import contextlib
from typing import Any, Final

import click

from assay.cli.arguments import NAME
from assay.cli.command_errors import FAILED, CommandError
from assay.cli.render import line_of
from assay.cli.session import CliSession, connected
from assay.cli.suggestions import workflow_ids as known_ids

WAIT_SECONDS: Final = 20
"""How long one request waits for mail; less than the time limit of a request."""


@click.command()
@click.argument(
    "workflow_ids", metavar="ID...", nargs=-1, required=True, type=NAME, shell_complete=known_ids, help="Workflow ids."
)
@connected
def watch(session: CliSession, workflow_ids: tuple[str, ...]) -> None:
    """Wait for the ends of workflows, and show a line for each.

    \b
    Examples:
      assay workflow watch deploy-7
      assay workflow watch report-1 report-2 --output json

    Exit codes: 0 all completed; 1 otherwise.
    """
    from assay.core.model.addresses import workflow_address

    engine = session.engine
    mailbox = engine.post("mailboxes", body={"namespace": engine.namespace}).document
    names = {workflow_address(engine.namespace, name): name for name in workflow_ids}
    try:
        for target in names:
            engine.put("watches", body={"watcher": mailbox["pid"], "target": target, "mode": "monitor"})
        completed = _show(session, mailbox["mailbox_id"], names)
    finally:
        with contextlib.suppress(CommandError):
            engine.delete("mailboxes", mailbox["mailbox_id"])
    if not completed:
        click.get_current_context().exit(FAILED)


def _show(session: CliSession, mailbox_id: str, names: dict[str, str]) -> bool:
    """Show each end as it comes; return whether all workflows have completed."""
    missing, after, completed = set(names), 0, True
    while missing:
        mail = session.engine.get("mailboxes", mailbox_id, "messages", after=after, wait=WAIT_SECONDS).document
        for letter in mail:
            after = letter["seq"]
            end: dict[str, Any] = letter["args"][0]
            error = end["error"]
            missing.discard(end["from"])
            completed = completed and error is None
            name = names.get(end["from"], end["from"])
            if session.printer.output != "table":
                session.printer.event({"workflow_id": name, **end}, ())
                continue
            text = "completed" if error is None else f"{error['kind']}: {error['message']}"
            session.printer.page([line_of(f"{name}: {text}")])
    return completed
