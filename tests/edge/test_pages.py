"""The pages in a real browser: Debian's Chromium, driven by playwright-core."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fix_cluster import Cluster, Tenant
from fix_node import run, tool, version_of
from fix_web import PASSWORD, Pkce, Web, authorize_url, new_person

from skein.tenancy.v1 import tenancy_pb2

SCRIPT = Path(__file__).with_name("pages.mjs")
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"


async def test_people_find_their_way_through_the_pages(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, tmp_path: Path
) -> None:
    person = await new_person(cluster, tenant, other_tenant)
    names = [
        (await one.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=str(one.tenant_id)))).tenant.display_name
        for one in (tenant, other_tenant)
    ]
    async with Web.of(cluster.addresses["http"]) as web:
        client = await web.register(client_name="A client of the tests")
        device = await web.register(
            client_name="Kitchen speaker", grant_types=[DEVICE_CODE], redirect_uris=[], response_types=[]
        )

        async def answer(question: dict[str, Any]) -> str:
            if "authorize" in question:
                redirect = f"http://127.0.0.1:{question['authorize']}/callback"
                url = authorize_url(client["client_id"], Pkce(), redirect_uri=redirect)
                return web.origin + url
            form = {"client_id": device["client_id"], "scope": "memory.read session.write"}
            started = (await web.post("/device_authorization", form)).json()
            return json.dumps({"url": started["verification_uri_complete"], "code": started["user_code"]})

        report = await run(
            SCRIPT,
            {
                "CHROMIUM": tool("chromium"),
                "ORIGIN": web.origin,
                "EMAIL": person.email,
                "PASSWORD": PASSWORD,
                "TENANT": names[0],
                "OTHER_TENANT": names[1],
                "FOLDER": str(tmp_path),
            },
            answer,
        )

    assert version_of("playwright-core")
    text = report["told"]
    assert {text["allowed"]["state"], text["small"]["state"]} == {"the state"}
    assert text["allowed"]["code"] != text["small"]["code"]
    assert (text["denied"]["error"], text["denied"]["iss"]) == ("access_denied", web.origin)
    assert len(text["prefilled"]) == len("BCDF-GHJK")
    assert (text["framed"], text["forged"]) == (False, 400)
    assert "wrong" in text["problem"]
    assert (report["console"], report["wide"], report["faint"], report["unnamed"], report["scripts"]) == (
        [],
        [],
        [],
        [],
        0,
    )
    assert len(list(tmp_path.glob("*.png"))) == 11
