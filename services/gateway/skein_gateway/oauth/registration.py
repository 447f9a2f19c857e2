"""Dynamic client registration (RFC 7591) and its management (RFC 7592)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skein.auth.v1 import oauth_pb2, oauth_pb2_grpc
from skein_gateway.oauth.forms import FormInvalid, bearer_of
from skein_gateway.oauth.metadata import ServerMetadata
from skein_gateway.oauth.request_handler import NO_STORE, OAuthError, RequestHandler, json_error_response, read_body
from skein_kit.calls.call import Call

TEXTS = (
    "client_name",
    "token_endpoint_auth_method",
    "scope",
    "client_uri",
    "logo_uri",
    "tos_uri",
    "policy_uri",
    "software_id",
    "software_version",
    "jwks_uri",
)
LISTS = ("redirect_uris", "grant_types", "response_types", "contacts")


class Registration:
    """The handlers of /register and /register/<client_id>."""

    def __init__(
        self, request_handler: RequestHandler, metadata: ServerMetadata, oauth: oauth_pb2_grpc.OAuthServiceAsyncStub
    ) -> None:
        """Call auth for clients."""
        self._request_handler = request_handler
        self._metadata = metadata
        self._oauth = oauth

    async def register(self, request: Request) -> Response:
        """Register a client."""

        async def work(_call: Call) -> Response:
            created = await self._oauth.RegisterClient(
                oauth_pb2.RegisterClientRequest(
                    client=client_of(await _read_json(request)), initial_access_token=bearer_of(request.headers)
                )
            )
            body = await self._information(created.client, created.registration_access_token)
            if created.client_secret:
                body |= {
                    "client_secret": created.client_secret,
                    "client_secret_expires_at": _secret_end(created.client),
                }
            return JSONResponse(body, status_code=201, headers=NO_STORE)

        return await self._handle(request, work)

    async def manage(self, request: Request) -> Response:
        """Read, replace or delete a client."""
        client_id, token = str(request.path_params["client_id"]), bearer_of(request.headers)

        async def read(_call: Call) -> Response:
            document = await self._oauth.GetClient(
                oauth_pb2.GetClientRequest(client_id=client_id, registration_access_token=token)
            )
            return JSONResponse(await self._information(document.client, token), headers=NO_STORE)

        async def replace(_call: Call) -> Response:
            document = await _read_json(request)
            if document.get("client_id") != client_id:
                raise FormInvalid("The client_id in the document must be the one in the URL.")
            response = await self._oauth.UpdateClient(
                oauth_pb2.UpdateClientRequest(client=client_of(document, client_id), registration_access_token=token)
            )
            return JSONResponse(await self._information(response.client, token), headers=NO_STORE)

        async def remove(_call: Call) -> Response:
            await self._oauth.DeleteClient(
                oauth_pb2.DeleteClientRequest(client_id=client_id, registration_access_token=token)
            )
            return Response(status_code=204, headers=NO_STORE)

        return await self._handle(request, {"PUT": replace, "DELETE": remove}.get(request.method, read))

    async def _handle(self, request: Request, work: Callable[[Call], Awaitable[Response]]) -> Response:
        issuer = await self._metadata.issuer_if_known()
        return await self._request_handler.handle(
            request, work, lambda problem: json_error_response(_with_registration_error(problem), issuer)
        )

    async def _information(self, client: oauth_pb2.Client, token: str) -> dict[str, Any]:
        issuer = await self._metadata.issuer()
        document: dict[str, Any] = {"client_id": client.client_id, "client_id_issued_at": client.create_time.seconds}
        document |= {name: getattr(client, name) for name in TEXTS if getattr(client, name)}
        document |= {name: list(getattr(client, name)) for name in LISTS if getattr(client, name)}
        if client.jwks:
            document["jwks"] = json.loads(client.jwks)
        document["registration_client_uri"] = f"{issuer}/register/{client.client_id}"
        document["registration_access_token"] = token
        return document


def client_of(document: dict[str, Any], client_id: str = "") -> oauth_pb2.Client:
    """Return the client of a document; unknown fields are ignored. Raises FormInvalid."""
    client = oauth_pb2.Client(client_id=client_id)
    for name in TEXTS:
        value = document.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise FormInvalid(f"{name} must be a text.")
        setattr(client, name, value)
    for name in LISTS:
        values = document.get(name)
        if values is None:
            continue
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise FormInvalid(f"{name} must be a list of texts.")
        getattr(client, name).extend(values)
    if (keys := document.get("jwks")) is not None:
        if not isinstance(keys, dict):
            raise FormInvalid("jwks must be a JWK Set.")
        client.jwks = json.dumps(keys)
    return client


async def _read_json(request: Request) -> dict[str, Any]:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise FormInvalid("Send application/json.")
    try:
        document = json.loads(await read_body(request), object_pairs_hook=_reject_duplicates)
        # Lone surrogates are valid JSON, but not valid text.
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise FormInvalid("The body is not JSON, or names a field twice.") from None
    if not isinstance(document, dict):
        raise FormInvalid("The body is not a JSON object.")
    return document


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError
    return document


def _with_registration_error(problem: OAuthError) -> OAuthError:
    """Replace "invalid_request" by RFC 7591's "invalid_client_metadata"."""
    if problem.error != "invalid_request":
        return problem
    return OAuthError(
        status=400,
        error="invalid_client_metadata",
        description=problem.description,
        reason=problem.reason,
        headers=problem.headers,
    )


def _secret_end(client: oauth_pb2.Client) -> int:
    return client.secret_expire_time.seconds if client.HasField("secret_expire_time") else 0
