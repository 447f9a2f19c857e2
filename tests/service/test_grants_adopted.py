"""What an application's grant made, as people see it: on the page that asks for consent, and in the console."""

from __future__ import annotations

import pytest
from fix_accounts import member
from fix_cluster import Cluster, Tenant
from fix_console import BrowserSession
from fix_oauth import App
from fix_web import PASSWORD, Pkce, Web, authorize_url, new_person

from skein.auth.v1 import auth_pb2
from skein.tenancy.v1 import members_pb2


async def test_the_consent_page_says_that_what_an_application_makes_ends_with_it(
    cluster: Cluster, tenant: Tenant
) -> None:
    person = await new_person(cluster, tenant)
    async with Web.of(cluster.addresses["http"]) as web:
        client_id = (await web.register())["client_id"]
        managing = await web.consent(authorize_url(client_id, Pkce(), scope="memory.read keys.write"), person)
        reading = await web.consent(authorize_url(client_id, Pkce(), scope="memory.read"), person)

    sentence = "that it creates end with its access, unless an admin adopts them"
    assert (sentence in managing.text, sentence in reading.text) == (True, False)


@pytest.mark.system
async def test_a_person_adopts_a_key_by_a_form_and_a_caller_with_a_key_is_not_offered_it(
    cluster: Cluster, tenant: Tenant, app: App
) -> None:
    account = await member(cluster, tenant, "admin")
    tokens = await app.tokens(account, tenant, "keys.write memory.read")
    made = await cluster.with_key(tokens.access_token).auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="of the app")
    )
    owner = await new_person(cluster, tenant, role=members_pb2.ROLE_OWNER)
    async with (
        BrowserSession.of(cluster.addresses["http"]) as keyed,
        BrowserSession.of(cluster.addresses["http"]) as web,
    ):
        await keyed.show_key(tenant.api_key)
        await web.sign_in(owner.email, PASSWORD)
        offered = (await keyed.page("keys")).text, (await web.page("keys")).text

        answer = await web.submit(await web.page("keys"), "adopt", api_key_id=made.api_key.api_key_id)
        page = await web.client.get(answer.headers["location"])

    assert ["revoked with its access" in text for text in offered] == [True, True]
    assert ['value="adopt"' in text for text in offered] == [False, True]
    assert "The key is adopted." in page.text
    listed = (await tenant.auth.ListApiKeys(auth_pb2.ListApiKeysRequest())).api_keys
    assert [list(key.grant_ids) for key in listed if key.display_name == "of the app"] == [[]]
