"""A user's program: loaded, asked what it registers, and read for what it would serve."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from assay.cli.command_errors import print_error

if TYPE_CHECKING:
    from assay.sdk.app import App

PARAMETERS: Final = (
    "queue",
    "namespace",
    "identity",
    "max_concurrent_workflows",
    "max_concurrent_activities",
    "max_processes",
    "errors",
)
"""What `workflow.listen` takes, in its order."""


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
        show(error)
        return None
    return module


class LoadedProgram(NamedTuple):
    """A program that was loaded."""

    name: str
    module: ModuleType
    app: App | None
    """The app that the caller chose of several."""
    listened: Mapping[str, Any] | None
    """The options of the program's own call of `workflow.listen`, if loading reached it."""

    @property
    def apps(self) -> list[App]:
        """Return all apps that may have the program's workflows."""
        return apps_of(self.module) if self.app is None else [self.app]


def split_target(target: str) -> tuple[str, str | None]:
    """Return the file or module of a target, and the name of the app behind the colon if there is one."""
    name, colon, app = target.rpartition(":")
    return (name, app) if colon and name and app.replace(".", "").isidentifier() else (target, None)


def is_file(name: str) -> bool:
    """Return True for the name of a Python file, False for that of a module; raise for a file that is not there."""
    if os.path.isfile(name):
        return True
    if name.endswith(".py") or os.sep in name:
        raise click.UsageError(f"there is no file {name}")
    return False


def load_named(target: str) -> LoadedProgram | None:
    """Load a file, a module by its dotted name, as from the current folder, or one app of either (`module:app`).

    The program's own errors are shown without the frames of this one; then there is no result. While it is loaded,
    `workflow.connect` and `workflow.listen` return at once, and other calls of an engine raise.
    """
    from assay import workflow

    name, chosen = split_target(target)
    blocking_client = workflow._blocking_client()
    blocking_client.loading, blocking_client.listened = True, None
    try:
        module = load(Path(name)) if is_file(name) else _imported_module(name)
    finally:
        blocking_client.loading = False
    if module is None:
        return None
    return LoadedProgram(
        name, module, None if chosen is None else _chosen(module, name, chosen), blocking_client.listened
    )


def _chosen(module: ModuleType, name: str, chosen: str) -> App:
    from assay.sdk.app import App

    found: Any = module
    for part in chosen.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        known = ", ".join(key for key, value in vars(module).items() if isinstance(value, App)) or "none"
        raise click.UsageError(f"{name} has no app '{chosen}'; apps in its variables: {known}")
    return found


def _imported_module(name: str) -> ModuleType | None:
    import importlib

    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            show(error)
            return None
        raise click.UsageError(f"there is no module {name}") from None
    except Exception as error:  # noqa: BLE001  # see `load`
        show(error)
        return None


def show(error: Exception) -> None:
    """The traceback from the user's code on, and nothing of how that was loaded."""
    import traceback

    frames = error.__traceback__
    while frames is not None and _is_loading(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    if frames is None and not isinstance(error, SyntaxError):
        frames = error.__traceback__
    click.echo("".join(traceback.format_exception(type(error), error, frames)), err=True, nl=False)


def _is_loading(filename: str) -> bool:
    import importlib

    return filename.startswith("<frozen importlib") or filename in (__file__, importlib.__file__)


def registered(module: ModuleType) -> list[tuple[str, App]]:
    """The apps that have something to serve: the default one, else those in variables of the file."""
    from assay.sdk.app import App
    from assay.sdk.default_app import DEFAULT_APP

    if DEFAULT_APP.workflows or DEFAULT_APP.activities:
        return [("default", DEFAULT_APP)]
    found = {id(value): (name, value) for name, value in vars(module).items() if isinstance(value, App)}
    return [(name, app) for name, app in found.values() if app.workflows or app.activities]


def apps_of(module: ModuleType) -> list[App]:
    """All apps that the module may have put its workflows into."""
    from assay.sdk.app import App
    from assay.sdk.default_app import DEFAULT_APP

    return [DEFAULT_APP, *(value for value in vars(module).values() if isinstance(value, App))]


def listening(module: ModuleType, decided: Container[str] = ()) -> dict[str, Any]:
    """Return the options of a call of `workflow.listen` in the file, such as its queue, though only for `python FILE`.

    What the command has `decided` is not looked at. Values are those that the loaded module knows; who computes one
    in the call, or under a condition that is not met here, is told that it was not understood.
    """
    if module.__file__ is None:
        return {}
    file = Path(module.__file__)
    tree = ast.parse(file.read_bytes())
    call = next((node for node in ast.walk(tree) if isinstance(node, ast.Call) and _listens(node, module, tree)), None)
    found: dict[str, Any] = {}
    for name, expression in _arguments(call) if call is not None else ():
        if name in decided:
            continue
        try:
            found[name] = _value_of(expression, module)
        except (LookupError, AttributeError):
            told = f"{file.name}, line {expression.lineno}: workflow.listen({name}={ast.unparse(expression)})"
            print_error(f"warning: {told} is not heeded: only names and plain values of the file are")
    return found


def _listens(call: ast.Call, module: ModuleType, tree: ast.Module) -> bool:
    """Is it a call of `workflow.listen`, by whatever name? One imported only for `python FILE` is told by its text."""
    from assay import workflow

    try:
        return _value_of(call.func, module) is workflow.listen
    except (LookupError, AttributeError):
        return ast.unparse(call.func) in {"workflow.listen", *_imported(tree)}


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "assay.workflow":
            yield from (alias.asname or alias.name for alias in node.names if alias.name == "listen")


def _arguments(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    yield from zip(PARAMETERS, call.args, strict=False)
    yield from ((word.arg, word.value) for word in call.keywords if word.arg is not None)


def _value_of(expression: ast.expr, module: ModuleType) -> Any:
    """The value of a literal, a name or an attribute; nothing is computed."""
    match expression:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return vars(module)[name]
        case ast.Attribute(value=inner, attr=name):
            return getattr(_value_of(inner, module), name)
    raise LookupError
