"""Holds answers to the API's description."""

from functools import cache
from typing import Any

import jsonschema

from assay.api.openapi import description
from assay.api.router import PREFIXES

Schema = dict[str, Any]


@cache
def whole() -> Schema:
    return description()


def component(name: str) -> Schema:
    found: Schema = whole()["components"]["schemas"][name]
    return found


def answer_schema(path: str, method: str = "get", status: str = "200") -> Schema:
    operation = whole()["paths"][PREFIXES[0] + path][method]
    found: Schema = operation["responses"][status]["content"]["application/json"]["schema"]
    return found


def check(instance: Any, schema: Schema) -> None:
    """Raise unless `instance` is what the schema says."""
    standing_alone = {**schema, "components": whole()["components"]}
    jsonschema.Draft202012Validator(standing_alone).validate(instance)


def fits(instance: Any, schema: Schema) -> bool:
    try:
        check(instance, schema)
    except jsonschema.ValidationError:
        return False
    return True
