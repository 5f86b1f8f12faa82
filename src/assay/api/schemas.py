"""JSON schemas of the types in the table of routes. Users' documents, which are kept as raw JSON, may be any JSON."""

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
    """Schemas by type. Structs become components; `names` has component names for types whose class names clash."""

    def __init__(self, names: Mapping[type, str]) -> None:
        self.components: dict[str, Schema] = {}
        self.described: dict[str, type] = {}
        """The described type by component name."""
        self._names = names

    def of(self, kind: Any) -> Schema:
        """Return the schema of a type; a tuple means any of several types."""
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
        """Add a component that does not describe a Python type."""
        if name in self.components:
            raise TypeError(f"a component {name} exists already")
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
            raise TypeError(f"{kind} and {self.described[name]} cannot both have the name {name}")
        if name not in self.components:
            self.components[name] = {}  # first, because a type may contain itself
            self.components[name].update(self._component(kind, name))
        return {"$ref": REF + name}

    def _component(self, kind: type, name: str) -> Schema:
        if issubclass(kind, Enum):
            return words([member.value for member in kind], name, _about_words(kind))
        if issubclass(kind, msgspec.Struct):
            return self.struct(kind, name)
        raise TypeError(f"{kind} has no schema")

    def struct(self, kind: type[msgspec.Struct], title: str) -> Schema:
        """Return the schema of a struct itself, not a reference to its component."""
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
        """Return whether a field is always present."""
        return field.required

    def _property(self, hint: Any, field: msgspec.structs.FieldInfo) -> Schema:
        schema = self.of(hint)
        default = field.default
        if isinstance(default, str | int | float) and not isinstance(default, Enum):
            schema["default"] = default
        return schema


def _limits(meta: msgspec.Meta) -> Schema:
    """Return the limits of a text that msgspec checks, and the further schema of its type."""
    limits = {"pattern": meta.pattern, "minLength": meta.min_length, "maxLength": meta.max_length}
    return {name: limit for name, limit in limits.items() if limit is not None} | (meta.extra_json_schema or {})


def words(choice: Iterable[str], title: str, description: str) -> Schema:
    """Return the schema of a choice of words."""
    return {"type": "string", "title": title, "description": description, "enum": list(choice)}


def about(kind: type) -> str:
    """Return the docstring of a type."""
    return inspect.cleandoc(kind.__doc__ or "")


def _about_words(kind: type[Enum]) -> str:
    """Return the first paragraph of an enum's docstring, and the meanings of its members if they have meanings."""
    meanings = [f"* `{member.value}`: {member.meaning}" for member in kind if hasattr(member, "meaning")]
    return "\n".join([about(kind).partition("\n\n")[0], "", *meanings]).strip()


def _own_first(kind: type[msgspec.Struct]) -> list[msgspec.structs.FieldInfo]:
    """Return the fields of a struct, with its own fields before inherited fields."""
    own = inspect.get_annotations(kind)
    return sorted(msgspec.structs.fields(kind), key=lambda field: field.name not in own)


def _config(kind: Any) -> Any:
    return getattr(kind, "__struct_config__", None)


def _tag(kind: Any) -> str | None:
    config = _config(kind)
    return None if config is None or config.tag is None else str(config.tag)


def _tag_field(kind: Any) -> str:
    return str(_config(kind).tag_field)
