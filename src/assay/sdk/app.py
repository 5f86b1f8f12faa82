"""The registry of a program's handlers: workflows and activities by name."""

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any, Final, Never, NoReturn, TypeVar, overload

import msgspec

from assay.core.model.errors import Invalid, NotFound
from assay.core.model.options import check_id
from assay.core.model.texts import check_words
from assay.sdk.direct_calls import original_of, refusing
from assay.sdk.values.converter import Converter
from assay.sdk.values.signatures import HandlerSignature, signature_of
from assay.sdk.workflow.activity_options import definition_options

Handler = TypeVar("Handler", bound=Callable[..., Any])
RUNS_IN = ("thread", "process")
ERRORS = ("fail", "wait")
CONTEXT_LIKE_NAMES: Final = ("context", "actx", "activity_context", "c", "cx")
"""Names of first parameters that are most likely a ctx. A workflow needs one anyway."""
CONTEXTS: Final = {"workflow": "assay.Context", "activity": "assay.ActivityContext"}
_converter: Final = Converter()


class Definition(msgspec.Struct, frozen=True):
    """A registered handler: its name, its function and its signature."""

    name: str
    function: Callable[..., Any]
    signature: HandlerSignature
    runs_in: str = "thread"
    """Where a `def` activity runs; an `async def` one runs on the worker's loop."""
    errors: str | None = None
    """`fail` or `wait`: an exception other than a `Failure` fails the run, or only its task; None for the worker's."""
    version: str | None = None
    """The version of a workflow, shown with the worker's registration."""
    load: object = None
    """The import that defined the function; importing the module again changes it."""

    @property
    def in_process(self) -> bool:
        """Return True if the activity runs in a child process of its worker."""
        return self.runs_in == "process" and not self.signature.is_async


