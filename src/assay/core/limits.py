"""The bounds of section 5.4 of the reliability contract: what one caller may cost."""

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Every bound with its default; shown by the engine to whoever asks."""

    payload_bytes: int = 2 * 1024 * 1024
    history_events: int = 50_000
    history_bytes: int = 50 * 1024 * 1024
    pending_activities: int = 2_000
    pending_children: int = 2_000
    commands: int = 2_000
    signals: int = 10_000
    reopened_children: int = 1_000
    """Of a retried run, down the tree."""
    id_bytes: int = 255
    text_bytes: int = 16 * 1024
    """Of a text for people that is kept with a run or a schedule: a reason, a summary, details."""
    search_attributes: int = 32
    search_attribute_bytes: int = 2_048


LIMITS = Limits()
