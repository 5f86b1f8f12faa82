"""Compensations of finished steps, run newest first when a later step fails."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from assay.core.model.errors import Failure, Invalid, text_of
from assay.sdk.values.failures import COMPENSATION_ERRORS, to_info
from assay.sdk.workflow.replay.blocking import wait
from assay.sdk.workflow.replay.exceptions import Notice, Notified, next_run

if TYPE_CHECKING:
    from assay.sdk.workflow.context import Context

Compensation = tuple[Callable[..., Any] | str, tuple[Any, ...], dict[str, Any]]


class _Compensations:
    """The compensations of finished steps.

    Args:
        context: Runs compensations that are activities.
        is_activity: Returns True for a registered activity or the name of an activity.
        interrupt: Raises a request to end in the main coroutine, after the current shields.
    """

    def __init__(
        self, context: Context, is_activity: Callable[[Any], bool], interrupt: Callable[[Notice], None]
    ) -> None:
        self._context = context
        self._is_activity = is_activity
        self._interrupt = interrupt
        self._compensations: list[Compensation] = []

    def add(self, compensation: Callable[..., Any] | str, *args: Any, **options: Any) -> None:
        """Add the compensation of a step that has finished.

        Args:
            compensation: An activity, its name, or a function of the workflow.
            *args: The activity's input or inputs, or the arguments of the function.
            **options: Options of the activity, or keyword arguments of the function.

        Raises:
            Invalid: The compensation can be neither.
        """
        given: object = compensation
        if not (isinstance(given, str) or callable(given)):
            shown = type(given).__name__
            raise Invalid(f"saga.add needs an activity or a function, not {shown}", field="compensation")
        if len(args) > 1 and self._is_activity(compensation):
            args, options = (), {**options, "args": list(args)}
        self._compensations.append((compensation, args, options))

    async def _hold_back(self) -> None:
        """Let a cancel request arrive that is due at the next await, and hold it until the end of the shield.

        An earlier shield may have been lowered without an await since.
        """
        try:
            await asyncio.sleep(0)
        except Notified as request:
            self._interrupt(request.notice)
        except asyncio.CancelledError:  # by another task: the exception that is compensated has precedence
            pass

    def _take(self, error: BaseException | None) -> list[Compensation]:
        """Return the compensations that an exception requires, newest first."""
        taken, self._compensations = self._compensations[::-1], []
        return taken if error is not None and _is_compensated(error) else []


class Saga(_Compensations):
    """`async with ctx.saga() as saga`: an exception in the block runs the added compensations, and goes on.

    Compensations run newest first, shielded from cancel requests. A compensation that fails does not prevent the next.
    """

    async def __aenter__(self) -> Saga:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        taken = self._take(error)
        if error is None or not taken:
            return
        failures: list[Mapping[str, Any]] = []
        with self._context.shield():
            await self._hold_back()
            for compensation in taken:
                try:
                    await self._compensate(*compensation)
                except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001  # attached to the original
                    failures.append(_described(compensation[0], failure))
        _attach(error, failures)

    async def _compensate(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        if self._is_activity(function):
            await self._context.execute_activity(function, *args, **options)
            return
        found = function(*args, **options)
        if inspect.isawaitable(found):
            await found


class BlockingSaga(_Compensations):
    """`with ctx.saga() as saga`: an exception in the block runs the added compensations, and goes on.

    Compensations run newest first, shielded from cancel requests. A compensation that fails does not prevent the next.
    """

    @staticmethod
    def of(saga: Saga) -> BlockingSaga:
        """Return a blocking saga in the place of another.

        Args:
            saga: The saga of the same run.

        Returns:
            The blocking saga.
        """
        return BlockingSaga(saga._context, saga._is_activity, saga._interrupt)

    def __enter__(self) -> BlockingSaga:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        taken = self._take(error)
        if error is None or not taken:
            return
        failures: list[Mapping[str, Any]] = []
        with self._context.shield():
            wait(self._hold_back())
            for compensation in taken:
                try:
                    self._compensate(*compensation)
                except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001  # attached to the original
                    failures.append(_described(compensation[0], failure))
        _attach(error, failures)

    def _compensate(self, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        if self._is_activity(function):
            wait(self._context.execute_activity(function, *args, **options))
        else:
            function(*args, **options)


def _is_compensated(error: BaseException) -> bool:
    """Return False for the end of a run that goes on as new, and for a coroutine that its worker drops."""
    if isinstance(error, Exception):
        return True
    return isinstance(error, asyncio.CancelledError) and next_run(error) is None


def _described(compensation: Callable[..., Any] | str, failure: BaseException) -> Mapping[str, Any]:
    info = to_info(failure)
    name = compensation if isinstance(compensation, str) else getattr(compensation, "__name__", repr(compensation))
    return {"compensation": name, "kind": info.kind.value, "type": info.type, "message": info.message}


def _attach(error: BaseException, failures: list[Mapping[str, Any]]) -> None:
    """Attach the failures of compensations to the exception that required them."""
    if not failures:
        return
    for failure in failures:
        error.add_note(f"compensation {failure['compensation']} failed: {text_of(failure['message'])}")
    if not isinstance(error, Failure):
        with contextlib.suppress(AttributeError, TypeError):  # a class of the user may refuse attributes
            setattr(error, COMPENSATION_ERRORS, failures)
    elif error.details is None or isinstance(error.details, Mapping):
        error.details = {**(error.details or {}), COMPENSATION_ERRORS: failures}