class App:
    """A set of handlers that a worker serves; most programs use the default app behind `assay.workflow`.

    Args:
        queue: The task queue of the handlers.
    """

    def __init__(self, queue: str = "default") -> None:
        self.queue = check_id(queue, "queue")
        self.workflows: dict[str, Definition] = {}
        self.activities: dict[str, Definition] = {}
        self.activity_defaults: dict[str, Mapping[str, Any]] = {}
        """Options of activities whose definition has any; each call may override them."""
        self._names: dict[Callable[..., Any], str] = {}

    @overload
    def workflow(self, target: Handler, /) -> Handler: ...
    @overload
    def workflow(
        self,
        target: str | None = None,
        /,
        *,
        name: str | None = None,
        errors: str | None = None,
        version: str | None = None,
    ) -> Callable[[Handler], Handler]: ...
    @overload
    def workflow(
        self, target: str, function: Handler, /, *, errors: str | None = None, version: str | None = None
    ) -> Handler: ...

    def workflow(
        self,
        target: Any = None,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        errors: str | None = None,
        version: str | None = None,
    ) -> Any:
        """Register a workflow: `@app.workflow`, `@app.workflow(name="X")` or `app.workflow("X", function)`.

        Args:
            target: The function, or the workflow's name.
            function: The function, if `target` is a name.
            name: The workflow's name; the function's own name unless given.
            errors: With `wait`, an exception other than a `Failure` fails the workflow task, not the run: the run is
                stuck until fixed code is deployed. With `fail` such an exception fails the run. The worker's `errors`
                unless given.
            version: The version of the workflow's code, for people.

        Returns:
            The function, or a decorator.

        Raises:
            Invalid: The name is taken by another function, or the signature or an annotation is unsupported.
        """
        known = None if errors is None else check_errors(errors)
        shown = None if version is None else check_words(version, "version")
        return self._register(self.workflows, "workflow", target, function, name, {}, errors=known, version=shown)

    define = workflow

    @overload
    def activity(self, target: Handler, /) -> Handler: ...
    @overload
    def activity(
        self, target: str | None = None, /, *, name: str | None = None, runs_in: str = "thread", **defaults: Any
    ) -> Callable[[Handler], Handler]: ...
    @overload
    def activity(self, target: str, function: Handler, /, *, runs_in: str = "thread", **defaults: Any) -> Handler: ...

    def activity(
        self,
        target: Any = None,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        runs_in: str = "thread",
        **defaults: Any,
    ) -> Any:
        """Register an activity: `@app.activity`, `@app.activity(name="X")` or `app.activity("X", function)`.

        The decorated function can be called as before in steps, side effects, other activities and tests. In workflow
        code a direct call raises: `ctx.execute_activity` records the result.

        Args:
            target: The function, or the activity's name.
            function: The function, if `target` is a name.
            name: The activity's name; the function's own name unless given.
            runs_in: `thread`, or `process` to run a `def` activity in a child process of the worker.
            **defaults: Options of `execute_activity` that hold unless a call overrides them. The worker that runs the
                workflow applies them, if it has this definition.

        Returns:
            The function, or a decorator.

        Raises:
            Invalid: The name is taken by another function, or the signature or an annotation is unsupported.
        """
        if runs_in not in RUNS_IN:
            raise Invalid(f"runs_in is '{runs_in}'; it can be thread or process", field="runs_in")
        options = definition_options(defaults) if defaults else {}
        return self._register(self.activities, "activity", target, function, name, options, runs_in=runs_in)

    def _register(
        self,
        table: dict[str, Definition],
        kind: str,
        target: Any,
        function: Any,
        name: str | None,
        defaults: Mapping[str, Any],
        **options: Any,
    ) -> Any:
        def add(label: str, handler: Callable[..., Any]) -> Callable[..., Any]:
            added = self._add(table, kind, label, handler, options)
            if defaults:
                self.activity_defaults[label] = defaults
            return added

        if callable(target):
            return add(name or target.__name__, target)
        label = name or target
        if function is not None:
            return add(label, function)
        return lambda decorated: add(label or decorated.__name__, decorated)

    def _add(
        self,
        table: dict[str, Definition],
        kind: str,
        name: str,
        function: Callable[..., Any],
        options: Mapping[str, Any],
    ) -> Callable[..., Any]:
        name, decorated, function = check_id(name, f"{kind} name"), function, original_of(function)
        known = table.get(name)
        if known is not None and not _replaces(known, function):
            raise Invalid(
                f"{kind} '{name}' is registered twice: {_place(known.function)} and {_place(function)};"
                " rename one of the functions, or give one a name of its own with name=",
                code="duplicate_handler",
            )
        signature = signature_of(function)
        if signature.surplus and not signature.takes_context and _is_for_context(kind, signature.input_name):
            wanted = ", ".join(signature.surplus)
            message = (
                f"{kind} '{name}' has no ctx; its first parameter, {signature.input_name}, was taken for an input, and"
                f" it also requires {wanted}: a context is a parameter named ctx, or annotated as one, such as"
                f" {signature.input_name}: {CONTEXTS[kind]}"
            )
            raise Invalid(message, code="invalid_handler")
        _check_annotation(f"the input of {kind} '{name}'", signature.input_annotation)
        for other in signature.others:
            _check_annotation(f"parameter {other.name} of {kind} '{name}'", other.annotation)
        _check_annotation(f"the result of {kind} '{name}'", signature.result_annotation)
        definition = Definition(name, function, signature, load=_load_of(function), **options)
        if definition.in_process:
            _check_importable(name, function)
        table[name] = definition
        if kind == "activity":
            decorated = refusing(decorated, name, signature.input_name)
        self._names[function] = self._names[decorated] = name
        return decorated

    async def serve(
        self, url: str, *, namespace: str = "main", queue: str | None = None, token: str | None = None, **options: Any
    ) -> None:
        """Connect to an engine and serve these handlers until the worker is stopped.

        Args:
            url: The engine's URL, as for `Client.connect`.
            namespace: The namespace to serve.
            queue: The task queue; the app's unless given.
            token: The bearer token for an engine behind HTTP.
            **options: Further options of `Worker`.

        Raises:
            Invalid: The URL is malformed or its scheme is unknown.
            Unavailable: The engine cannot be opened.
        """
        from assay.sdk.client.client import Client
        from assay.sdk.worker.worker import Worker

        async with await Client.connect(url, namespace=namespace, token=token, app=self) as client:
            await Worker(client, queue=queue, **options).run()

    def is_activity(self, target: Callable[..., Any] | str) -> bool:
        """Return whether `target` is the name of an activity or a function that is registered as one.

        Args:
            target: The function, or a name.

        Returns:
            True for each name, because another worker may have the activity.
        """
        if isinstance(target, str):
            return True
        name = self._names.get(target) or self._names.get(original_of(target))
        return name in self.activities and self.activities[name].function is original_of(target)

    def name_of(self, target: Callable[..., Any] | str, kind: str = "workflow_type") -> str:
        """Return the registered name of a function; a name is returned unchanged.

        Args:
            target: The function, or a name.
            kind: The parameter's name, for error messages.

        Returns:
            The name.

        Raises:
            NotFound: The function is not registered.
            Invalid: The target is neither a function nor a name.
        """
        if isinstance(target, str):
            return check_id(target, kind)
        given: object = target
        if not callable(given):
            raise Invalid(f"{kind} must be a name or a function, not {type(given).__name__}", field=kind)
        known = self._names.get(target) or self._names.get(original_of(target))
        if known is None:
            shown = getattr(target, "__qualname__", repr(target))
            raise NotFound(f"{shown} is not registered: decorate it with @workflow.define or @workflow.activity")
        return known


