"""CURVE: the sockets of the ports speak in secret, and to clients that the operator admitted.

Certificates are files of pyzmq's own form (`zmq.auth`) in one folder: `server.key_secret` is who the ports are, and
each other `*.key` is the public key of a client that is admitted.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import zmq.asyncio
import zmq.auth
from zmq.utils import z85

from skein_kit.background import background_tasks
from skein_kit.settings import SettingInvalid
from skein_kit.telemetry import logs
from skein_pc2.gateway_api.named_sessions import RecentNames

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SERVER = "server"
_SECRET, _PUBLIC = ".key_secret", ".key"
_OTHERS, _OTHERS_WRITE = 0o077, 0o022
_MOST_REFUSED = 1000
# Where libzmq asks.
_QUESTIONS = "inproc://zeromq.zap.01"

log = logs.get("pc2")


@dataclass(frozen=True, slots=True)
class CurveCertificates:
    """Who the ports are, and where it is written whom they admit."""

    folder: Path
    public_key: bytes
    secret_key: bytes = field(repr=False)

    @classmethod
    def read(cls, folder: Path | None) -> CurveCertificates:
        """Read the certificate of the ports. Raises SettingInvalid, which says what is missing."""
        if folder is None:
            message = (
                "SECURE_ZMQ is on and SKEIN_PC2_CERTIFICATES is not set: it names the folder of the certificates, "
                "which `skein pc2 certificates FOLDER --client NAME` makes."
            )
            raise SettingInvalid(message)
        path = folder / f"{SERVER}{_SECRET}"
        try:
            is_open = folder.stat().st_mode & _OTHERS_WRITE or path.stat().st_mode & _OTHERS
            public_key, secret_key = zmq.auth.load_certificate(path)
        except (OSError, ValueError):
            secret_key = None
        if not secret_key:
            message = (
                f"SKEIN_PC2_CERTIFICATES has no {path.name} that can be read: "
                "`skein pc2 certificates FOLDER --client NAME` makes one."
            )
            raise SettingInvalid(message)
        if is_open:
            message = (
                f"SKEIN_PC2_CERTIFICATES lies open: only its owner may read {path.name} (chmod 600) and write to the "
                "folder (chmod 700)."
            )
            raise SettingInvalid(message)
        return cls(folder, public_key, secret_key)

    def secure(self, socket: zmq.Socket[Any]) -> None:
        """Let a socket that is not bound yet be the server of its connections."""
        socket.curve_server = True
        socket.curve_publickey = self.public_key
        socket.curve_secretkey = self.secret_key

    def admits(self, public_key: bytes) -> bool:
        """Say whether a client's key lies in the folder now, so that admitting and barring one needs no restart."""
        return any(_public_key(path) == public_key for path in self.folder.glob(f"*{_PUBLIC}") if path.stem != SERVER)


class _ZapHandler:
    """Answers libzmq, which asks at each handshake: the ZeroMQ Authentication Protocol, https://rfc.zeromq.org/spec/27.

    pyzmq's own authenticator for asyncio can miss a question where clients that are refused keep trying, and answers
    none from then on.
    """

    def __init__(self, socket: zmq.asyncio.Socket, certificates: CurveCertificates) -> None:
        self._socket = socket
        self._certificates = certificates
        # A client that is refused tries again for ever, and is worth one line.
        self._refused = RecentNames(_MOST_REFUSED)

    async def answer(self) -> None:
        """Answer until cancelled."""
        while True:
            (
                version,
                request_id,
                _domain,
                _address,
                _identity,
                mechanism,
                *credentials,
            ) = await self._socket.recv_multipart()
            try:
                is_admitted = mechanism == b"CURVE" and self._admits(b"".join(credentials))
            except Exception:
                # A question without an answer would be the last one.
                log.exception("fault")
                is_admitted = False
            verdict = (b"200", b"OK") if is_admitted else (b"400", b"This client is not admitted")
            # After the verdict, who the client is and more about it: nobody asks.
            await self._socket.send_multipart([version, request_id, *verdict, b"", b""])

    def _admits(self, key: bytes) -> bool:
        public_key = z85.encode(key)
        if self._certificates.admits(public_key):
            return True
        name = public_key.decode("ascii")
        if name not in self._refused:
            self._refused.add(name)
            # A public key is no secret; it is what the operator needs to admit its owner.
            log.warning("client_refused", public_key=name)
        return False


@asynccontextmanager
async def run_zap_handler(context: zmq.asyncio.Context, certificates: CurveCertificates | None) -> AsyncIterator[None]:
    """Admit the clients of the folder to the sockets of a context, until the block ends; all of them without one."""
    if certificates is None:
        yield
        return
    socket = context.socket(zmq.REP)
    try:
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(_QUESTIONS)
        async with background_tasks(**{"pc2 admission": _ZapHandler(socket, certificates).answer}):
            yield
    finally:
        socket.close()


def certificate_files(folder: Path, name: str) -> list[Path]:
    """Return the files that there are of a certificate."""
    return [path for end in (_SECRET, _PUBLIC) if (path := folder / f"{name}{end}").exists()]


def create_certificate(folder: Path, name: str) -> Path:
    """Make a certificate that only its owner can read; return the file of the secret. Raises FileExistsError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = folder / f"{name}{_SECRET}"
    # The file is closed to others before there is anything in it.
    secret.touch(mode=0o600, exist_ok=False)
    zmq.auth.create_certificates(folder, name)
    return secret


def _public_key(path: Path) -> bytes | None:
    try:
        return zmq.auth.load_certificate(path)[0]
    except (OSError, ValueError):
        return None
