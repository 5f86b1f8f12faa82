"""What the generator of requests must know beyond the API's description: names that exist, and not to wait.

Without names that exist it would mostly learn that there is no such thing. A wait is legal and answered late; a run of
thousands of requests cannot afford one.
"""

import json
import os
from typing import Any, Final

import schemathesis
from hypothesis import strategies as st

KNOWN_NAMES: Final = "ASSAY_FUZZ_NAMES"
"""The environment variable with the names that exist, by parameter: a JSON object of lists."""

_known: Final[dict[str, list[Any]]] = json.loads(os.environ.get(KNOWN_NAMES, "{}"))
_WAIT: Final = "wait_secs"


def _wanted(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.sampled_from(_known[name]) for name in names if name in _known})


def _with_known(strategy: st.SearchStrategy[Any], names: list[str]) -> st.SearchStrategy[Any]:
    """Two of three requests name what exists."""
    found = st.tuples(strategy, _wanted(names)).map(lambda pair: _replaced(*pair))
    return st.one_of(strategy, found, found)


def _replaced(value: Any, known: dict[str, Any]) -> Any:
    """`value` with the names that exist in place of its own; what a value lacks stays absent."""
    if not isinstance(value, dict):
        return value
    return {**value, **{name: one for name, one in known.items() if name in value}}


def _impatient(value: Any) -> Any:
    """`value` without a wait; a text that is no number is refused anyway."""
    if not isinstance(value, dict) or _WAIT not in value:
        return value
    try:
        float(value[_WAIT] if isinstance(value[_WAIT], str) else 0)
    except ValueError:
        return value
    return {**value, _WAIT: 0}


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Let no status pass because an operation may have any other error: what it names itself is what it may answer."""
    for path in raw_schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop("default", None)


@schemathesis.hook
def before_generate_path_parameters(context: Any, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _with_known(strategy, [parameter.name for parameter in context.operation.path_parameters])


@schemathesis.hook
def before_generate_query(context: Any, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _with_known(strategy, [parameter.name for parameter in context.operation.query])


@schemathesis.hook
def before_generate_body(context: Any, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _with_known(strategy, [name for name in _known if name not in ("name", "workflow_id")])


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    return _impatient(body)


@schemathesis.hook
def map_query(context: Any, query: Any) -> Any:
    return _impatient(query)