def check_errors(value: object) -> str:
    """Return `value` if it is a choice for `errors`, or raise `Invalid` with the choices."""
    if value not in ERRORS:
        raise Invalid(f"errors is {value!r}; it can be fail or wait", field="errors")
    return str(value)


def _check_importable(name: str, function: Callable[..., Any]) -> None:
    """Refuse a function that a new process cannot import by module and name."""
    where = getattr(function, "__qualname__", "<unnamed>")
    module = getattr(function, "__module__", None)
    if "<" in where or module is None:
        problem = "define it at the top level of a module"
    elif module == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        problem = "put it into a file: a new process cannot import the code of an interactive session"
    else:
        return
    raise Invalid(f"activity '{name}' runs in a process: {problem}", code="invalid_handler")


def _check_annotation(what: str, annotation: Any) -> None:
    """Refuse a type that cannot be decoded, at registration and not in a run."""
    if annotation in (Never, NoReturn):
        return
    try:
        _converter.decoder(annotation)
    except Invalid as error:
        if not isinstance(error.__cause__, NameError):  # a class defined further down cannot be resolved yet
            raise Invalid(f"{what}: {error.message}", code=error.code) from error


def _replaces(known: Definition, function: Callable[..., Any]) -> bool:
    """Return True if `function` is a newer version of a registered handler, not a second handler of the same name.

    A module that is loaded again, by `python -m`, `importlib.reload` or `assay run`, registers the same handlers again,
    and so does a notebook cell that is run again. Two functions of one name in one load of one file are a mistake.
    """
    former = known.function
    if former is function or _file_of(former) is None or _code_of(former) is _code_of(function):
        return former is function or _code_of(former) is not None
    if _file_of(former) == _file_of(function) and _qualname(former) == _qualname(function):
        return not Path(str(_file_of(function))).exists() or known.load is not _load_of(function)
    return _module_of(former) == _module_of(function) and not Path(str(_file_of(function))).exists()


def _code_of(function: Callable[..., Any]) -> CodeType | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _file_of(function: Callable[..., Any]) -> str | None:
    code = _code_of(function)
    return None if code is None else code.co_filename


def _qualname(function: Callable[..., Any]) -> str | None:
    return getattr(function, "__qualname__", None)


def _module_of(function: Callable[..., Any]) -> str | None:
    return getattr(function, "__module__", None)


def _load_of(function: Callable[..., Any]) -> object:
    """Return an object that identifies the import of a function's module: a reload creates another module spec."""
    names = getattr(inspect.unwrap(function), "__globals__", None)
    spec = None if names is None else names.get("__spec__")
    return names if spec is None else spec


def _is_for_context(kind: str, name: str | None) -> bool:
    """Return whether the first of several parameters was most likely meant as the ctx."""
    return kind == "workflow" or name in CONTEXT_LIKE_NAMES


def _place(function: Callable[..., Any]) -> str:
    """Return the file and line of a function, for messages."""
    code = _code_of(function)
    return repr(function) if code is None else f"{code.co_filename}:{code.co_firstlineno}"
