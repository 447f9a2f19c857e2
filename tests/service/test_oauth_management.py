from __future__ import annotations

import grpc
from fix_accounts import Account
from fix_cluster import Tenant, refused
from fix_oauth import App
from grpc import aio

from skein.auth.v1 import oauth_pb2, oauth_pb2_grpc

INVALID = grpc.StatusCode.INVALID_ARGUMENT
DENIED = grpc.StatusCode.PERMISSION_DENIED
NOT_FOUND = grpc.StatusCode.NOT_FOUND
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
EARLY = grpc.StatusCode.FAILED_PRECONDITION


async def test_a_client_reads_changes_and_removes_itself(app: App, account: Account, tenant: Tenant) -> None:
    tokens = await app.tokens(account, tenant)
    own = {"client_id": app.client.client_id, "registration_access_token": app.registration}

    read = await app.oauth.GetClient(oauth_pb2.GetClientRequest(**own))
    changed = oauth_pb2.Client()
    changed.CopyFrom(read.client)
    changed.client_name = "Another name"
    updated = await app.oauth.UpdateClient(
        oauth_pb2.UpdateClientRequest(client=changed, registration_access_token=app.registration)
    )
    still = await app.refresh(tokens.refresh_token)
    await app.oauth.DeleteClient(oauth_pb2.DeleteClientRequest(**own))

    assert read.client == app.client
    assert updated.client.client_name == "Another name"
    with refused(UNAUTHENTICATED, "OAUTH_INVALID_TOKEN"):
        await app.oauth.GetClient(oauth_pb2.GetClientRequest(**own))
    with refused(UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
        await app.refresh(still.refresh_token)


async def test_a_client_cannot_be_managed_by_another(direct: aio.Channel, app: App) -> None:
    other = await App.registered(direct)

    for token in (other.registration, app.secret, ""):
        with refused(UNAUTHENTICATED, "OAUTH_INVALID_TOKEN"):
            await oauth_pb2_grpc.OAuthServiceStub(direct).GetClient(
                oauth_pb2.GetClientRequest(client_id=app.client.client_id, registration_access_token=token)
            )
        with refused(UNAUTHENTICATED, "OAUTH_INVALID_TOKEN"):
            await oauth_pb2_grpc.OAuthServiceStub(direct).DeleteClient(
                oauth_pb2.DeleteClientRequest(client_id=app.client.client_id, registration_access_token=token)
            )
