"""The run that a caller names: by a workflow id, a handle or an address."""

from collections.abc import Mapping
from typing import Any

from assay.core.model.addresses import WORKFLOW, parse_address
from assay.core.model.errors import NotFound
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.options import check_id
from assay.sdk.ports import Target


def target_of(named: Any, run_id: str | None, namespace: str | None, usual: Namespace) -> Target:
    """Return the run that an id, a handle or an address names; namespace and run of an address take precedence.

    Args:
        named: A workflow id, an object with a `pid`, or a text that begins with `wf://`.
        run_id: A run of the id, or None.
        namespace: The caller's namespace for this call, or None.
        usual: The namespace of the client.

    Raises:
        NotFound: The text begins like an address and is none.
    """
    text = getattr(named, "pid", named)
    space = usual if namespace is None else Namespace(check_id(namespace, "namespace"))
    wanted = None if run_id is None else RunId(check_id(run_id, "run_id"))
    if not isinstance(text, str) or not text.startswith(WORKFLOW):
        return Target(space, WorkflowId(check_id(text, "workflow_id")), wanted)
    found = parse_address(text)
    if found is None:
        raise NotFound(f"{text} is not the address of a workflow")
    part = wanted if found.part is None else RunId(found.part)
    return Target(Namespace(found.namespace), WorkflowId(found.id), part)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a value."""
    return {name: value for name, value in options.items() if value is not None}
