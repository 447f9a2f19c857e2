"""Conversion of OAuth clients to protobuf messages; a secret appears once, in the response to the registration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import oauth_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_auth.oauth_clients.model import Client
    from skein_kit.identity.bearer_token import BearerToken


def client(value: Client) -> pb.Client:
    return pb.Client(
        client_id=value.client_id,
        client_name=value.client_name,
        redirect_uris=value.redirect_uris,
        grant_types=value.grant_types,
        response_types=value.response_types,
        token_endpoint_auth_method=value.token_endpoint_auth_method,
        scope=value.scope,
        client_uri=value.client_uri,
        logo_uri=value.logo_uri,
        tos_uri=value.tos_uri,
        policy_uri=value.policy_uri,
        contacts=value.contacts,
        software_id=value.software_id,
        software_version=value.software_version,
        create_time=to_timestamp(value.create_time),
        secret_expire_time=to_timestamp(value.secret_expire_time),
    )


def registered(value: Client, secret: BearerToken | None, registration_token: BearerToken) -> pb.RegisterClientResponse:
    return pb.RegisterClientResponse(
        client=client(value),
        client_secret="" if secret is None else secret.encode(),
        registration_access_token=registration_token.encode(),
    )
