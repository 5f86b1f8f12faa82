"""Load a user's program, and find its workflows, its activities and the options of its `workflow.listen`."""

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
    "strict",
)
"""The parameters of `workflow.listen`, in order."""


def load(file: Path) -> ModuleType | None:
    """Import a file and return its module; print an exception of the file and return None."""
    import importlib.util

    sys.path.insert(0, str(file.parent.resolve()))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise click.ClickException(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  # any exception of the user's file is shown to the user
        show(error)
        return None
    return module


class LoadedProgram(NamedTuple):
    """A loaded program."""

    name: str
    module: ModuleType
    app: App | None
    """The app in the target `module:app`, or None."""
    listened: Mapping[str, Any] | None
    """The options of the program's call of `workflow.listen`, if the call was made during loading."""

    @property
    def apps(self) -> list[App]:
        """Return all apps that may contain the program's workflows."""
        return apps_of(self.module) if self.app is None else [self.app]


def split_target(target: str) -> tuple[str, str | None]:
    """Return the file or module of a target, and the name of the app after the colon or None."""
    name, colon, app = target.rpartition(":")
    return (name, app) if colon and name and app.replace(".", "").isidentifier() else (target, None)


def is_file(name: str) -> bool:
    """Return whether a name is of a Python file, and not of a module; raise `UsageError` for a missing file."""
    if os.path.isfile(name):
        return True
    if name.endswith(".py") or os.sep in name:
        raise click.UsageError(f"there is no file {name}")
    return False


def load_named(target: str) -> LoadedProgram | None:
    """Load a file, or a module from the current folder, with an optional app (`module:app`).

    Print an exception of the program and return None. During loading, `workflow.connect` and `workflow.listen` return
    at once, and other calls of an engine raise.
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
    """Print a traceback that begins with the user's code, without the frames that loaded it."""
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
    """Return the apps with workflows or activities: the default app, or else the apps in variables of the module."""
    from assay.sdk.app import App
    from assay.sdk.default_app import DEFAULT_APP

    if DEFAULT_APP.workflows or DEFAULT_APP.activities:
        return [("default", DEFAULT_APP)]
    found = {id(value): (name, value) for name, value in vars(module).items() if isinstance(value, App)}
    return [(name, app) for name, app in found.values() if app.workflows or app.activities]


def apps_of(module: ModuleType) -> list[App]:
    """Return the default app and the apps in variables of the module."""
    from assay.sdk.app import App
    from assay.sdk.default_app import DEFAULT_APP

    return [DEFAULT_APP, *(value for value in vars(module).values() if isinstance(value, App))]


def listening(module: ModuleType, decided: Container[str] = ()) -> dict[str, Any]:
    """Return the options of a `workflow.listen` call in the source that loading did not run, such as the queue.

    The call often stands under `if __name__ == "__main__":`. Options in `decided` are ignored. Values may be literals,
    names and attributes of the loaded module; a warning is printed for other expressions.
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
            place = f"{file.name}, line {expression.lineno}: workflow.listen({name}={ast.unparse(expression)})"
            print_error(f"warning: {place} is ignored: only names and plain values can be used")
    return found


def _listens(call: ast.Call, module: ModuleType, tree: ast.Module) -> bool:
    """Return whether a call is of `workflow.listen`, under any name; an unknown name is compared by its text."""
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
    """Return the value of a literal, a name or an attribute; raise for expressions that would need evaluation."""
    match expression:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return vars(module)[name]
        case ast.Attribute(value=inner, attr=name):
            return getattr(_value_of(inner, module), name)
    raise LookupError
