"""The inputs that go along when a run continues as new."""

from assay.core.model import requests as rq
from assay.core.model.events import Recorded
from assay.core.model.run import Run
from assay.core.rules.moment import Unprepared


def unread_of(run: Run, request: rq.Advance) -> tuple[Recorded, ...]:
    """Return the inputs that code has not taken, and all that came since the request was prepared, in order of seq.

    Raise `Unprepared` if the run has newer events that are not in memory.
    """
    if request.unread_until in (-1, run.last_seq):
        return request.unread
    if run.tail is None:
        raise Unprepared(run.run_id)
    newer = [one for one in run.tail if one.seq > request.unread_until and one.event.goes_along]
    return (*request.unread, *newer)
