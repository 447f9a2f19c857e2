"""The file of published keys, which callers of the command have saved."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_kit.erasure_certificates import key_set
from skein_kit.erasure_certificates.key_set import KeySetInvalid


def read_file(file: Path) -> dict[str, Ed25519PublicKey]:
    """Read the keys of a JWK Set by key id. Raises CommandError."""
    try:
        return key_set.read(file.read_text("utf-8"))
    except (KeySetInvalid, UnicodeDecodeError):
        message = "The file of keys is no JWK Set; `skein certificates keys` writes one."
        raise CommandError(message, ExitCode.REFUSED) from None
