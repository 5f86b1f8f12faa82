"""Rules of search attributes, memo, side effects, versions and query snapshots."""

import re
from typing import Final

import msgspec

from assay.core.model import commands as cmd
from assay.core.model.effects import Decision, PutAttributes, PutSnapshot, PutVersion
from assay.core.model.errors import Invalid, Refused
from assay.core.model.events import AttributesUpserted, SideEffectRecorded, VersionRecorded
from assay.core.model.limits import LIMITS
from assay.core.model.payload import NULL, Payload
from assay.core.model.texts import not_a_text
from assay.core.rules.moment import Moment

LARGEST_VERSION: Final = 2**31 - 1
VERSION_CONFLICT: Final = "version_conflict"
"""The code of a list of commands with a version that differs from the recorded one."""
KEY_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def upsert_search(decision: Decision, command: cmd.UpsertSearchAttributes, at: Moment) -> None:
    """Merge search attributes by key: the command of polling workers."""
    upsert(decision, cmd.UpsertAttributes(search=command.patch), at)


def upsert(decision: Decision, command: cmd.UpsertAttributes, _: Moment) -> None:
    """Merge search attributes and memo by key; a null removes the key."""
    search, memo = attributes(decision)
    if command.search != NULL:
        search = check_search(merge(search, command.search, "search_attributes"))
    if command.memo != NULL:
        memo = merge(memo, command.memo, "memo")
    decision.record(AttributesUpserted(command.search, command.memo))
    decision.add(PutAttributes(search, memo))


def attributes(decision: Decision) -> tuple[Payload, Payload]:
    """Return search attributes and memo after this decision."""
    for effect in reversed(decision.effects):
        if isinstance(effect, PutAttributes):
            return effect.search, effect.memo
    return decision.run.search, decision.run.memo


def merge(current: Payload, patch: Payload, name: str) -> Payload:
    """Return two JSON objects merged at the top level, without keys whose value is null."""
    merged = {**_object(current, name), **_object(patch, name)}
    kept = {key: value for key, value in merged.items() if bytes(value) != b"null"}
    return Payload(msgspec.json.encode(kept)) if kept else NULL


def check_search(search: Payload) -> Payload:
    """Return search attributes; raise `Invalid` beyond their limits."""
    found = _object(search, "search_attributes")
    if len(found) > LIMITS.search_attributes:
        raise Invalid(f"at most {LIMITS.search_attributes} search attributes", field="search_attributes")
    for key, value in found.items():
        if not KEY_PATTERN.match(key):
            raise Invalid(
                f"search attribute '{key}': a key is a letter followed by letters, digits or _, 64 at most",
                field=f"search_attributes.{key}",
            )
        if len(bytes(value)) > LIMITS.search_attribute_bytes:
            raise Invalid(f"search attribute '{key}' is too long", field=f"search_attributes.{key}")
    return search


def _object(raw: Payload, name: str) -> dict[str, msgspec.Raw]:
    if raw == NULL:
        return {}
    try:
        return _decode(raw)
    except msgspec.DecodeError as error:
        raise Invalid(f"{name} must be a JSON object", field=name) from error


def record_side_effect(decision: Decision, command: cmd.RecordSideEffect, _: Moment) -> None:
    """Record a value, once per `seq`; with `resume`, for polling workers, make a task due at once."""
    if type(command.name) is not str:
        raise not_a_text(command.name, "side effect name")
    if decision.claim_seq(SideEffectRecorded, command.seq, decision.effect_mark):
        decision.effect_mark = max(decision.effect_mark, command.seq)
        decision.record(SideEffectRecorded(command.seq, command.name, command.value, command.failure))
    if command.resume:
        decision.wake()


def record_version(decision: Decision, command: cmd.RecordVersion, _: Moment) -> None:
    """Record the version of a change, once: the same version again has no effect, another version is refused."""
    if type(command.change_id) is not str or not command.change_id:
        raise Invalid("change_id must be a text that is not empty", field="change_id")
    if len(command.change_id.encode()) > LIMITS.id_bytes:
        raise Invalid(f"change_id is longer than {LIMITS.id_bytes} bytes", field="change_id")
    if not 0 <= command.version <= LARGEST_VERSION:
        raise Invalid(f"version must be from 0 to {LARGEST_VERSION}", field="version")
    known = _known_version(decision, command.change_id)
    if known is None:
        decision.record(VersionRecorded(command.change_id, command.version))
        decision.add(PutVersion(command.change_id, command.version))
    elif known != command.version:
        message = f"version {known} of change '{command.change_id}' is recorded, not {command.version}"
        raise Refused(message, code=VERSION_CONFLICT)


def _known_version(decision: Decision, change_id: str) -> int | None:
    for effect in decision.effects:
        if isinstance(effect, PutVersion) and effect.change_id == change_id:
            return effect.version
    return decision.run.versions.get(change_id)


def record_snapshot(decision: Decision, command: cmd.RecordSnapshot, _: Moment) -> None:
    """Replace the state that queries return."""
    decision.add(PutSnapshot(decision.last_seq, command.state))
