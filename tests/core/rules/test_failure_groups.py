"""Failures that differ only by ids, numbers and times are one group."""

import pytest

from assay.core.model.errors import Kind
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND
from assay.core.rules.failure_groups import FailureGroup, grouped, plain

NOW = 1_000 * SECOND
STACK = """Traceback (most recent call last):
  File "/srv/shop/pay.py", line 41, in charge
    raise CardDeclined
  File "/usr/lib/python3.12/site-packages/http/client.py", line 9, in send
    raise X
"""


def fingerprint(message: str, **fields: object) -> str:
    kind = fields.pop("workflow_type", "Order")
    where = fields.pop("where", "charge")
    return grouped(str(kind), FailureInfo(Kind.INVALID, message, **fields), "run", str(where)).fingerprint  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 81 declined after 3.2 s", "order 82 declined after 0.1 s"),
        ("no user 'ana'", "no user 'bob'"),
        ('no user "ana"', 'no user "bob"'),
        ("run 0d4f9a7e-1111-2222-3333-444455556666 lost", "run ffffffff-1111-2222-3333-444455556666 lost"),
        ("object at 0x7f00aa", "object at 0x1122bb"),
        ("digest 9c1fabcdef012345 is bad", "digest 00000000000000aa is bad"),
        ("cannot read /srv/a/b.txt", "cannot read /opt/x/c.txt"),
        ("late since 2026-01-31T12:00:00Z", "late since 2027-02-01 01:02:03.5+01:00"),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(one: str, other: str):
    assert fingerprint(one) == fingerprint(other)


def test_what_matters_makes_another_group():
    base = fingerprint("declined")
    assert len(base) == 16
    assert base != fingerprint("refused")
    assert base != fingerprint("declined", workflow_type="Refund")
    assert base != fingerprint("declined", where="ship")
    assert base != fingerprint("declined", type="CardDeclined")
    assert base != fingerprint("declined", stack=STACK)


def test_lines_and_libraries_do_not_matter():
    moved = STACK.replace("line 41", "line 57").replace("client.py", "other.py").replace("/srv/shop", "/opt/app")
    assert fingerprint("declined", stack=STACK) == fingerprint("declined", stack=moved)
    assert fingerprint("declined", stack=STACK) != fingerprint("declined", stack=STACK.replace("in charge", "in pay"))


def test_words_stay():
    assert plain("connection refused by peer") == "connection refused by peer"


def group(**fields: object) -> FailureGroup:
    base = {"namespace": "main", "fingerprint": "f", "source": "run", "workflow_type": "Order", "where": "charge"}
    more = {"kind": "INVALID", "type": None, "message": "m", "first_seen": NOW, "last_seen": NOW, "count": 3}
    return FailureGroup(**{**base, **more, **fields})  # type: ignore[arg-type]


def test_a_resolved_group_that_recurs_is_open_again():
    assert group(state="resolved", changed_at=NOW + 1).current(NOW + 2) == ("resolved", False)
    assert group(state="resolved", changed_at=NOW - 1).current(NOW) == ("open", True)


def test_a_muted_group_opens_at_its_limits():
    assert group(state="muted", changed_at=NOW).current(NOW + 9) == ("muted", False)
    assert group(state="muted", until_at=NOW + 5).current(NOW + 5) == ("open", False)
    assert group(state="muted", until_count=4).current(NOW) == ("muted", False)
    assert group(state="muted", until_count=3).current(NOW) == ("open", False)
