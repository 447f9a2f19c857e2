"""Mutual TLS between the services of the cluster: each side has a certificate of one authority.

Changed files are read again, and new connections use them, without a restart.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import grpc

from skein_kit.settings import ProcessSettings, SettingInvalid
from skein_kit.telemetry import logs
from skein_kit.tls import server_tls
from skein_kit.tls.server_tls import load_server_context

CERTIFICATE = "SKEIN_MTLS_CERTIFICATE"
KEY = "SKEIN_MTLS_KEY"
AUTHORITY = "SKEIN_MTLS_CA"
# Seconds between checks for changed files.
_CHECK_SECONDS = 1.0

log = logs.get("skein")


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsMaterial:
    """The contents of the three files, PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    authority: bytes

    def server(self) -> grpc.ServerCertificateConfiguration:
        """Return credentials of a server that accepts only clients with a certificate of the authority."""
        return grpc.ssl_server_certificate_configuration(
            [(self.key, self.certificate)], root_certificates=self.authority
        )


class MutualTlsFiles:
    """The three files, and their last valid contents."""

    def __init__(
        self, certificate: Path, key: Path, authority: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read the files. Raises SettingInvalid with the name of the setting."""
        self._paths = certificate, key, authority
        self._clock = clock
        self._fingerprint = self._file_fingerprint()
        self._material = self._read()
        server_tls.record_mutual_tls_certificates(self._material.certificate, self._material.authority)
        self._checked_at = clock()

    @classmethod
    def from_settings(cls, settings: ProcessSettings) -> Self | None:
        """Use the three settings; return None if none is set. Raises SettingInvalid."""
        paths = {CERTIFICATE: settings.mtls_certificate, KEY: settings.mtls_key, AUTHORITY: settings.mtls_ca}
        missing = [name for name, path in paths.items() if path is None]
        if len(missing) == len(paths):
            return None
        if settings.mtls_certificate is None or settings.mtls_key is None or settings.mtls_ca is None:
            message = f"{CERTIFICATE}, {KEY} and {AUTHORITY} are needed together: {' and '.join(missing)} is missing."
            raise SettingInvalid(message)
        return cls(settings.mtls_certificate, settings.mtls_key, settings.mtls_ca)

    @property
    def material(self) -> TlsMaterial:
        """The contents of the files: the same object until the files change and are valid."""
        now = self._clock()
        if now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            self._reload_if_changed()
        return self._material

    def server_credentials(self) -> grpc.ServerCredentials:
        """Return credentials of a server, which follow changes of the files."""
        current = self._material

        def read_change() -> grpc.ServerCertificateConfiguration | None:
            nonlocal current
            material = self.material
            if material is current:
                return None
            current = material
            return material.server()

        return grpc.dynamic_ssl_server_credentials(
            current.server(),
            read_change,  # type: ignore[arg-type]  # None is documented: nothing has changed.
            require_client_authentication=True,
        )

    def _reload_if_changed(self) -> None:
        fingerprint = self._file_fingerprint()
        if fingerprint == self._fingerprint:
            return
        # A pair that does not match may be half of a change: the next check sees the other half.
        self._fingerprint = fingerprint
        try:
            self._material = self._read()
        except SettingInvalid as error:
            log.error("mtls_files_unusable", why=str(error))  # noqa: TRY400 - the stack adds nothing.
        else:
            server_tls.record_mutual_tls_certificates(self._material.certificate, self._material.authority)
            log.info("mtls_files_changed")

    def _file_fingerprint(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Return a fingerprint of the files, which also changes when a link gets another target."""
        states: list[tuple[int, int, int] | None] = []
        for path in self._paths:
            try:
                status = path.stat()
            except OSError:
                states.append(None)
            else:
                states.append((status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(states)

    def _read(self) -> TlsMaterial:
        certificate, key, authority = self._paths
        load_server_context(certificate, key, settings=(CERTIFICATE, KEY))
        try:
            ssl.create_default_context(cafile=authority)
            return TlsMaterial(
                certificate=certificate.read_bytes(), key=key.read_bytes(), authority=authority.read_bytes()
            )
        except OSError as error:
            problem = "holds no certificate" if isinstance(error, ssl.SSLError) else f"cannot be read: {error.strerror}"
            message = f"{AUTHORITY} names a file that {problem}."
            raise SettingInvalid(message) from None
