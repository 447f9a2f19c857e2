"""Bearer credentials at /introspect: those that auth alone can judge are charged to their source when they fail."""

from __future__ import annotations

from uuid import uuid4

import pytest
from fix_cluster import Cluster, Tenant
from fix_gateway import gateway_before
from fix_web import Web

from skein_auth.api_keys.model import ApiKeyToken

# Failures of one source at once: those of ten seconds.
BURST = 10


def bearer(credential: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}"}


@pytest.mark.system
async def test_failed_bearers_of_a_source_are_refused_at_the_gateway_and_proven_ones_pass(
    cluster: Cluster, tenant: Tenant
) -> None:
    async with (
        gateway_before(cluster, tenant, {}, SKEIN_ADVANCED_UNPROVEN_CREDENTIALS_PER_SECOND="1") as gateway,
        Web.of(gateway.host.addresses["http"]) as web,
    ):
        answers = [
            await web.post("/introspect", {"token": "x"}, **bearer(ApiKeyToken.new(uuid4(), uuid4()).encode()))
            for _ in range(3 * BURST)
        ]
        good = await web.post("/introspect", {"token": "x"}, **bearer(tenant.api_key))

    statuses = [answer.status_code for answer in answers]
    # A slow machine has time for further tokens of the bucket.
    assert statuses[:BURST] == [401] * BURST
    assert 429 in statuses
    assert "retry-after" in answers[statuses.index(429)].headers
    assert (good.status_code, good.json()) == (200, {"active": False})


async def test_bearers_that_end_well_cost_their_source_nothing(cluster: Cluster, tenant: Tenant) -> None:
    async with (
        gateway_before(cluster, tenant, {}, SKEIN_ADVANCED_UNPROVEN_CREDENTIALS_PER_SECOND="1") as gateway,
        Web.of(gateway.host.addresses["http"]) as web,
    ):
        statuses = {
            (await web.post("/introspect", {"token": "x"}, **bearer(tenant.api_key))).status_code
            for _ in range(3 * BURST)
        }

    assert statuses == {200}
