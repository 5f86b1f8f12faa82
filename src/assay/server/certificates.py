"""The certificate of the server: replaced for new connections when its files change, without a restart."""

import logging
import os
import ssl

from assay.core.model.errors import Invalid

log = logging.getLogger("assay.server")

Signature = tuple[tuple[int, int, int], ...]
"""Inode, size and time of change of each file."""


class Certificates:
    """A pair of certificate chain and private key. A bad pair never replaces a good one."""

    def __init__(self, cert: str, key: str) -> None:
        """Load the pair.

        Raises:
            Invalid: The files cannot be used.
        """
        self._cert = cert
        self._key = key
        self._seen = self._signature()
        try:
            self.context = self._current = _context(cert, key)
        except (OSError, ValueError) as error:
            raise Invalid(
                f"--tls-cert {cert} and --tls-key {key} cannot be used together: {_reason(error)}",
                code="bad_flags",
                field="flags",
            ) from None
        # The listener keeps its first context for ever. The callback runs in each handshake, with a server name or
        # without, and replaces certificate and key at once: no connection gets the one without the other.
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def reload_if_changed(self) -> None:
        """Load the pair again if one of its files has changed since the last attempt."""
        if self._signature() != self._seen:
            self.reload()

    def reload(self) -> None:
        """Load the pair again for new connections; keep and log the old pair if the new one cannot be used."""
        self._seen = self._signature()
        try:
            self._current = _context(self._cert, self._key)
        except (OSError, ValueError) as error:
            log.error(
                "the certificate %s and key %s cannot be used; the former pair stays: %s",
                *(self._cert, self._key, _reason(error)),
            )
        else:
            log.info("the certificate %s was loaded again", self._cert)

    def _signature(self) -> Signature:
        return tuple(_facts(path) for path in (self._cert, self._key))


def _context(cert: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # An empty password instead of a prompt: a server has no terminal to ask for the password of a key.
    context.load_cert_chain(cert, key, password="")
    return context


def _facts(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
