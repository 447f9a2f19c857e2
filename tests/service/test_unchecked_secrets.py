"""Secrets without check digits at the token endpoint, which any client may call."""

from __future__ import annotations

from uuid import uuid4

import grpc
import pytest
from fix_auth import run_auth_server
from fix_cluster import refused
from fix_database import TestDatabase

from skein.auth.v1 import oauth_pb2, oauth_pb2_grpc
from skein_auth.api_keys.model import ApiKeyToken

HERE = (("skein-client-address", "192.0.2.1"),)
ELSEWHERE = (("skein-client-address", "192.0.2.2"),)
WRONG = (grpc.StatusCode.UNAUTHENTICATED, "OAUTH_INVALID_CLIENT")


def presenting(secret: str) -> oauth_pb2.ExchangeTokenRequest:
    client = oauth_pb2.ClientAuthentication(client_id=str(uuid4()), client_secret=secret, method="client_secret_post")
    return oauth_pb2.ExchangeTokenRequest(
        client=client, client_credentials=oauth_pb2.ClientCredentialsGrant(scope="memory.read")
    )


@pytest.mark.system
async def test_invented_secrets_of_a_source_end_in_a_wait_there_alone(database: TestDatabase) -> None:
    async with run_auth_server(database, SKEIN_ADVANCED_ADDRESS_LIMIT_FACTOR="0.3") as auth:
        oauth = oauth_pb2_grpc.OAuthServiceStub(auth.channel)
        for _ in range(3):
            with refused(*WRONG):
                await oauth.ExchangeToken(presenting(ApiKeyToken.new(uuid4(), uuid4()).encode()), metadata=HERE)

        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
            await oauth.ExchangeToken(presenting(ApiKeyToken.new(uuid4(), uuid4()).encode()), metadata=HERE)
        with refused(*WRONG):
            await oauth.ExchangeToken(presenting(ApiKeyToken.new(uuid4(), uuid4()).encode()), metadata=ELSEWHERE)


async def test_a_secret_that_was_refused_a_moment_ago_costs_no_further_attempt(database: TestDatabase) -> None:
    secret = ApiKeyToken.new(uuid4(), uuid4()).encode()
    async with run_auth_server(database, SKEIN_ADVANCED_ADDRESS_LIMIT_FACTOR="0.2") as auth:
        oauth = oauth_pb2_grpc.OAuthServiceStub(auth.channel)
        for _ in range(5):
            with refused(*WRONG):
                await oauth.ExchangeToken(presenting(secret), metadata=HERE)
