"""JSON schemas of the types that routes name. Documents of users are any JSON, also where the engine keeps them raw."""

import inspect
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

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
        self._names = names
        self._described: dict[str, type] = {}

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

    def _generic(self, origin: Any, arguments: tuple[Any, ...]) -> Schema:
        if origin in (Union, UnionType):
            return self._union([one for one in arguments if one is not msgspec.UnsetType])
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
        if issubclass(kind, Enum):
            return {"type": "string", "enum": [member.value for member in kind]}
        if not issubclass(kind, msgspec.Struct):
            raise TypeError(f"{kind} has no schema")
        name = self._names.get(kind, kind.__name__)
        if self._described.setdefault(name, kind) is not kind:
            raise TypeError(f"{kind} and {self._described[name]} cannot both be called {name}")
        if name not in self.components:
            self.components[name] = {}  # a type may hold itself
            self.components[name].update(self._struct(kind, name))
        return {"$ref": REF + name}

    def _struct(self, kind: type[msgspec.Struct], name: str) -> Schema:
        hints = get_type_hints(kind)
        properties: dict[str, Schema] = {}
        required: list[str] = []
        if _tag(kind):
            properties[_tag_field(kind)] = {"type": "string", "const": _tag(kind)}
            required.append(_tag_field(kind))
        for field in msgspec.structs.fields(kind):
            properties[field.encode_name] = self._property(hints[field.name], field)
            if field.required:
                required.append(field.encode_name)
        schema: Schema = {"type": "object", "title": name, "description": inspect.cleandoc(kind.__doc__ or "")}
        schema["properties"] = properties
        return {**schema, "required": required} if required else schema

    def _property(self, hint: Any, field: msgspec.structs.FieldInfo) -> Schema:
        schema = self.of(hint)
        default = field.default
        if isinstance(default, str | int | float) and not isinstance(default, Enum):
            schema["default"] = default
        return schema


def _config(kind: Any) -> Any:
    return getattr(kind, "__struct_config__", None)


def _tag(kind: Any) -> str | None:
    config = _config(kind)
    return None if config is None or config.tag is None else str(config.tag)


def _tag_field(kind: Any) -> str:
    return str(_config(kind).tag_field)
