"""Serves the OpenAPI document, encoded once per issuer."""

from __future__ import annotations

import asyncio
import functools
import gzip
import hashlib
import json
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from skein_gateway.oauth.metadata import ServerMetadata
from skein_gateway.openapi.document import document

OPENAPI_PATH = "/openapi.json"
# The document changes with the release and with the issuer.
_CACHED = "public, max-age=300"


@dataclass(frozen=True, slots=True)
class EncodedDocument:
    """The document as bytes, plain and gzipped."""

    plain: bytes
    packed: bytes
    etag: str


# While auth is unavailable the issuer is empty.
@functools.lru_cache(maxsize=4)
def encoded_document(issuer: str) -> EncodedDocument:
    """Return the document of an issuer."""
    plain = json.dumps(document(issuer), ensure_ascii=False, separators=(",", ":")).encode()
    # Weak, because both encodings share it.
    etag = f'W/"{hashlib.sha256(plain).hexdigest()[:32]}"'
    return EncodedDocument(plain, gzip.compress(plain, mtime=0), etag)


class OpenApiHandler:
    """The handler of the document."""

    def __init__(self, metadata: ServerMetadata | None) -> None:
        """Read the issuer from `metadata`; None leaves it out."""
        self._metadata = metadata

    async def show(self, request: Request) -> Response:
        """Return the document, or 304 when the client has it."""
        issuer = "" if self._metadata is None else await self._metadata.issuer_if_known()
        encoded = await asyncio.to_thread(encoded_document, issuer)
        headers = {"etag": encoded.etag, "cache-control": _CACHED, "vary": "accept-encoding"}
        client_tags = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
        if encoded.etag in client_tags or "*" in client_tags:
            return Response(status_code=304, headers=headers)
        if _accepts_gzip(request.headers.get("accept-encoding", "")):
            headers["content-encoding"] = "gzip"
            return Response(encoded.packed, media_type="application/json", headers=headers)
        return Response(encoded.plain, media_type="application/json", headers=headers)


def _accepts_gzip(accepted: str) -> bool:
    """Tell whether accept-encoding includes gzip with a weight above zero."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.replace(" ", "").partition(";q=")
        if coding == "gzip":
            return weight.strip("0.") != "" or not weight
    return False
