"""All codes of error bodies, each with its kind and meaning.

Codes are permanent, like the names of events: later versions add codes, but never rename or remove them. Tests compare
this list with the sources, and the table in `docs/howto/server.md` with this list.
"""

from enum import StrEnum
from typing import Self

from assay.core.model.errors import Kind


class ErrorCode(StrEnum):
    """The exact error. Later versions add codes: clients should handle an unknown code by its `kind` and status."""

    kind: Kind
    meaning: str

    def __new__(cls, code: str, kind: Kind, meaning: str) -> Self:
        """Return the code with this text."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.kind = kind
        member.meaning = meaning
        return member

    INVALID = "invalid", Kind.INVALID, "A value is invalid; `field` names it."
    INVALID_HTTP = "invalid_http", Kind.INVALID, "The request is malformed or ambiguous HTTP."
    INVALID_PATH = "invalid_path", Kind.INVALID, "A part of the path is not UTF-8, or holds U+0000."
    INVALID_QUERY = "invalid_query", Kind.INVALID, "The query string cannot be read."
    INCOMPLETE_BODY = "incomplete_body", Kind.INVALID, "The connection ended before the whole body had arrived."
    INVALID_JSON = "invalid_json", Kind.INVALID, "The body is not JSON, or has a number that is out of range."
    DUPLICATE_KEY = "duplicate_key", Kind.INVALID, "An object in the body has a duplicate key."
    NUL_CHARACTER = "nul_character", Kind.INVALID, "A text holds U+0000."
    LONE_SURROGATE = "lone_surrogate", Kind.INVALID, "A text holds half of a surrogate pair."
    JSON_TOO_DEEP = "json_too_deep", Kind.INVALID, "A document nests too deep."
    TOO_MANY_KEYS = "too_many_keys", Kind.INVALID, "An object in a document has too many keys."
    INVALID_DURATION = (
        "invalid_duration",
        Kind.INVALID,
        "A duration is neither a number of seconds nor a text such as `1h30m`.",
    )
    BAD_CRON = "bad_cron", Kind.INVALID, "A cron expression cannot be read."
    BAD_TIMEZONE = "bad_timezone", Kind.INVALID, "The time zone does not exist."
    BAD_DST = "bad_dst", Kind.INVALID, "`dst` is not `skip`, `shift` or `both`."
    NEVER_FIRES = "never_fires", Kind.INVALID, "A cron expression has no due time, or none before the schedule's end."
    BAD_FROM_SEQ = "bad_from_seq", Kind.INVALID, "`from_seq` is not the seq of an event before the run's closing event."
    LIMIT_EXCEEDED = "limit_exceeded", Kind.INVALID, "The request exceeds a limit of the run or of a request."
    UNREADABLE_EVENT = "unreadable_event", Kind.INVALID, "A recorded event cannot be read: the database is damaged."
    OIDC_FAILED = "oidc_failed", Kind.INVALID, "A sign-in at the issuer failed; begin again."
    NEEDS_DRY_RUN = "needs_dry_run", Kind.INVALID, "A bulk action is started with the token of its dry run."
    UNAUTHORIZED = (
        "unauthorized",
        Kind.PERMISSION_DENIED,
        "The request has no valid credential: send `Authorization: Bearer`.",
    )
    FORBIDDEN = (
        "forbidden",
        Kind.PERMISSION_DENIED,
        "The credential's role is too low; `needs` is the lowest sufficient role.",
    )
    CSRF_FAILED = "csrf_failed", Kind.PERMISSION_DENIED, "A change by cookie lacks the session's CSRF token."
    CROSS_ORIGIN = "cross_origin", Kind.PERMISSION_DENIED, "A page of another site requested a change."
    READ_ONLY = "read_only", Kind.PERMISSION_DENIED, "This process only reads the file; changes need its engine."
    NOT_FOUND = "not_found", Kind.NOT_FOUND, "The run, activity, schedule, namespace or query does not exist."
    WORKFLOW_CLOSED = "workflow_closed", Kind.NOT_FOUND, "The run is closed and accepts no more messages."
    UNKNOWN_TASK = "unknown_task", Kind.NOT_FOUND, "The task does not exist."
    UNKNOWN_WORKER = "unknown_worker", Kind.NOT_FOUND, "The worker is unknown and must register again."
    MAIN_NAMESPACE = "main_namespace", Kind.NOT_FOUND, "The namespace `main` cannot be deleted."
    NO_ROUTE = "no_route", Kind.NOT_FOUND, "No route matches the path."
    METHOD_NOT_ALLOWED = (
        "method_not_allowed",
        Kind.INVALID,
        "The path does not support the method; the header `Allow` names the methods.",
    )
    REQUEST_TIMEOUT = "request_timeout", Kind.INVALID, "The request arrived too slowly."
    ALREADY_EXISTS = "already_exists", Kind.ALREADY_EXISTS, "The name is in use; further fields describe its owner."
    OTHER_WORKFLOW_TYPE = (
        "other_workflow_type",
        Kind.ALREADY_EXISTS,
        "The id has a run of another workflow type, named in further fields. Choose another id.",
    )
    REFUSED = "refused", Kind.CONFLICT, "The current state does not allow the request."
    RUN_CLOSED = "run_closed", Kind.CONFLICT, "The run is closed."
    STALE_TASK = "stale_task", Kind.CONFLICT, "The worker no longer holds the workflow task."
    STALE_ATTEMPT = "stale_attempt", Kind.CONFLICT, "The attempt is over: the worker no longer holds the activity."
    ALREADY_REPORTED = "already_reported", Kind.CONFLICT, "The activity already has a different outcome."
    UNHANDLED_EVENTS = "unhandled_events", Kind.CONFLICT, "The run has events that its worker has not seen; poll again."
    VERSION_CONFLICT = (
        "version_conflict",
        Kind.CONFLICT,
        "The run has recorded another version of the change; the workflow task has failed, and the run stays open.",
    )
    CHILD_NOT_STARTED = (
        "child_not_started",
        Kind.CONFLICT,
        "A spawned child cannot be started; the history has the reason, poll again.",
    )
    OLD_MESSAGE = "old_message", Kind.CONFLICT, "A worker's message arrived twice or too late."
    TOKEN_EXPIRED = "token_expired", Kind.CONFLICT, "The token of a bulk action is unknown or older than 15 minutes."
    NOT_RETRYABLE = "not_retryable", Kind.CONFLICT, "Only a run that failed, timed out or was cancelled can be retried."
    NOT_FAILED = "not_failed", Kind.CONFLICT, "No longer sent: see `not_retryable`."
    NO_FAILED_ACTIVITY = (
        "no_failed_activity",
        Kind.CONFLICT,
        "No longer sent: a run without a failed activity can be retried as well.",
    )
    IS_CHILD = "is_child", Kind.CONFLICT, "A child cannot be retried alone: retry its parent."
    TOO_MANY_CHILDREN = (
        "too_many_children",
        Kind.CONFLICT,
        "The retry would reopen more children than allowed; nothing was changed.",
    )
    ALREADY_CONTINUED = "already_continued", Kind.CONFLICT, "The run has already continued as another run."
    NAMESPACE_IN_USE = "namespace_in_use", Kind.CONFLICT, "The namespace has open runs or schedules."
    KEY_EXPIRED = "key_expired", Kind.CONFLICT, "The key has expired and cannot be rotated: create a new key."
    GONE = (
        "gone",
        Kind.INVALID,
        "The stream no longer has the events after the cursor; `oldest_id` is the oldest available event.",
    )
    BODY_TOO_LARGE = "body_too_large", Kind.INVALID, "The body is too large."
    PAYLOAD_TOO_LARGE = (
        "payload_too_large",
        Kind.INVALID,
        "A document is too large: store it elsewhere, pass a reference.",
    )
    TEXT_TOO_LONG = "text_too_long", Kind.INVALID, "A summary, a reason or another descriptive text is too long."
    URL_TOO_LONG = "url_too_long", Kind.INVALID, "The URL is too long."
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", Kind.INVALID, "The body is not `application/json`."
    UNSUPPORTED_ENCODING = "unsupported_encoding", Kind.INVALID, "The body is compressed."
    WRONG_HOST = "wrong_host", Kind.INVALID, "The engine does not serve this host name; `--allowed-host` adds a name."
    WRONG_SHAPE = "wrong_shape", Kind.INVALID, "The body is JSON of the wrong shape; `field` names the place."
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused", Kind.INVALID, "The key was used for another request."
    REQUEST_ID_REUSED = "request_id_reused", Kind.INVALID, "The `request_id` was used for another start."
    NAMESPACE_BUSY = (
        "namespace_busy",
        Kind.RATE_LIMITED,
        "1,000 requests of the namespace are waiting; nothing was changed, retry after a second.",
    )
    TOO_MANY_ATTEMPTS = "too_many_attempts", Kind.RATE_LIMITED, "Too many invalid credentials; retry later."
    TOO_MANY_REQUESTS = (
        "too_many_requests",
        Kind.RATE_LIMITED,
        "The credential exceeds the requests a second of `--rate-limit`; nothing was changed, retry later.",
    )
    TOO_MANY_MESSAGES = (
        "too_many_messages",
        Kind.RATE_LIMITED,
        "The run has 10,000 messages that its code has not seen; nothing was changed, retry later.",
    )
    TOO_MANY_POLLS = "too_many_polls", Kind.RATE_LIMITED, "No more polls can be held at present."
    TOO_MANY_STREAMS = "too_many_streams", Kind.RATE_LIMITED, "No more event streams can be open at present."
    HEADERS_TOO_LARGE = "headers_too_large", Kind.INVALID, "The headers are too long."
    FAILURE = "failure", Kind.INTERNAL, "Internal error; see the server log."
    INTERNAL_ERROR = (
        "internal_error",
        Kind.INTERNAL,
        "The engine could not process the request and changed nothing; see the server log.",
    )
    UNAVAILABLE = "unavailable", Kind.UNAVAILABLE, "The engine cannot process the request now; a retry may succeed."
    UNANSWERED = "unanswered", Kind.UNAVAILABLE, "The engine failed while sending its response; see the server log."
    ENGINE_STOPPING = (
        "engine_stopping",
        Kind.UNAVAILABLE,
        "The engine finishes its current requests and accepts no new requests.",
    )
    ENGINE_STOPPED = "engine_stopped", Kind.UNAVAILABLE, "The engine is shutting down."
    ISSUER_UNAVAILABLE = "issuer_unavailable", Kind.UNAVAILABLE, "The issuer of tokens cannot be reached."
    TOO_MANY_CONNECTIONS = "too_many_connections", Kind.UNAVAILABLE, "No more connections can be open at present."
    STORE_REJECTED = "store_rejected", Kind.UNAVAILABLE, "The database rejected the change; nothing was changed."
    STORE_CONFLICT = (
        "store_conflict",
        Kind.UNAVAILABLE,
        "Concurrent changes of other engines won repeatedly; nothing was changed.",
    )
    OUTCOME_UNKNOWN = (
        "outcome_unknown",
        Kind.UNAVAILABLE,
        "The database did not confirm the change, which may be durable.",
    )
    STORE_BROKEN = (
        "store_broken",
        Kind.UNAVAILABLE,
        "The database fails and the engine stops; the change may be durable.",
    )
    STORE_REPLACED = (
        "store_replaced",
        Kind.UNAVAILABLE,
        "The database file or its WAL was deleted or replaced, and the engine stops; connect again.",
    )
    READ_TOO_LONG = (
        "read_too_long",
        Kind.UNAVAILABLE,
        "A read took longer than 5 s and was interrupted; request less.",
    )
    TOO_MANY_READS = "too_many_reads", Kind.UNAVAILABLE, "The maximum number of lists and searches is running."
