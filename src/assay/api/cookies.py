"""Cookies of browsers: the session, and the state of a sign-in at an issuer."""

from typing import Final

from assay.api.answers import Header
from assay.api.call import ApiCall
from assay.auth.sessions import cookie_name, read_cookies, set_cookie

_SET: Final = b"set-cookie"
_LOGIN: Final = "-login"


class Cookies:
    """Reads and writes the cookies of an engine.

    Under https the browser binds the cookies to the host. Under plain http the name contains the id of the database,
    because engines on the same host share their cookies whatever their ports.
    """

    def __init__(self, database_id: str, public_url: str | None = None) -> None:
        self._database_id = database_id
        self._always_secure = public_url is not None and public_url.startswith("https:")

    def session_id(self, call: ApiCall) -> str | None:
        """Return the session id of a request."""
        return self._read(call, "")

    def login(self, call: ApiCall) -> str | None:
        """Return the state of the sign-in that the browser of a request has begun."""
        return self._read(call, _LOGIN)

    def set_session(self, call: ApiCall, session_id: str, max_age: int) -> Header:
        """Return the header that sets the session of a browser; `max_age` 0 deletes the session's cookie."""
        return self._write(call, "", session_id, max_age)

    def set_login(self, call: ApiCall, content: str, max_age: int) -> Header:
        """Return the header that sets the state of a sign-in; `max_age` 0 deletes the state."""
        return self._write(call, _LOGIN, content, max_age)

    def _is_secure(self, call: ApiCall) -> bool:
        return self._always_secure or call.is_secure

    def _read(self, call: ApiCall, suffix: str) -> str | None:
        header = call.header(b"cookie")
        if header is None:
            return None
        name = cookie_name(secure=self._is_secure(call), database_id=self._database_id)
        return read_cookies(header).get(name + suffix)

    def _write(self, call: ApiCall, suffix: str, value: str, max_age: int) -> Header:
        secure = self._is_secure(call)
        name = cookie_name(secure=secure, database_id=self._database_id) + suffix
        return _SET, set_cookie(name, value, secure=secure, max_age=max_age).encode("ascii")
