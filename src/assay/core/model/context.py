"""The context of a run: values of its caller, such as a tenant or a trace id, for the run and all work below it."""

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.payload import NULL, Payload

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def merged_context(inherited: Payload, overlay: Payload) -> Payload:
    """Return the context of work below a run: the values of the run, replaced by those of the call; null is a value."""
    if overlay is NULL or overlay == NULL:
        return inherited
    if inherited is NULL or inherited == NULL:
        return overlay
    return Payload(msgspec.json.encode({**_decode(inherited), **_decode(overlay)}))


def check_context(context: Payload) -> Payload:
    """Return a context; raise `Invalid` unless it is an object or null."""
    if context is not NULL and context != NULL:
        try:
            _decode(context)
        except msgspec.DecodeError as error:
            raise Invalid("context must be a JSON object", field="context") from error
    return context
