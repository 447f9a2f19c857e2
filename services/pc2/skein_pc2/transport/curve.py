"""CURVE: encrypted sockets for clients whose keys the operator allowed.

Certificates are pyzmq files (`zmq.auth`) in one folder. `server.key_secret` is the key pair of the ports. Each other
`*.key` is the public key of an allowed client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq.asyncio
import zmq.auth
from zmq.utils import z85

from skein_kit.background import background_tasks
from skein_kit.settings import SettingInvalid
from skein_kit.telemetry import logs
from skein_pc2.recent_names import RecentNames

SERVER = "server"
_SECRET, _PUBLIC = ".key_secret", ".key"
_OTHERS_ACCESS, _OTHERS_WRITE = 0o077, 0o022
_MAX_LOGGED_PEERS = 1000
# Address of libzmq's authentication requests.
_ZAP_ADDRESS = "inproc://zeromq.zap.01"

log = logs.get("pc2")


@dataclass(frozen=True, slots=True)
class CurveCertificates:
    """The ports' key pair, and the folder of allowed clients' keys."""

    folder: Path
    public_key: bytes
    secret_key: bytes = field(repr=False)

    @classmethod
    def read(cls, folder: Path | None) -> CurveCertificates:
        """Read the certificate of the ports. Raises SettingInvalid, which says what is missing."""
        if folder is None:
            raise SettingInvalid(
                "SECURE_ZMQ is on and SKEIN_PC2_CERTIFICATES is not set: it names the folder of the certificates, "
                "which `skein pc2 certificates FOLDER --client NAME` makes."
            )
        path = folder / f"{SERVER}{_SECRET}"
        try:
            is_open = folder.stat().st_mode & _OTHERS_WRITE or path.stat().st_mode & _OTHERS_ACCESS
            public_key, secret_key = zmq.auth.load_certificate(path)
        except (OSError, ValueError):
            secret_key = None
        if not secret_key:
            raise SettingInvalid(
                f"SKEIN_PC2_CERTIFICATES has no {path.name} that can be read: "
                "`skein pc2 certificates FOLDER --client NAME` makes one."
            )
        if is_open:
            raise SettingInvalid(
                f"SKEIN_PC2_CERTIFICATES lies open: only its owner may read {path.name} (chmod 600) and write to the "
                "folder (chmod 700)."
            )
        return cls(folder, public_key, secret_key)

    def secure(self, socket: zmq.Socket[Any]) -> None:
        """Make a socket a CURVE server, before it is bound."""
        socket.curve_server = True
        socket.curve_publickey = self.public_key
        socket.curve_secretkey = self.secret_key

    def allows(self, public_key: bytes) -> bool:
        """Say whether a client's key is in the folder now; changes need no restart."""
        return any(_public_key(path) == public_key for path in self.folder.glob(f"*{_PUBLIC}") if path.stem != SERVER)


class _ZapHandler:
    """Answers libzmq's request at each handshake: ZeroMQ Authentication Protocol, https://rfc.zeromq.org/spec/27.

    pyzmq's own asyncio authenticator can miss a request while rejected clients keep trying, and then stops answering.
    """

    def __init__(self, socket: zmq.asyncio.Socket, certificates: CurveCertificates) -> None:
        self._socket = socket
        self._certificates = certificates
        # A rejected client retries for ever and is logged once.
        self._logged_clients = RecentNames(_MAX_LOGGED_PEERS)

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
                is_allowed = mechanism == b"CURVE" and self._is_allowed(b"".join(credentials))
            except Exception:
                # libzmq sends no further request before a reply.
                log.exception("internal_error")
                is_allowed = False
            verdict = (b"200", b"OK") if is_allowed else (b"400", b"This client is not admitted")
            # User id and metadata follow the verdict; both are unused.
            await self._socket.send_multipart([version, request_id, *verdict, b"", b""])

    def _is_allowed(self, key: bytes) -> bool:
        public_key = z85.encode(key)
        if self._certificates.allows(public_key):
            return True
        name = public_key.decode("ascii")
        if name not in self._logged_clients:
            self._logged_clients.add(name)
            # The operator needs the public key, which is no secret, to allow the client.
            log.warning("client_refused", public_key=name)
        return False


@asynccontextmanager
async def run_zap_handler(context: zmq.asyncio.Context, certificates: CurveCertificates | None) -> AsyncIterator[None]:
    """Authenticate the clients of a context's sockets until the block ends; without certificates, allow all."""
    if certificates is None:
        yield
        return
    socket = context.socket(zmq.REP)
    try:
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(_ZAP_ADDRESS)
        async with background_tasks(**{"pc2 admission": _ZapHandler(socket, certificates).answer}):
            yield
    finally:
        socket.close()


def certificate_files(folder: Path, name: str) -> list[Path]:
    """Return the existing files of a certificate."""
    return [path for end in (_SECRET, _PUBLIC) if (path := folder / f"{name}{end}").exists()]


def create_certificate(folder: Path, name: str) -> Path:
    """Create a certificate that only its owner can read; return the file of its secret key. Raises FileExistsError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = folder / f"{name}{_SECRET}"
    # The file is private before it has content.
    secret.touch(mode=0o600, exist_ok=False)
    zmq.auth.create_certificates(folder, name)
    return secret


def _public_key(path: Path) -> bytes | None:
    try:
        return zmq.auth.load_certificate(path)[0]
    except (OSError, ValueError):
        return None
