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


def check_problem(body: Any) -> None:
    """Raise unless `body` is an error as described, with a code that is listed and no field that is not."""
    check(body, component("Problem"))
    check(body["code"], component("ErrorCode"))
    assert body.keys() <= component("Problem")["properties"].keys()


def fits(instance: Any, schema: Schema) -> bool:
    try:
        check(instance, schema)
    except jsonschema.ValidationError:
        return False
    return True
