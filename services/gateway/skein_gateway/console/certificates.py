"""The certificates page: what each certificate of an erasure states, its file, and the keys that verify it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from skein.auth.v1 import auth_pb2, certificates_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import HEADERS, http_status, page, page_links
from skein_gateway.console.problems import or_page_error
from skein_gateway.oauth.forms import Parameters
from skein_kit.erasure_certificates import key_set

_PAGE = 25
_KEYS_FILE = "certificate-keys.json"
_KINDS: Mapping[str, str] = {
    "forget": "A person was forgotten",
    "purge_memories": "Memories were purged",
    "purge_subject": "Sessions of a person were purged",
    "tenant_deletion": "The tenant was deleted",
}


async def list_certificates(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List certificates, newest first."""
    response = await or_page_error(
        context.api.auth.ListErasureCertificates(
            certificates_pb2.ListErasureCertificatesRequest(page_size=_PAGE, page_token=parameters.get("page"))
        )
    )
    return page(
        "certificates",
        request,
        context,
        status=http_status(response),
        at="certificates",
        title="Certificates of erasures",
        response=response,
        kinds=_KINDS,
        keys_file=_KEYS_FILE,
        **page_links(context, "certificates", response, parameters),
    )


async def download(_request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Return the file of a certificate, byte for byte as `skein certificates get` writes it."""
    rpc_request = certificates_pb2.GetErasureCertificateRequest(certificate_id=parameters.get("id"))
    certificate = (await context.api.auth.GetErasureCertificate(rpc_request)).certificate
    return _file(f"{certificate.certificate_id}.json", certificate.document)


async def download_keys(_request: Request, context: PageContext, _parameters: Parameters) -> Response:
    """Return the published keys, as `skein certificates keys` writes them."""
    request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
    published = (await context.api.auth.ListSigningKeys(request)).signing_keys
    return _file(_KEYS_FILE, key_set.write(key.jwk for key in published))


def _file(name: str, text: str) -> Response:
    """Return a file that browsers save; its name has no character to escape."""
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{name}"'}
    return Response(text.encode(), media_type="application/json", headers=headers)
