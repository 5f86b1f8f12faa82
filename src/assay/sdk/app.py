"""The registry of a program's handlers: which functions are workflows, which are activities, and under what names."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Never, NoReturn, TypeVar, overload

import msgspec

from assay.core.errors import Invalid, NotFound
from assay.core.options import check_id
from assay.sdk.converter import Converter
from assay.sdk.signatures import HandlerSignature, signature_of

Handler = TypeVar("Handler", bound=Callable[..., Any])
RUNS_IN = ("thread", "process")
ERRORS = ("fail", "wait")
_converter: Final = Converter()


class Definition(msgspec.Struct, frozen=True):
    """A registered handler: its name, its function and what the function wants."""

    name: str
    function: Callable[..., Any]
    signature: HandlerSignature
    runs_in: str = "thread"
    """Where a `def` activity runs; an `async def` one runs on the worker's loop."""
    errors: str | None = None
    """Whether an exception that is not a `Failure` fails the run or its task; None leaves that to the worker."""

    @property
    def in_process(self) -> bool:
        """True if the activity runs in a process of its worker."""
        return self.runs_in == "process" and not self.signature.is_async


class App:
    """A set of handlers that a worker serves. Most programs use the default one behind `assay.workflow`."""

    def __init__(self, queue: str = "default") -> None:
        self.queue = check_id(queue, "queue")
        self.workflows: dict[str, Definition] = {}
        self.activities: dict[str, Definition] = {}
        self._names: dict[Callable[..., Any], str] = {}

    @overload
    def workflow(self, target: Handler, /) -> Handler: ...
    @overload
    def workflow(
        self, target: str | None = None, /, *, name: str | None = None, errors: str | None = None
    ) -> Callable[[Handler], Handler]: ...
    @overload
    def workflow(self, target: str, function: Handler, /, *, errors: str | None = None) -> Handler: ...

    def workflow(
        self, target: Any = None, function: Any = None, /, *, name: str | None = None, errors: str | None = None
    ) -> Any:
        """Register a workflow: `@app.workflow`, `@app.workflow(name="X")` or `app.workflow("X", function)`.

        With `errors="wait"` an exception that is not a `Failure` fails the workflow task, not the run: the run is shown
        as stuck until fixed code comes. `errors="fail"` fails the run; without either the worker's `errors` decides.
        """
        known = None if errors is None else check_errors(errors)
        return self._register(self.workflows, "workflow", target, function, name, errors=known)

    define = workflow

    @overload
    def activity(self, target: Handler, /) -> Handler: ...
    @overload
    def activity(
        self, target: str | None = None, /, *, name: str | None = None, runs_in: str = "thread"
    ) -> Callable[[Handler], Handler]: ...
    @overload
    def activity(self, target: str, function: Handler, /, *, runs_in: str = "thread") -> Handler: ...

    def activity(
        self, target: Any = None, function: Any = None, /, *, name: str | None = None, runs_in: str = "thread"
    ) -> Any:
        """Register an activity; `runs_in="process"` runs a `def` activity in a process of the worker."""
        if runs_in not in RUNS_IN:
            raise Invalid(f"runs_in is '{runs_in}'; it can be thread or process", field="runs_in")
        return self._register(self.activities, "activity", target, function, name, runs_in=runs_in)

    def _register(
        self, table: dict[str, Definition], kind: str, target: Any, function: Any, name: str | None, **options: Any
    ) -> Any:
        if callable(target):
            return self._add(table, kind, name or target.__name__, target, options)
        label = name or target
        if function is not None:
            return self._add(table, kind, label, function, options)
        return lambda decorated: self._add(table, kind, label or decorated.__name__, decorated, options)

    def _add(
        self,
        table: dict[str, Definition],
        kind: str,
        name: str,
        function: Callable[..., Any],
        options: Mapping[str, Any],
    ) -> Callable[..., Any]:
        name = check_id(name, f"{kind} name")
        known = table.get(name)
        if known is not None and known.function is not function and not _same_code(known.function, function):
            raise Invalid(f"{kind} '{name}' is registered twice, for two different functions", code="duplicate_handler")
        signature = signature_of(function)
        if signature.surplus:
            wanted = ", ".join(signature.surplus)
            raise Invalid(f"{kind} '{name}' takes ctx and one input; it also requires {wanted}", code="invalid_handler")
        _check_annotation(f"the input of {kind} '{name}'", signature.input_annotation)
        _check_annotation(f"the result of {kind} '{name}'", signature.result_annotation)
        definition = Definition(name, function, signature, **options)
        if definition.in_process:
            _check_importable(name, function)
        table[name] = definition
        self._names[function] = name
        return function

    def name_of(self, target: Callable[..., Any] | str, kind: str = "workflow_type") -> str:
        """The registered name of a function, or the name itself; `kind` is what it is the name of."""
        if isinstance(target, str):
            return check_id(target, kind)
        given: object = target
        if not callable(given):
            raise Invalid(f"{kind} must be a name or a function, not {type(given).__name__}", field=kind)
        known = self._names.get(target)
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
    """Refuse a function that a new process cannot find by its module and name."""
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
    """Refuse a type that no value could be decoded as, before a run meets it."""
    if annotation in (Never, NoReturn):
        return
    try:
        _converter.decoder(annotation)
    except Invalid as error:
        if not isinstance(error.__cause__, NameError):  # of a class that is defined further down nothing is known yet
            raise Invalid(f"{what}: {error.message}", code=error.code) from error


def _same_code(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """A module that is loaded twice, as `python -m` and `assay run` may do, brings the same function again."""
    return getattr(one, "__qualname__", None) == getattr(other, "__qualname__", "") and getattr(
        getattr(one, "__code__", None), "co_filename", None
    ) == getattr(getattr(other, "__code__", None), "co_filename", "")
