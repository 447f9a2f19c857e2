from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_cluster.cli.exit_codes import ExitCode


@pytest.fixture
def database(cluster: Cluster) -> str:
    return cluster.postgres.url(user="postgres", database="skein")


@pytest.fixture
async def token_file(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Path]:
    """A file with a legacy token, which no tenant has any more when the test is over."""
    path = tmp_path / "legacy.token"
    path.write_text(f"{secrets.token_urlsafe(32)}\n", "utf-8")
    yield path
    calls = cluster.with_key(path.read_text("utf-8").strip())
    me = await calls.auth.GetMe(auth_pb2.GetMeRequest())
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": me.tenant_id})
    await acting.auth.SetLegacyToken(accounts_pb2.SetLegacyTokenRequest())


@pytest.mark.system
async def test_bootstrap_makes_the_tenant_of_those_who_share_a_token(
    cluster: Cluster, database: str, token_file: Path
) -> None:
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint}
    arguments = ("bootstrap", "--legacy-token-file", str(token_file), "--json")

    first = await skein(*arguments, environment=environment, SKEIN_DATABASE_URL=database)
    again = await skein(*arguments, environment=environment, SKEIN_OPERATOR_KEY=first.json["operator_key"])

    assert first.code == ExitCode.OK, first.err
    assert again.code == ExitCode.OK, again.err
    assert again.json == {"legacy_tenant_id": first.json["legacy_tenant_id"]}
    calls = cluster.with_key(token_file.read_text("utf-8").strip())
    me = await calls.auth.GetMe(auth_pb2.GetMeRequest())
    assert (me.principal, me.tenant_id) == ("legacy:bearer", first.json["legacy_tenant_id"])
    response = await calls.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=me.tenant_id))
    assert response.tenant.slug == "legacy-default-brain"
    assert token_file.read_text("utf-8").strip() not in first.out + first.err


async def test_bootstrap_says_what_is_wrong_with_a_token_file(database: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()

    for path in (tmp_path / "missing", empty):
        ended = await skein("bootstrap", "--legacy-token-file", str(path), SKEIN_DATABASE_URL=database)

        assert ended.code == ExitCode.CANNOT_START
        assert str(path) in ended.err


@pytest.mark.system
async def test_a_key_is_rotated_and_listed_with_its_last_use(cluster: Cluster, tenant: Tenant) -> None:
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}
    old = await skein("keys", "create", "robot", "--permission", "memory.read", "--json", environment=environment)

    rotated = await skein(
        "keys", "rotate", old.json["api_key_id"], "--overlap-hours", "2", "--json", environment=environment
    )
    listed = await skein("keys", "list", environment=environment)

    assert rotated.code == ExitCode.OK, rotated.err
    assert rotated.json["replaced"]["replaced_by"] == rotated.json["api_key_id"]
    me = await cluster.with_key(rotated.json["api_key"]).auth.GetMe(auth_pb2.GetMeRequest())
    assert list(me.permissions) == ["memory.read"]
    assert "last used" in listed.out
