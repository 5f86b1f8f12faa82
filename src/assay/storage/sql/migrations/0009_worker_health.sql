-- Whether a worker takes all kinds of work, as its watchdog reported last, and how many of its threads never came back.
-- min_reader: 1
-- min_writer: 5

ALTER TABLE workers ADD COLUMN healthy $int NOT NULL DEFAULT 1;

ALTER TABLE workers ADD COLUMN abandoned_threads $int NOT NULL DEFAULT 0;
