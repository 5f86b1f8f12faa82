"""`assay run`: load a file and serve the workflows and activities that it registers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from assay.cli.command_errors import FAILED, warn_about_key
from assay.cli.options import verbose_of, verbose_option

if TYPE_CHECKING:
    from assay.cli.program import LoadedProgram
    from assay.sdk.app import App

URL: Final = "http://127.0.0.1:8080"
DATABASES: Final = ("sqlite", "postgres", "postgresql")


@click.command(short_help="Serve the workflows and activities of a program.")
@click.argument("target", metavar="PROGRAM")
@click.option("--engine-url", metavar="URL", help=f"The engine.  [env: ASSAY_ENGINE_URL; default: {URL}]")
@click.option(
    "--api-key", metavar="KEY", help="A key of the engine.  [env: ASSAY_API_KEY, or ASSAY_API_KEY_FILE naming a file]"
)
@click.option("--queue", help="The queue to serve.  [default: what the file says, else `default`]")
@click.option("--namespace", help="The namespace to serve.  [default: what the file says, else `main`]")
@click.option("--max-concurrent-workflows", type=click.IntRange(1), help="Workflow tasks at a time.  [default: 256]")
@click.option("--max-concurrent-activities", type=click.IntRange(1), help="Activities at a time.  [default: 256]")
@click.option("--max-processes", type=click.IntRange(1), help="Processes for activities.  [default: one per CPU]")
@click.option(
    "--errors",
    type=click.Choice(("fail", "wait")),
    help="An exception that is no Failure fails the run, or makes it wait for fixed code.  [default: fail]",
)
@verbose_option
@click.pass_context
def run(context: click.Context, /, target: str, engine_url: str | None, api_key: str | None, **options: Any) -> None:
    """Serve what PROGRAM registers with @workflow.define and @workflow.activity, until SIGTERM or Ctrl-C.

    PROGRAM is a file, a module (shop.flows), or one app of it (shop.flows:app). It need not connect or listen by
    itself; if it says `workflow.listen(queue="reports")`, that queue is served. Calls that start or ask for workflows
    belong under `if __name__ == "__main__":`, because the program is loaded, not run.
    An engine that is not there yet, or goes away for a while, is waited for. When it is told to stop, the worker
    finishes what it has begun, gives back the rest, and ends within ten seconds.

    Exit codes: 0 stopped, 1 could not start, 64 called wrongly, 70 code that never returns was cut off, 75 too many
    threads never returned.

    \b
    Examples:
      assay run worker.py
      assay run shop.flows:app
      ASSAY_ENGINE_URL=https://engine.example assay run worker.py --queue reports
    """
    from assay.server import logs

    warn_about_key(api_key)
    logs.install("DEBUG" if verbose_of(context) else "INFO")
    raise click.exceptions.Exit(serve(target, engine_url, api_key, options))


def serve(program: str, url: str | None, key: str | None, options: Mapping[str, Any]) -> int:
    """Serve what a program registers until a signal ends it, and return the exit code."""
    from assay import workflow
    from assay.cli.program import listening, load_named
    from assay.cli.settings import api_key
    from assay.sdk.client.blocking import Redirect
    from assay.sdk.worker.worker import has_served
    from assay.server.garbage_collection import freeze_startup_objects

    target = _target(url or os.environ.get("ASSAY_ENGINE_URL") or URL)
    given = {name: value for name, value in options.items() if value is not None}
    blocking_client = workflow._blocking_client()
    blocking_client.redirect = Redirect(target, api_key({"api_key": key or ""}, os.environ), given)
    loaded = load_named(program)
    if loaded is None:
        return FAILED
    if has_served():
        return 0  # the program ran a worker by itself, which has ended
    app = _app(loaded)
    told = listening(loaded.module, given) if loaded.listened is None else loaded.listened
    wanted = {**told, **given}
    announce(app, target, wanted.get("queue") or app.queue)
    blocking_client.connect(target, None, wanted.pop("namespace", None) or "main")
    freeze_startup_objects()
    blocking_client.listen(app=app, **wanted)
    return 0


def _app(program: LoadedProgram) -> App:
    """Return the app to serve."""
    from assay.cli.program import registered

    if program.app is not None:
        return program.app
    apps = registered(program.module)
    if not apps:
        raise click.ClickException(
            f"{program.name} registers no workflow and no activity: decorate functions with @workflow.define and"
            " @workflow.activity, or put an assay.App into a variable"
        )
    if len(apps) > 1:
        names = ", ".join(sorted(name for name, _ in apps))
        raise click.ClickException(
            f"{program.name} has several apps ({names}): name one, as in {program.name}:{apps[0][0]}"
        )
    return apps[0][1]


def _target(url: str) -> str:
    """An engine, or a database to run one on in this process; what has no scheme is not taken for a file's name."""
    from assay.cli.settings import checked_url

    scheme, separator, _ = url.partition("://")
    return url if separator and scheme.lower() in DATABASES else checked_url(url)


def announce(app: App, url: str, queue: str) -> None:
    """Say what is served, where."""
    words = [_counted(app.workflows, "workflow", "workflows"), _counted(app.activities, "activity", "activities")]
    click.echo(f"serving {' and '.join(word for word in words if word)} on queue {queue} at {url}", err=True)


def _counted(names: Mapping[str, Any], one: str, many: str) -> str:
    return "" if not names else f"{one if len(names) == 1 else many} {', '.join(sorted(names))}"
