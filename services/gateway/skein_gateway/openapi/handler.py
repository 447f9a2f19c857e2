"""Where the HTTP door says what it answers: the OpenAPI document, made once and kept."""

from __future__ import annotations

import asyncio
import functools
import gzip
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

from skein_gateway.openapi.document import document

if TYPE_CHECKING:
    from starlette.requests import Request

    from skein_gateway.oauth.metadata import ServerMetadata

OPENAPI_PATH = "/openapi.json"
# It changes with the release, and with the issuer's address.
_CACHED = "public, max-age=300"


@dataclass(frozen=True, slots=True)
class EncodedDocument:
    """The document's bytes."""

    plain: bytes
    packed: bytes
    etag: str


# Asked for when auth does not answer, it names no issuer.
@functools.lru_cache(maxsize=4)
def encoded_document(issuer: str) -> EncodedDocument:
    """Return the document for an issuer."""
    plain = json.dumps(document(issuer), ensure_ascii=False, separators=(",", ":")).encode()
    # Weak, since it stands for both forms.
    etag = f'W/"{hashlib.sha256(plain).hexdigest()[:32]}"'
    return EncodedDocument(plain, gzip.compress(plain, mtime=0), etag)


class OpenApiHandler:
    """The handler of the document."""

    def __init__(self, metadata: ServerMetadata | None) -> None:
        """Ask auth who issues tokens, if it is there to be asked."""
        self._metadata = metadata

    async def show(self, request: Request) -> Response:
        """Return the document, or nothing when the reader has it."""
        issuer = "" if self._metadata is None else await self._metadata.issuer_if_known()
        found = await asyncio.to_thread(encoded_document, issuer)
        headers = {"etag": found.etag, "cache-control": _CACHED, "vary": "accept-encoding"}
        known = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
        if found.etag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        if _takes_gzip(request.headers.get("accept-encoding", "")):
            headers["content-encoding"] = "gzip"
            return Response(found.packed, media_type="application/json", headers=headers)
        return Response(found.plain, media_type="application/json", headers=headers)


def _takes_gzip(accepted: str) -> bool:
    """Say whether gzip is among what a reader takes, and not by a weight of nothing."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.replace(" ", "").partition(";q=")
        if coding == "gzip":
            return weight.strip("0.") != "" or not weight
    return False
