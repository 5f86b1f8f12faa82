"""Protect browser sessions against requests that pages of other sites make with the browser's cookie (CSRF)."""

from typing import Final

from assay.api.call import READING_METHODS, ApiCall
from assay.auth.sessions import BrowserSession
from assay.core.model.errors import AssayError, Kind

CSRF_HEADER: Final = b"x-wf-csrf"


class CsrfFailed(AssayError):
    """A change by a cookie without the proof that a page of the engine itself requests the change."""

    code = "csrf_failed"
    kind = Kind.PERMISSION_DENIED


def check_csrf(call: ApiCall, session: BrowserSession) -> None:
    """Raise an error for a change by a session's cookie, unless a page of the engine requests the change.

    The check of hosts and origins has been made before; here the browser must have sent one of its headers.

    Raises:
        CsrfFailed: The browser named no origin, or the session's token is missing or wrong.
        Invalid: The content type is not JSON.
    """
    if call.method in READING_METHODS:
        return
    if call.header(b"origin") is None and call.header(b"sec-fetch-site") is None:
        raise CsrfFailed("a change by cookie needs the header Origin or Sec-Fetch-Site")
    if not session.accepts_csrf(call.header(CSRF_HEADER)):
        raise CsrfFailed("a change by cookie needs the header X-WF-CSRF with the csrf of the session")
    call.require_json()
