-- Mailboxes of programs outside of workflows, and the messages in them until they are read.
-- min_reader: 12
-- min_writer: 20

CREATE TABLE mailboxes (
    address $text NOT NULL PRIMARY KEY,
    namespace $text NOT NULL,
    mailbox_id $text NOT NULL,
    next_seq $int NOT NULL,
    expires_at $int NOT NULL
) $table;

CREATE INDEX mailboxes_expiry ON mailboxes (expires_at);

CREATE TABLE mailbox_messages (
    mailbox $text NOT NULL,
    seq $int NOT NULL,
    topic $text NOT NULL,
    sender $text,
    args $bytes NOT NULL,
    re $int,
    at $int NOT NULL,
    PRIMARY KEY (mailbox, seq)
) $key_table;
