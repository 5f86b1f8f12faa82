"""The builder of starts: an immutable set of options, context values and messages that is used for many starts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay.core.model.errors import Invalid
from assay.core.model.options import check_id
from assay.core.model.texts import check_words
from assay.sdk.arguments import check_mapping
from assay.sdk.dotted_options import plain_options
from assay.sdk.values.context_values import check_scope, encoded_context
from assay.sdk.values.converter import Converter

_converter = Converter()


class Building:
    """The calls that begin or extend a builder."""

    @abstractmethod
    def _spawner(self) -> Spawner:
        """Return the builder to extend."""

    def with_options(self, options: Mapping[str, Any] | None = None, /, **keywords: Any) -> Spawner:
        """Return a builder with further options of a start; later ones take precedence.

        Args:
            options: Plain names, whose durations are seconds, or dotted keys such as `temporal.workflow.run_timeout`,
                whose durations are milliseconds.
            **keywords: Options with plain names.

        Returns:
            A new builder.

        Raises:
            Invalid: A dotted key is unknown.
        """
        return self._spawner()._changed(options={**plain_options(options or {}, "workflow"), **keywords})

    def with_context(self, values: Mapping[str, Any] | None = None, /, **keywords: Any) -> Spawner:
        """Return a builder with further values of the context; later ones take precedence.

        Args:
            values: The values, as a mapping.
            **keywords: The values, by name.

        Returns:
            A new builder.

        Raises:
            Invalid: A value is not JSON.
        """
        given = {**check_mapping({} if values is None else values, "context"), **keywords}
        encoded_context(_converter, given)
        return self._spawner()._changed(context=given)

    def with_name(self, name: str) -> Spawner:
        """Return a builder with a name, which becomes the workflow id unless an id is given.

        Args:
            name: The name.

        Returns:
            A new builder.

        Raises:
            Invalid: The name is empty.
        """
        return self._spawner()._changed(options={"name": check_id(name, "name")})

    def with_message(self, topic: str, *payload: Any) -> Spawner:
        """Return a builder with a further message, which the run has received when it starts.

        Args:
            topic: The topic.
            *payload: The contents of the message.

        Returns:
            A new builder.

        Raises:
            Invalid: The topic is empty or begins with `@`.
        """
        if check_id(topic, "topic").startswith("@"):
            raise Invalid("a topic that begins with @ is reserved", field="topic")
        message = (topic, payload[0] if payload else None) if len(payload) < 2 else {"name": topic, "args": [*payload]}
        return self._spawner()._changed(message=message)

    def with_actor(self, actor: str) -> Spawner:
        """Return a builder with the actor for whom runs are started.

        Args:
            actor: The actor.

        Returns:
            A new builder.
        """
        return self._spawner()._changed(options={"actor": check_words(actor, "actor")})

    def with_scope(self, scope: Iterable[str]) -> Spawner:
        """Return a builder with the policies under which runs are started.

        Args:
            scope: The names of the policies.

        Returns:
            A new builder.
        """
        return self._spawner()._changed(options={"scope": check_scope(scope)})


class Spawner(Building):
    """A builder: immutable, and used for any number of starts, with the verbs of its maker.

    Args:
        maker: The client, session or context that starts.
        options: The options so far.
        context: The values of the context so far.
        messages: The messages so far.
    """

    __slots__ = ("_context", "_maker", "_messages", "_options")

    def __init__(
        self,
        maker: Any,
        options: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        messages: tuple[Any, ...] = (),
    ) -> None:
        self._maker = maker
        self._options = dict(options or {})
        self._context = dict(context or {})
        self._messages = messages

    def _spawner(self) -> Spawner:
        return self

    def _changed(
        self, *, options: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None, message: Any = None
    ) -> Spawner:
        merged = {**self._options, **(options or {})}
        values = {**self._context, **check_mapping(merged.pop("context", None) or {}, "context"), **(context or {})}
        return Spawner(self._maker, merged, values, self._messages if message is None else (*self._messages, message))

    def _keywords(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a call: those of the builder, with those of the call over them."""
        found = {**self._options, **options}
        values = {**self._context, **check_mapping(options.get("context") or {}, "context")}
        messages = [*self._messages, *(options.get("messages") or ()), *(options.get("signals") or ())]
        found.pop("signals", None)
        if values:
            found["context"] = values
        if messages:
            found["messages"] = messages
        return found

    def _started(self, verb: str, workflow: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        return getattr(self._maker, verb)(workflow, *args, **self._keywords(options))

    def spawn(self, workflow: Callable[..., Any] | str, *args: Any, **options: Any) -> Any:
        """Start a workflow with the options of this builder; see `spawn` of its maker.

        Args:
            workflow: The workflow, or its name.
            *args: Its arguments.
            **options: Options of this start, which take precedence.

        Returns:
            The result of the maker's `spawn`.
        """
        return self._started("spawn", workflow, args, options)

    def spawn_monitored(self, workflow: Callable[..., Any] | str, *args: Any, **options: Any) -> Any:
        """Start and monitor a workflow; see `spawn_monitored` of the maker.

        Args:
            workflow: The workflow, or its name.
            *args: Its arguments.
            **options: Options of this start, which take precedence.

        Returns:
            The result of the maker's `spawn_monitored`.
        """
        return self._started("spawn_monitored", workflow, args, options)

    def spawn_linked(self, workflow: Callable[..., Any] | str, *args: Any, **options: Any) -> Any:
        """Start and link a workflow; see `spawn_linked` of the maker.

        Args:
            workflow: The workflow, or its name.
            *args: Its arguments.
            **options: Options of this start, which take precedence.

        Returns:
            The result of the maker's `spawn_linked`.
        """
        return self._started("spawn_linked", workflow, args, options)

    def spawn_linked_monitored(self, workflow: Callable[..., Any] | str, *args: Any, **options: Any) -> Any:
        """Start, link and monitor a workflow; see `spawn_linked_monitored` of the maker.

        Args:
            workflow: The workflow, or its name.
            *args: Its arguments.
            **options: Options of this start, which take precedence.

        Returns:
            The result of the maker's `spawn_linked_monitored`.
        """
        return self._started("spawn_linked_monitored", workflow, args, options)

    def exec(self, workflow: Callable[..., Any] | str, *args: Any, **options: Any) -> Any:
        """Start a workflow with the options of this builder and wait for its result; see `exec` of its maker.

        Args:
            workflow: The workflow, or its name.
            *args: Its arguments.
            **options: Options of this start, which take precedence.

        Returns:
            The result of the maker's `exec`.
        """
        return self._started("exec", workflow, args, options)
