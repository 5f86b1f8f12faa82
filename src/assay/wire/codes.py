"""Every code that the body of an error can have: what kind of error it is, and what it means.

Codes are for ever, like the names of events: later versions add some, but rename and remove none. A test holds this
list to the sources, and the table in `docs/howto/server.md` to this list.
"""

from enum import StrEnum
from typing import Self

from assay.core.model.errors import Kind


class ErrorCode(StrEnum):
    """What exactly went wrong. Later versions add codes: who does not know one goes by `kind` and status."""

    kind: Kind
    meaning: str

    def __new__(cls, code: str, kind: Kind, meaning: str) -> Self:
        """A code is its text."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.kind = kind
        member.meaning = meaning
        return member

    INVALID = "invalid", Kind.INVALID, "A value cannot be accepted; `field` tells which."
    INVALID_HTTP = "invalid_http", Kind.INVALID, "The request is none, or two readers could understand it differently."
    INVALID_PATH = "invalid_path", Kind.INVALID, "A part of the path is not UTF-8, or holds U+0000."
    INVALID_QUERY = "invalid_query", Kind.INVALID, "The query string cannot be read."
    INCOMPLETE_BODY = "incomplete_body", Kind.INVALID, "The request ended before its body did."
    INVALID_JSON = "invalid_json", Kind.INVALID, "The body is not JSON, or has a number that is out of range."
    DUPLICATE_KEY = "duplicate_key", Kind.INVALID, "An object in the body has a key twice."
    NUL_CHARACTER = "nul_character", Kind.INVALID, "A text holds U+0000."
    LONE_SURROGATE = "lone_surrogate", Kind.INVALID, "A text holds half of a surrogate pair."
    JSON_TOO_DEEP = "json_too_deep", Kind.INVALID, "A document nests too deep."
    TOO_MANY_KEYS = "too_many_keys", Kind.INVALID, "An object in a document has too many keys."
    INVALID_DURATION = (
        "invalid_duration",
        Kind.INVALID,
        "A duration is no number of seconds and no text such as `1h30m`.",
    )
    BAD_CRON = "bad_cron", Kind.INVALID, "A cron expression cannot be read."
    BAD_TIMEZONE = "bad_timezone", Kind.INVALID, "There is no such time zone."
    BAD_DST = "bad_dst", Kind.INVALID, "`dst` is not `skip`, `shift` or `both`."
    NEVER_FIRES = "never_fires", Kind.INVALID, "A cron expression has no due time, or none before the schedule's end."
    BAD_FROM_SEQ = "bad_from_seq", Kind.INVALID, "`from_seq` is not the seq of an event before the run's closing one."
    LIMIT_EXCEEDED = "limit_exceeded", Kind.INVALID, "It is more than a run may have, or than one request may ask for."
    UNREADABLE_EVENT = "unreadable_event", Kind.INVALID, "A recorded event cannot be read: the database is damaged."
    UNAUTHORIZED = "unauthorized", Kind.PERMISSION_DENIED, "There is no valid credential: send `Authorization: Bearer`."
    FORBIDDEN = (
        "forbidden",
        Kind.PERMISSION_DENIED,
        "The credential grants too little; `needs` is the lowest role that would do.",
    )
    CROSS_ORIGIN = "cross_origin", Kind.PERMISSION_DENIED, "A page of another site asks for a change."
    READ_ONLY = "read_only", Kind.PERMISSION_DENIED, "This process only reads the file; changes need its engine."
    NOT_FOUND = "not_found", Kind.NOT_FOUND, "There is no such run, activity, schedule, namespace or query."
    WORKFLOW_CLOSED = "workflow_closed", Kind.NOT_FOUND, "The run is closed: it can no longer be told anything."
    UNKNOWN_TASK = "unknown_task", Kind.NOT_FOUND, "There is no such task."
    UNKNOWN_WORKER = "unknown_worker", Kind.NOT_FOUND, "The worker has to introduce itself again."
    MAIN_NAMESPACE = "main_namespace", Kind.NOT_FOUND, "The namespace `main` cannot be deleted."
    NO_ROUTE = "no_route", Kind.NOT_FOUND, "There is nothing at this path."
    METHOD_NOT_ALLOWED = (
        "method_not_allowed",
        Kind.INVALID,
        "The path has other methods; the header `Allow` names them.",
    )
    REQUEST_TIMEOUT = "request_timeout", Kind.INVALID, "The request came too slowly."
    ALREADY_EXISTS = "already_exists", Kind.ALREADY_EXISTS, "The name is taken; further fields tell by what."
    OTHER_WORKFLOW_TYPE = (
        "other_workflow_type",
        Kind.ALREADY_EXISTS,
        "The id has a run of another workflow type; further fields name it. Choose another id.",
    )
    REFUSED = "refused", Kind.CONFLICT, "The state of things does not allow it."
    RUN_CLOSED = "run_closed", Kind.CONFLICT, "The run is closed."
    STALE_TASK = "stale_task", Kind.CONFLICT, "The worker no longer holds the workflow task."
    STALE_ATTEMPT = "stale_attempt", Kind.CONFLICT, "The attempt is over: the worker no longer holds the activity."
    ALREADY_REPORTED = "already_reported", Kind.CONFLICT, "The activity has its outcome already, and it is another one."
    UNHANDLED_EVENTS = "unhandled_events", Kind.CONFLICT, "The run has events that its worker has not seen; poll again."
    OLD_MESSAGE = "old_message", Kind.CONFLICT, "A message of a worker came twice, or too late."
    NOT_RETRYABLE = "not_retryable", Kind.CONFLICT, "Only a run that failed, timed out or was cancelled can be retried."
    NOT_FAILED = "not_failed", Kind.CONFLICT, "No longer sent: see `not_retryable`."
    NO_FAILED_ACTIVITY = "no_failed_activity", Kind.CONFLICT, "No longer sent: a run without one can be retried, too."
    IS_CHILD = "is_child", Kind.CONFLICT, "A child is not retried by itself: retry its parent."
    TOO_MANY_CHILDREN = (
        "too_many_children",
        Kind.CONFLICT,
        "The retry would reopen more children than one request may; nothing was changed.",
    )
    ALREADY_CONTINUED = "already_continued", Kind.CONFLICT, "The run has gone on in another run already."
    NAMESPACE_IN_USE = "namespace_in_use", Kind.CONFLICT, "The namespace has open runs or schedules."
    KEY_EXPIRED = "key_expired", Kind.CONFLICT, "The key has expired, and is not rotated: make a new one."
    GONE = (
        "gone",
        Kind.INVALID,
        "The stream no longer has what follows the cursor; `oldest_id` is the first that it has.",
    )
    BODY_TOO_LARGE = "body_too_large", Kind.INVALID, "The body is too large."
    PAYLOAD_TOO_LARGE = (
        "payload_too_large",
        Kind.INVALID,
        "A document is too large: store it elsewhere, pass a reference.",
    )
    TEXT_TOO_LONG = "text_too_long", Kind.INVALID, "A summary, a reason or another text for people is too long."
    URL_TOO_LONG = "url_too_long", Kind.INVALID, "The URL is too long."
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", Kind.INVALID, "The body is not `application/json`."
    UNSUPPORTED_ENCODING = "unsupported_encoding", Kind.INVALID, "The body is compressed."
    WRONG_HOST = "wrong_host", Kind.INVALID, "The engine has no such name; `--allowed-host` adds one."
    WRONG_SHAPE = "wrong_shape", Kind.INVALID, "The body is JSON, but not what was asked for; `field` tells where."
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused", Kind.INVALID, "The key was used for another request."
    REQUEST_ID_REUSED = "request_id_reused", Kind.INVALID, "The `request_id` was used for another start."
    NAMESPACE_BUSY = (
        "namespace_busy",
        Kind.RATE_LIMITED,
        "1,000 requests of the namespace wait already; nothing was changed, send it again after a second.",
    )
    TOO_MANY_ATTEMPTS = "too_many_attempts", Kind.RATE_LIMITED, "Too many wrong credentials; wait a moment."
    TOO_MANY_POLLS = "too_many_polls", Kind.RATE_LIMITED, "No more polls can be held at present."
    TOO_MANY_STREAMS = "too_many_streams", Kind.RATE_LIMITED, "No more event streams can be open at present."
    HEADERS_TOO_LARGE = "headers_too_large", Kind.INVALID, "The headers are too long."
    FAILURE = "failure", Kind.INTERNAL, "The engine made a mistake; its log says more."
    INTERNAL_ERROR = (
        "internal_error",
        Kind.INTERNAL,
        "The engine could not decide this, and changed nothing; its log says more.",
    )
    UNAVAILABLE = "unavailable", Kind.UNAVAILABLE, "The engine cannot take it now; the same may succeed later."
    UNANSWERED = "unanswered", Kind.UNAVAILABLE, "The engine failed over its answer; its log says more."
    ENGINE_STOPPING = "engine_stopping", Kind.UNAVAILABLE, "The engine finishes what it has and takes nothing new."
    ENGINE_STOPPED = "engine_stopped", Kind.UNAVAILABLE, "The engine is about to end."
    TOO_MANY_CONNECTIONS = "too_many_connections", Kind.UNAVAILABLE, "No more connections can be open at present."
    STORE_REJECTED = "store_rejected", Kind.UNAVAILABLE, "The database did not take the change; nothing was changed."
    STORE_CONFLICT = (
        "store_conflict",
        Kind.UNAVAILABLE,
        "Another engine was faster, again and again; nothing was changed.",
    )
    OUTCOME_UNKNOWN = "outcome_unknown", Kind.UNAVAILABLE, "The database did not say whether it took the change."
    STORE_BROKEN = (
        "store_broken",
        Kind.UNAVAILABLE,
        "The database itself fails, and the engine stops; the change may be there.",
    )
    STORE_REPLACED = (
        "store_replaced",
        Kind.UNAVAILABLE,
        "The database file or its WAL was deleted or replaced under the engine, which stops; connect again.",
    )
    READ_TOO_LONG = (
        "read_too_long",
        Kind.UNAVAILABLE,
        "A read took longer than 5 s and was interrupted; ask for less.",
    )
    TOO_MANY_READS = "too_many_reads", Kind.UNAVAILABLE, "As many lists and searches as the engine allows run already."
