"""The credential that a client sends: the caller's own token, or a key named by the environment or the config file."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Final

from assay.core.model.errors import Invalid
from assay.sdk.client.config_file import DEFAULT_ENGINE_URL, config_path, key_of_config, read_config, reason_of, text_of

KEY_FILE_CHECK_SECONDS: Final = 10.0
"""The interval at which the time of a key file is looked at."""


class Credential:
    """The credential of a client. A key file is read again when it changes, and when the engine refuses the key.

    Args:
        token: The token that the program passed; nothing else counts then.
        url: The URL of the engine: a key of the config file goes only to the engine of the config file.
        environment: `ASSAY_API_KEY_FILE` names a file with a key and comes before `ASSAY_API_KEY`, the key itself;
            both come before the config file's `api_key_file` and `api_key`.
        clock: A clock in seconds.

    Raises:
        Invalid: A file cannot be read.
    """

    def __init__(
        self,
        token: str | None,
        url: str = DEFAULT_ENGINE_URL,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._token = token
        self._url = url
        self._environment = environment
        self._clock = clock
        self._file: str | None = None
        self._file_time: int | None = None
        self._next_check = 0.0
        self.value: str | None = None
        self._read()

    @property
    def is_file(self) -> bool:
        """Return whether the credential is the content of a file."""
        return self._file is not None

    def renew(self) -> bool:
        """Read the credential again; return whether it has changed. A file that cannot be read changes nothing."""
        before = self.value
        try:
            self._read()
        except Invalid:
            return False
        return self.value != before

    def check_file(self) -> bool:
        """Read the key file again if it has changed, which is checked every 10 s; return whether its key is another."""
        if self._file is None or self._clock() < self._next_check:
            return False
        self._next_check = self._clock() + KEY_FILE_CHECK_SECONDS
        return _time_of(self._file) != self._file_time and self.renew()

    def _read(self) -> None:
        file, value = self._found()
        if file is not None:
            self._file_time = _time_of(file)  # before the content: a change in between is then found later
            self._next_check = self._clock() + KEY_FILE_CHECK_SECONDS
            value = _key_in(file)
        self._file, self.value = file, (value or "").strip() or None

    def _found(self) -> tuple[str | None, str | None]:
        """Return the key file, or the credential itself."""
        if self._token is not None:
            return None, self._token
        variables = self._environment
        file, key = variables.get("ASSAY_API_KEY_FILE") or None, variables.get("ASSAY_API_KEY") or None
        if file is None and key is None:
            config = config_path(variables)
            file, key = (None, None) if config is None else key_of_config(read_config(config), self._url)
        return file, None if file is not None else key


def _time_of(file: str) -> int | None:
    try:
        return os.stat(os.path.expanduser(file)).st_mtime_ns
    except OSError:
        return None


def _key_in(file: str) -> str:
    try:
        return text_of(file)
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(
            f"the API key file {file} cannot be read: {reason_of(error)}", field="ASSAY_API_KEY_FILE"
        ) from None
