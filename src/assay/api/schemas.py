"""JSON schemas of the types that routes name. Documents of users are any JSON, also where the engine keeps them raw."""

import inspect
from collections.abc import Iterable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

Schema = dict[str, Any]

REF: Final = "#/components/schemas/"
SIMPLE: Final[dict[Any, Schema]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    None: {"type": "null"},
    Any: {},
    msgspec.Raw: {},
}


class Schemas:
    """Schemas by type; structs become components, named once. `names` tells apart those that share a name."""

    def __init__(self, names: Mapping[type, str]) -> None:
        self.components: dict[str, Schema] = {}
        self.described: dict[str, type] = {}
        """By the name of its component: which type it describes."""
        self._names = names

    def of(self, kind: Any) -> Schema:
        """The schema of a type; a tuple of types stands for any of them."""
        if isinstance(kind, tuple):
            return {"anyOf": [self.of(one) for one in kind]}
        kind = getattr(kind, "__supertype__", kind)
        if kind in SIMPLE:
            return dict(SIMPLE[kind])
        origin = get_origin(kind)
        if origin is None:
            return self._class(kind)
        return self._generic(origin, get_args(kind))

    def add(self, name: str, schema: Schema) -> None:
        """Add a component that describes no type of the sources."""
        if name in self.components:
            raise TypeError(f"something is called {name} already")
        self.components[name] = schema

    def _generic(self, origin: Any, arguments: tuple[Any, ...]) -> Schema:
        if origin in (Union, UnionType):
            return self._union([one for one in arguments if one is not msgspec.UnsetType])
        if origin is Annotated:
            return {**self.of(arguments[0]), **_limits(arguments[1])}
        if origin is Literal:
            return {"type": "string", "enum": list(arguments)}
        if origin in (list, tuple, frozenset, set):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        raise TypeError(f"{origin} has no schema")

    def _union(self, kinds: list[Any]) -> Schema:
        if len(kinds) == 1:
            return self.of(kinds[0])
        found = [self.of(kind) for kind in kinds]
        tags = {tag: schema["$ref"] for kind, schema in zip(kinds, found, strict=True) if (tag := _tag(kind))}
        if len(tags) == len(found):
            return {"oneOf": found, "discriminator": {"propertyName": _tag_field(kinds[0]), "mapping": tags}}
        if all(set(schema) == {"type"} for schema in found):
            return {"type": [schema["type"] for schema in found]}
        return {"anyOf": found}

    def _class(self, kind: type) -> Schema:
        name = self._names.get(kind, kind.__name__)
        if self.described.setdefault(name, kind) is not kind:
            raise TypeError(f"{kind} and {self.described[name]} cannot both be called {name}")
        if name not in self.components:
            self.components[name] = {}  # a type may hold itself
            self.components[name].update(self._component(kind, name))
        return {"$ref": REF + name}

    def _component(self, kind: type, name: str) -> Schema:
        if issubclass(kind, Enum):
            return words([member.value for member in kind], name, _about_words(kind))
        if issubclass(kind, msgspec.Struct):
            return self.struct(kind, name)
        raise TypeError(f"{kind} has no schema")

    def struct(self, kind: type[msgspec.Struct], title: str) -> Schema:
        """The schema of a struct itself, and not a reference to it."""
        properties: dict[str, Schema] = {}
        required: list[str] = []
        if _tag(kind):
            properties[_tag_field(kind)] = {"type": "string", "const": _tag(kind)}
            required.append(_tag_field(kind))
        for field in _own_first(kind):
            properties[field.encode_name] = self._property(field.type, field)
            if self._always(kind, field):
                required.append(field.encode_name)
        schema: Schema = {"type": "object", "title": title, "description": about(kind), "properties": properties}
        return {**schema, "required": required} if required else schema

    def _always(self, kind: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> bool:
        """Is the field always there?"""
        return field.required

    def _property(self, hint: Any, field: msgspec.structs.FieldInfo) -> Schema:
        schema = self.of(hint)
        default = field.default
        if isinstance(default, str | int | float) and not isinstance(default, Enum):
            schema["default"] = default
        return schema


def _limits(meta: msgspec.Meta) -> Schema:
    """Return the limits of a text, which msgspec holds it to, and the rest that its type says of it."""
    limits = {"pattern": meta.pattern, "minLength": meta.min_length, "maxLength": meta.max_length}
    return {name: limit for name, limit in limits.items() if limit is not None} | (meta.extra_json_schema or {})


def words(choice: Iterable[str], title: str, description: str) -> Schema:
    """The schema of a choice of words."""
    return {"type": "string", "title": title, "description": description, "enum": list(choice)}


def about(kind: type) -> str:
    """What the sources say of a type."""
    return inspect.cleandoc(kind.__doc__ or "")


def _about_words(kind: type[Enum]) -> str:
    """The first paragraph, which is not about Python, and what the words mean if they say so themselves."""
    meanings = [f"* `{member.value}`: {member.meaning}" for member in kind if hasattr(member, "meaning")]
    return "\n".join([about(kind).partition("\n\n")[0], "", *meanings]).strip()


def _own_first(kind: type[msgspec.Struct]) -> list[msgspec.structs.FieldInfo]:
    """The fields of a struct, and then those that it shares with others."""
    own = inspect.get_annotations(kind)
    return sorted(msgspec.structs.fields(kind), key=lambda field: field.name not in own)


def _config(kind: Any) -> Any:
    return getattr(kind, "__struct_config__", None)


def _tag(kind: Any) -> str | None:
    config = _config(kind)
    return None if config is None or config.tag is None else str(config.tag)


def _tag_field(kind: Any) -> str:
    return str(_config(kind).tag_field)
