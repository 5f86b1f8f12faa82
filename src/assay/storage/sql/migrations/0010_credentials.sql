-- API keys, browser sessions, tickets of event streams, and the audit of changes.
-- min_reader: 1
-- min_writer: 5

-- Only the SHA-256 of a key is here. A revoked key stays: its prefix is never given again. Lists of names are JSON.
CREATE TABLE api_keys (
    digest $text NOT NULL PRIMARY KEY,
    prefix $text NOT NULL UNIQUE,
    label $text,
    role $text NOT NULL,
    namespaces $bytes NOT NULL,
    queues $bytes,
    created_at $int NOT NULL,
    expires_at $int,
    revoked_at $int,
    last_used_at $int
) $table;

-- One row, whose number grows with each change of keys and sessions. Engines read keys again when it has grown; a change
-- updates it first, so that changes of all engines happen one after the other.
CREATE TABLE credential_changes (
    id $int NOT NULL PRIMARY KEY,
    number $int NOT NULL
) $table;

CREATE TABLE sessions (
    digest $text NOT NULL PRIMARY KEY,
    user_name $text,
    credential $text,
    roles $bytes NOT NULL,
    queues $bytes,
    csrf $text NOT NULL,
    created_at $int NOT NULL,
    expires_at $int NOT NULL
) $table;

CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE stream_tickets (
    digest $text NOT NULL PRIMARY KEY,
    content $bytes NOT NULL,
    expires_at $int NOT NULL
) $table;

CREATE INDEX stream_tickets_expiry ON stream_tickets (expires_at);
