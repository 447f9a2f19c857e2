"""oauth4webapi, a client that others wrote and that takes nothing for granted, walks through all that there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_node import run, version_of
from fix_web import REDIRECT, Web, new_person

from skein.auth.v1 import accounts_pb2, auth_pb2

SCRIPT = Path(__file__).with_name("oauth4webapi.mjs")


@pytest.mark.essential
async def test_oauth4webapi_finds_nothing_wrong(cluster: Cluster, tenant: Tenant) -> None:
    person = await new_person(cluster, tenant)
    made = await tenant.auth.CreateServiceAccount(
        accounts_pb2.CreateServiceAccountRequest(
            service_account=accounts_pb2.ServiceAccount(display_name="nightly", permissions=["memory.read"])
        )
    )
    account_id = made.service_account.service_account_id
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", service_account_id=account_id))

    async with Web.of(cluster.addresses["http"]) as web:

        async def answer(question: dict[str, Any]) -> str:
            chosen = {"decision": "allow", "tenant_id": str(tenant.tenant_id)}
            if "authorize" in question:
                page = await web.consent(question["authorize"], person)
                return str((await web.submit(page, "answer", **chosen)).headers["location"])
            page = await web.submit(await web.get(question["device"]), "find", user_code=question["code"])
            await web.submit(page, "answer", **chosen)
            return "done"

        report = await run(
            SCRIPT,
            {"ISSUER": web.origin, "REDIRECT": REDIRECT, "SERVICE_ACCOUNT": account_id, "SERVICE_KEY": key.secret},
            answer,
        )

    assert version_of("oauth4webapi")
    assert {
        "discovery (oauth2)",
        "discovery (oidc)",
        "resource metadata",
        "registration (none)",
        "code with PKCE and ID token (none)",
        "code with PKCE and ID token (client_secret_basic)",
        "code with PKCE and ID token (client_secret_post)",
        "RFC 9068 access token",
        "userinfo",
        "refresh",
        "introspection",
        "revocation",
        "challenge (invalid_token)",
        "device",
        "client credentials",
    } <= set(report["done"])
