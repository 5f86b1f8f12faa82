"""The route that sends a message to an address."""

from typing import Any, Final
from uuid import uuid4

from msgspec import UNSET

from assay.api import answers
from assay.api.access import ACT, ACT_IN_BODY, require
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall, payload
from assay.api.mutations import change
from assay.api.router import Parameter, Route
from assay.api.routes.workflows import NAMESPACE, WAIT
from assay.auth.permissions import Permission
from assay.core.model.addresses import MAILBOX, UPDATE, Address, mailbox_address, parse_address
from assay.core.model.errors import Invalid, NotFound
from assay.core.model.ids import Namespace, RunId, WorkflowId, seconds
from assay.core.model.mailboxes import Letter, StoredLetter
from assay.core.model.options import check_id, check_text
from assay.core.model.payload import NULL, Payload
from assay.core.model.requests import Signal
from assay.core.rules.activities import HIGHEST_SEQ
from assay.core.rules.message_limits import check_topic
from assay.wire.mail_records import MailboxRecord, MailRecord
from assay.wire.request_bodies import MailboxBody, MessageBody

_NOTHING: Final[dict[int, Any]] = {200: None}


async def send(backend: Backend, call: ApiCall) -> HttpResponse:
    """Send a message to the workflow or mailbox at an address."""
    body = await call.read(MessageBody)
    target = target_of(body.to)
    require(call.principal, Permission.ACT, target.namespace)
    args = tuple(payload(value, "args") for value in body.args or ())
    if target.scheme == MAILBOX:
        check_topic(check_id(body.topic, "topic"))
        whole = Payload(b"[" + b",".join(map(bytes, args)) + b"]")
        request_number = int(target.part) if target.part is not None and target.part.isdecimal() else None
        address = mailbox_address(target.namespace, target.id)
        sender = check_text(body.sender, "from")
        await backend.engine.mail.post(Letter(address, body.topic, whole, 0, sender, request_number))
        return answers.rendered(b"", 200)
    request = Signal(
        Namespace(target.namespace),
        WorkflowId(target.id),
        None if target.part is None else RunId(target.part),
        name=check_id(body.topic, "topic"),
        payload=args[0] if len(args) == 1 else NULL,
        sender=check_text(body.sender, "from"),
        args=args if len(args) > 1 else (),
    )
    return await change(backend, call, target.namespace, request)


def target_of(text: str) -> Address:
    """Return the parsed address of a message's target.

    Raises:
        NotFound: The text is no address.
        Invalid: The address is that of an update, which only its workflow answers.
    """
    target = parse_address(text)
    if target is not None and target.scheme == UPDATE:
        raise Invalid("only the workflow that received an update answers it", field="to")
    if target is None:
        raise NotFound(f"{text} is not the address of a workflow or mailbox")
    return target


async def open_mailbox(backend: Backend, call: ApiCall) -> HttpResponse:
    """Create a mailbox, or find the existing one of the id; it is deleted some minutes after its last use."""
    body = await call.read(MailboxBody)
    namespace = check_id(body.namespace or call.namespace, "namespace")
    require(call.principal, Permission.ACT, namespace)
    mailbox_id = f"m-{uuid4().hex}" if body.mailbox_id is None else check_id(body.mailbox_id, "mailbox_id")
    mailbox, created = await backend.engine.mail.open(namespace, mailbox_id)
    record = MailboxRecord(mailbox_id=mailbox.mailbox_id, pid=mailbox.address, expires_at=seconds(mailbox.expires_at))
    return answers.json(record, 201 if created else 200)


async def read_mailbox(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return the messages after a seq; without any, wait for them. Messages up to the seq are forgotten."""
    after = call.text("after") or "0"
    if not after.isdecimal() or int(after) > HIGHEST_SEQ:
        raise Invalid("after is the seq of a message", field="after")
    given = call.text("wait")
    plain = given is not None and given.replace(".", "", 1).isdecimal()
    wait = call.wait(float(given) if given is not None and plain else given)
    found = await backend.engine.mail.read(call.namespace, call.parameters["mailbox_id"], int(after), wait or 0.0)
    return answers.json([_letter(letter) for letter in found])


def _letter(letter: StoredLetter) -> MailRecord:
    return MailRecord(
        seq=letter.seq,
        topic=letter.topic,
        sender=letter.sender,
        args=letter.args,
        at=seconds(letter.at),
        re=UNSET if letter.re is None else letter.re,
    )


async def delete_mailbox(backend: Backend, call: ApiCall) -> HttpResponse:
    """Delete a mailbox with its messages."""
    await backend.engine.mail.delete(call.namespace, call.parameters["mailbox_id"])
    return answers.rendered(b"", 200)


AFTER: Final = Parameter("after", "The seq of the last message that was read; default 0.", int)
MAIL_WAIT: Final = Parameter("wait", "The same as `wait_secs`.", float)

ROUTES: Final = (
    Route(
        method="POST",
        path="/mailboxes",
        operation_id="openMailbox",
        summary="Create a mailbox",
        tag="messages",
        reaction=open_mailbox,
        body=MailboxBody,
        query=(NAMESPACE,),
        access=ACT_IN_BODY,
        answers={201: MailboxRecord, 200: MailboxRecord},
    ),
    Route(
        method="GET",
        path="/mailboxes/{mailbox_id}/messages",
        operation_id="readMailbox",
        summary="Read the messages of a mailbox",
        tag="messages",
        reaction=read_mailbox,
        query=(NAMESPACE, AFTER, WAIT, MAIL_WAIT),
        access=ACT,
        answers={200: list[MailRecord]},
    ),
    Route(
        method="DELETE",
        path="/mailboxes/{mailbox_id}",
        operation_id="deleteMailbox",
        summary="Delete a mailbox",
        tag="messages",
        reaction=delete_mailbox,
        query=(NAMESPACE,),
        access=ACT,
        answers=_NOTHING,
    ),
    Route(
        method="POST",
        path="/messages",
        operation_id="sendMessage",
        summary="Send a message to an address",
        tag="messages",
        reaction=send,
        body=MessageBody,
        idempotent=True,
        access=ACT_IN_BODY,
        answers=_NOTHING,
    ),
)
