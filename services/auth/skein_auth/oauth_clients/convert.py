"""Conversion of OAuth clients to protobuf messages; a secret leaves once, in the answer to its registration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import oauth_pb2 as pb
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    from skein_auth.oauth_clients.model import Client
    from skein_kit.identity.bearer_token import BearerToken


def client(found: Client) -> pb.Client:
    return pb.Client(
        client_id=found.client_id,
        client_name=found.client_name,
        redirect_uris=found.redirect_uris,
        grant_types=found.grant_types,
        response_types=found.response_types,
        token_endpoint_auth_method=found.token_endpoint_auth_method,
        scope=found.scope,
        client_uri=found.client_uri,
        logo_uri=found.logo_uri,
        tos_uri=found.tos_uri,
        policy_uri=found.policy_uri,
        contacts=found.contacts,
        software_id=found.software_id,
        software_version=found.software_version,
        create_time=well_known_types.to_timestamp(found.create_time),
        secret_expire_time=well_known_types.to_timestamp(found.secret_expire_time),
    )


def registered(found: Client, secret: BearerToken | None, manages: BearerToken) -> pb.RegisterClientResponse:
    return pb.RegisterClientResponse(
        client=client(found),
        client_secret="" if secret is None else secret.text(),
        registration_access_token=manages.text(),
    )
