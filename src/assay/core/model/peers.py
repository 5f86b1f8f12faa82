"""Watches between runs: which runs and mailboxes watch a run, which runs a run watches, and its options for events."""

from typing import Final

import msgspec

MONITOR, LINK = "monitor", "link"
MODES: Final = (MONITOR, LINK)

MONITORED_BY, LINKED_BY, MONITORS, LINKS, OPTION = "monitored_by", "linked_by", "monitors", "links", "option"
"""The kinds of entries of a run. The names are recorded in rows."""
WATCHED_BY: Final = {MONITOR: MONITORED_BY, LINK: LINKED_BY}
WATCHES: Final = {MONITOR: MONITORS, LINK: LINKS}
MODE_OF: Final = {MONITORED_BY: MONITOR, LINKED_BY: LINK, MONITORS: MONITOR, LINKS: LINK}

TRAP_LINKS, TRAP_CANCEL = "trap_links", "trap_cancel"

PeerKey = tuple[str, str]


class Peer(msgspec.Struct, frozen=True, gc=False):
    """An entry of a run: a watcher, an own watch, or an option.

    `name` is the address of the watcher, the number of the own watch, or the name of the option. `number` is the
    watcher's number of the watch, which is 0 for the other direction of a link, or the value of the option. `pid` is
    the watched run, as the watcher has named it.
    """

    kind: str
    name: str
    number: int = 0
    pid: str = ""

    @property
    def key(self) -> PeerKey:
        """Return the key of the entry in its run."""
        return self.kind, self.name


class OwnWatch(msgspec.Struct, frozen=True, gc=False):
    """A watch that a run takes along to its next run."""

    watch_id: int
    pid: str
    mode: str
