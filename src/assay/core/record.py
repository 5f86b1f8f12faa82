"""What management calls return: mappings with the wire's names that also allow attributes (R23)."""

from collections.abc import Iterable
from typing import Any


class Record(dict[str, Any]):
    """`record["status"]` and `record.status` are the same; equal to a plain dict with the same items."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"this record has no {name!r}; it has {known}", name=name, obj=self) from None

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        return f"Record({super().__repr__()})"

    def copy(self) -> "Record":
        """Another record with the same items."""
        return Record(self)


class Page(list[Record]):
    """A list of records; `next_cursor` is where the next page begins, None after the last one."""

    __slots__ = ("next_cursor",)

    def __init__(self, records: Iterable[Record] = (), next_cursor: str | None = None) -> None:
        super().__init__(records)
        self.next_cursor = next_cursor
