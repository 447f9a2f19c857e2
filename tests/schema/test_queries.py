"""Every named query of every service, for ever: it prepares as the service's role, names the tenant, and is used."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest
from fix_database import TestDatabase

from skein_cluster import registry
from skein_kit.database.named_queries import Queries, Query

# Statements about things that belong to no tenant.
GLOBAL = re.compile(
    r"skein\.migrations|tenancy\.(organizations|organization_limits)|recall\.embedding_models|memory\.master_keys|"
    r"auth\.(operator_keys|check_keys|signing_keys|accounts|attempts|clients|device_codes|identities|legacy_tokens|one_time_tokens|"
    r"recovery_codes)|"
    r"SELECT pg_snapshot_xmin|pg_current_wal_flush_lsn\(|ensure_month\(|memory\.drop_access_log\(|"
    r"memory\.refresh_statistics\(|pg_stat_all_tables|pg_current_wal_insert_lsn\(\)::text$|"
    r"recall\.((register|set_active|leave|drop)_model|register_endpoint)\(|recall\.reindexes|"
    r"to_tsvector\(.*AS term$|worker\.|pg_stat_archiver|pg_total_relation_size\(",
    re.DOTALL,
)
# Tenants are listed over all tenants by the operator and the worker alone; the sessions of one account lie in several.
DIRECTORY = {"list_tenants", "revoke_auth_sessions_of_account"}
# What is put in the places that statements leave open.
EXAMPLES = {
    "{table}": "embeddings_all_minilm_l6_v2",
    "{condition}": "true",
    "{column}": "entries.session_id",
    "{value}": "requested.value",
}


def every_query() -> list[tuple[str, Query]]:
    services = registry.WITH_DATABASE
    return [
        (service, query)
        for service in services
        for query in (Queries.of(f"skein_{service}").by_name.values() if _has_sql(service) else ())
    ]


def _filled(text: str) -> str:
    """Put one of what a statement may say in the places that it leaves open; conditions have tests of their own."""
    for mark, example in EXAMPLES.items():
        text = text.replace(mark, example)
    return text


def _has_sql(service: str) -> bool:
    return bool(Queries.of(f"skein_{service}").by_name)


def _named(value: tuple[str, Query]) -> str:
    return f"{value[0]}.{value[1].name}"


@pytest.mark.parametrize("named", every_query(), ids=_named)
async def test_it_prepares_as_the_role_of_its_service(untouched: TestDatabase, named: tuple[str, Query]) -> None:
    service, query = named
    async with untouched.role(service) as connection:
        await connection.prepare(_filled(query.text))


@pytest.mark.parametrize("named", every_query(), ids=_named)
def test_it_names_the_tenant(named: tuple[str, Query]) -> None:
    _, query = named

    assert "tenant_id" in query.text or GLOBAL.search(query.text) or query.name in DIRECTORY


@pytest.mark.parametrize("named", every_query(), ids=_named)
def test_it_is_explained_and_used(named: tuple[str, Query]) -> None:
    service, query = named
    package = Path(str(resources.files(f"skein_{service}")))
    code = "\n".join(file.read_text("utf-8") for file in package.rglob("*.py"))

    assert query.promise
    assert f'"{query.name}"' in code
