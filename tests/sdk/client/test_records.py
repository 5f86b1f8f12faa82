import copy
import json
import pickle
import types
from pathlib import Path
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import pytest

import assay
from assay.sdk.client import records
from assay.sdk.client.records import FailureRecord, Record, RetryRecord, WorkflowRecord

SCHEMAS: dict[str, Any] = json.loads((Path(__file__).parents[3] / "docs/reference/openapi.json").read_text())[
    "components"
]["schemas"]
KINDS = [
    kind for kind in vars(records).values() if isinstance(kind, type) and issubclass(kind, Record) and kind.component
]
PLAIN = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}
BY_COMPONENT = {kind.component: kind for kind in KINDS}


def described(schema: dict[str, Any]) -> set[Any]:
    """The Python types that a schema stands for."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {BY_COMPONENT[name]} if name in BY_COMPONENT else described(SCHEMAS[name])
    if "anyOf" in schema:
        return set().union(*map(described, schema["anyOf"]))
    if "type" not in schema:
        return {Any}
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {("list", *described(schema["items"])) if name == "array" else PLAIN[name] for name in names}


def annotated(hint: Any) -> set[Any]:
    if get_origin(hint) in (Union, types.UnionType):
        return set().union(*map(annotated, get_args(hint)))
    return {("list", *annotated(get_args(hint)[0]))} if get_origin(hint) is list else {hint}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_annotations_are_the_fields_of_the_component(kind: type[Record]):
    hints = {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is not ClassVar}
    properties = SCHEMAS[str(kind.component)]["properties"]
    assert {name: annotated(hint) for name, hint in hints.items()} == {
        name: described(schema) for name, schema in properties.items()
    }
    expected = {name: BY_COMPONENT[held] for name, schema in properties.items() if (held := _held(schema))}
    assert {name: found for name, found in kind.nested.items() if name in properties} == expected


def _held(schema: dict[str, Any]) -> str | None:
    parts = (schema, schema.get("items", {}), *schema.get("anyOf", ()))
    names = [part["$ref"].rpartition("/")[2] for part in parts if "$ref" in part]
    return next((name for name in names if name in BY_COMPONENT), None)


def test_every_kind_can_be_imported_from_assay():
    for kind in (Record, *KINDS):
        assert getattr(assay, kind.__name__) is kind


def test_a_record_is_a_dict_with_attributes():
    record = WorkflowRecord({"status": "FAILED", "of_a_newer_engine": 1, "input": {"kind": "mine"}})
    assert record == {"status": "FAILED", "of_a_newer_engine": 1, "input": {"kind": "mine"}}
    assert (record.status, record["status"], record.of_a_newer_engine) == ("FAILED", "FAILED", 1)
    assert json.loads(json.dumps(record)) == dict(**record)
    assert type(record.input) is dict
    with pytest.raises(AttributeError, match="it has status, of_a_newer_engine, input"):
        _ = record.statut


def test_objects_of_ours_in_a_record_are_records():
    failure = {"kind": "INTERNAL", "details": {"a": {"b": 1}}, "cause": {"kind": "INVALID", "cause": None}}
    record = WorkflowRecord(failure=failure, stuck={"reason": "no_handler"}, waiting_on=None)
    assert record.stuck.reason == record["stuck"]["reason"] == "no_handler"
    assert isinstance(record.failure, FailureRecord)
    assert record.failure.cause.kind == "INVALID"
    assert type(record.failure.details) is dict
    assert RetryRecord(activity={"name": "charge"}).activity.name == "charge"


def pickled(record: Record) -> Any:
    return pickle.loads(pickle.dumps(record))  # noqa: S301 - made just now


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, Record.copy, pickled])
def test_copies_are_of_the_same_kind(twin: Any):
    record = WorkflowRecord(id="a", stuck={"reason": "x"})
    other = twin(record)
    assert (type(other), other, type(other.stuck)) == (WorkflowRecord, record, type(record.stuck))


def test_the_repr_shows_the_telling_fields():
    fields = dict.fromkeys(WorkflowRecord.__annotations__, None) | {"workflow_id": "order-1", "status": "COMPLETED"}
    record = WorkflowRecord(fields | {"result": "x" * 1000})
    shown = repr(record)
    assert shown.startswith("WorkflowRecord(workflow_id='order-1', status='COMPLETED', result='xxx")
    assert shown.endswith(f"... {len(record) - 3} more)")
    assert len(shown) < 200
    assert repr(Record(a=1)) == "Record(a=1)"
