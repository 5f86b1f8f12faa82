"""The audit of a request on the write path: its row is completed by the decision, and written with the change."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from assay.core.model.attached_rows import AuditRow
from assay.core.schedules.model import Schedule


class AuditNote(msgspec.Struct, frozen=True):
    """The row of an audited request, and the function that renders a schedule before and after its change."""

    row: AuditRow
    render: Callable[[Schedule], bytes] | None = None

    def completed(self, before: Schedule | None = None, after: Schedule | None = None) -> AuditRow:
        """Return the row of the accepted request."""
        if self.render is None:
            return self.row
        return replace(
            self.row,
            before=None if before is None else self.render(before),
            after=None if after is None else self.render(after),
        )
