"""The values that a run carries from its caller: context, actor and scope, readable in workflows and activities."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from assay.core.model.context import merged_context
from assay.core.model.errors import Invalid, NotFound
from assay.core.model.events import StartData
from assay.core.model.payload import NULL, Payload

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_MISSING: Final = object()


class Carried(msgspec.Struct, frozen=True):
    """The context, actor and scope of a run or an activity."""

    context: Payload = NULL
    actor: str | None = None
    scope: tuple[str, ...] | None = None

    @staticmethod
    def of(start: StartData | None, overlay: Payload = NULL) -> "Carried":
        """Return the values of a run, with the context of a call over them."""
        if start is None:
            return Carried(overlay)
        return Carried(merged_context(start.context, overlay), start.actor, start.scope)

    def values(self) -> dict[str, Any]:
        """Return the context as a new dict."""
        return {} if self.context is NULL or self.context == NULL else _decode(self.context)


class CarriedValues:
    """The reading calls of a ctx for the values that its run carries from the caller."""

    @abstractmethod
    def _carried(self) -> Carried:
        """Return the values."""

    @property
    def context(self) -> Mapping[str, Any]:
        """Return a copy of the context: values of the caller, such as a tenant or a trace id."""
        return self._carried().values()

    def get(self, key: str, default: Any = _MISSING) -> Any:
        """Return a value of the context.

        Args:
            key: The name of the value.
            default: The result if the context has no such value.

        Returns:
            The value, or `default`.

        Raises:
            NotFound: The context has no such value, and no default is given.
            Invalid: The key is empty or no text.
        """
        if type(key) is not str or not key:
            raise Invalid("a key of the context is a text that is not empty", field="key")
        values = self._carried().values()
        if key in values:
            return values[key]
        if default is _MISSING:
            raise NotFound(f"the context has no value '{key}'")
        return default

    def all(self) -> dict[str, Any]:
        """Return all values of the context.

        Returns:
            A new dict; empty without a context.
        """
        return self._carried().values()

    @property
    def actor(self) -> str | None:
        """Return the actor for whom the run was started, or None. Passed on by callers, and not verified."""
        return self._carried().actor

    @property
    def scope(self) -> tuple[str, ...]:
        """Return the names of the policies under which the run was started. Passed on by callers, and not verified."""
        return self._carried().scope or ()
