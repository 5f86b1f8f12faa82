"""`assay run`: load a file and serve the workflows and activities that it registers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import click

from assay.cli.options import verbose_of, verbose_option

if TYPE_CHECKING:
    from assay.sdk.app import App

URL: Final = "http://127.0.0.1:8080"
FAILED: Final = 1
DATABASES: Final = ("sqlite", "postgres", "postgresql")
OPTIONS: Final = frozenset({"queue", "namespace", "identity", "max_concurrent_workflows", "max_concurrent_activities"})
"""What `listen` takes, and what is taken over from a call of it in the file."""


@click.command(short_help="Serve the workflows and activities of a Python file.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--engine-url", metavar="URL", help=f"The engine.  [env: ASSAY_ENGINE_URL; default: {URL}]")
@click.option(
    "--api-key", metavar="KEY", help="A key of the engine.  [env: ASSAY_API_KEY, or ASSAY_API_KEY_FILE naming a file]"
)
@click.option("--queue", help="The queue to serve.  [default: what the file says, else `default`]")
@click.option("--namespace", help="The namespace to serve.  [default: what the file says, else `main`]")
@click.option("--max-concurrent-workflows", type=click.IntRange(1), help="Workflow tasks at a time.  [default: 256]")
@click.option("--max-concurrent-activities", type=click.IntRange(1), help="Activities at a time.  [default: 256]")
@verbose_option
@click.pass_context
def run(context: click.Context, /, file: Path, engine_url: str | None, api_key: str | None, **options: Any) -> None:
    """Serve what FILE registers with @workflow.define and @workflow.activity, until SIGTERM or Ctrl-C.

    The file need not connect or listen by itself; if it says `workflow.listen(queue="reports")`, that queue is served.
    An engine that is not there yet, or goes away for a while, is waited for. When it is told to stop, the worker
    finishes what it has begun, gives back the rest, and ends within ten seconds.

    \b
    Examples:
      assay run worker.py
      ASSAY_ENGINE_URL=https://engine.example assay run worker.py --queue reports
    """
    from assay.server import logs

    logs.install("DEBUG" if verbose_of(context) else "INFO")
    raise click.exceptions.Exit(serve(file, engine_url, api_key, options))


def serve(file: Path, url: str | None, token: str | None, options: Mapping[str, Any]) -> int:
    """Serve what `file` registers until a signal says to stop; the exit code."""
    from assay import workflow
    from assay.cli.settings import api_key
    from assay.sdk.worker import Worker
    from assay.wire.memory import settle

    target = _target(url or os.environ.get("ASSAY_ENGINE_URL") or URL)
    face = workflow._face()
    face.redirect = target, api_key({"api_key": token or ""}, os.environ)
    module = load(file)
    if module is None:
        return FAILED
    if Worker.begun:
        return 0  # the file listened by itself, and was told to stop
    apps = registered(module)
    if not apps:
        raise click.ClickException(
            f"{file} registers no workflow and no activity: decorate functions with @workflow.define and"
            " @workflow.activity, or put an assay.App into a variable"
        )
    wanted = {**listening(file), **{name: value for name, value in options.items() if value is not None}}
    if len(apps) > 1:
        names = ", ".join(sorted(name for name, _ in apps))
        raise click.ClickException(f"{file} has several apps ({names}): serve each from a file of its own")
    (_, app), *_ = apps
    announce(app, target, wanted.get("queue", app.queue))
    face.connect(target, token, wanted.pop("namespace", None) or "main")
    settle()
    face.listen(app=app, **wanted)
    return 0


def _target(url: str) -> str:
    """An engine, or a database to run one on in this process; what has no scheme is not taken for a file's name."""
    from assay.cli.settings import checked_url

    scheme, separator, _ = url.partition("://")
    return url if separator and scheme.lower() in DATABASES else checked_url(url)


def load(file: Path) -> ModuleType | None:
    """Run the file, as an import would; what goes wrong in it is shown without the frames of this program."""
    import importlib.util

    sys.path.insert(0, str(file.parent.resolve()))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise click.ClickException(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  # whatever the file raises is shown to whoever wrote it
        show(error, file)
        return None
    return module


def show(error: Exception, file: Path) -> None:
    """The traceback from the file on, and nothing of how it was loaded."""
    import traceback

    own = str(file.resolve())
    frames = error.__traceback__
    while frames is not None and os.path.realpath(frames.tb_frame.f_code.co_filename) != own:
        frames = frames.tb_next
    if frames is None and not isinstance(error, SyntaxError):
        frames = error.__traceback__
    click.echo("".join(traceback.format_exception(type(error), error, frames)), err=True, nl=False)


def registered(module: ModuleType) -> list[tuple[str, App]]:
    """The apps that have something to serve: the default one, else those in variables of the file."""
    from assay.sdk.app import App
    from assay.sdk.default_app import DEFAULT_APP

    if DEFAULT_APP.workflows or DEFAULT_APP.activities:
        return [("default", DEFAULT_APP)]
    found = {id(value): (name, value) for name, value in vars(module).items() if isinstance(value, App)}
    return [(name, app) for name, app in found.values() if app.workflows or app.activities]


def listening(file: Path) -> dict[str, Any]:
    """What a call of `workflow.listen` in the file says, such as its queue, though it be only for `python FILE`."""
    import ast

    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "workflow.listen":
            named = {word.arg: word.value for word in node.keywords if word.arg in OPTIONS}
            if node.args:
                named["queue"] = node.args[0]
            literal = {name: value for name, value in named.items() if isinstance(value, ast.Constant)}
            return {str(name): value.value for name, value in literal.items()}
    return {}


def announce(app: App, url: str, queue: str) -> None:
    """Say what is served, where."""
    words = [_counted(app.workflows, "workflow", "workflows"), _counted(app.activities, "activity", "activities")]
    click.echo(f"serving {' and '.join(word for word in words if word)} on queue {queue} at {url}", err=True)


def _counted(names: Mapping[str, Any], one: str, many: str) -> str:
    return "" if not names else f"{one if len(names) == 1 else many} {', '.join(sorted(names))}"
