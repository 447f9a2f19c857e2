"""Every named query of every service, for ever: it prepares as the service's role, names the tenant, and is used."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import cache
from importlib import resources
from pathlib import Path

import asyncpg
import pytest
from fix_catalogue import over
from fix_database import TestDatabase

from skein_cluster import registry
from skein_kit.database.named_queries import Queries, Query

# Statements about things that belong to no tenant.
GLOBAL = re.compile(
    r"skein\.migrations|tenancy\.(organizations|organization_quotas)|recall\.(embedding_models|model_activations)|memory\.master_keys|"
    r"auth\.(operator_keys|check_keys|signing_keys|accounts|attempts|clients|device_codes|identities|legacy_tokens|one_time_tokens|"
    r"recovery_codes)|"
    r"SELECT pg_snapshot_xmin|pg_current_xact_id\(|pg_current_wal_flush_lsn\(|ensure_month\(|memory\.drop_access_log\(|"
    r"recall\.drop_receipts\(|"
    r"memory\.refresh_statistics\(|pg_stat_all_tables|pg_current_wal_insert_lsn\(\)::text$|"
    r"SELECT pg_postmaster_start_time\(\)$|"
    r"recall\.((register|delete)_model|distribute_vectors|register_endpoint)\(|recall\.reindexes|"
    r"to_tsvector\(.*AS term$|worker\.|pg_stat_archiver|pg_total_relation_size\(",
    re.DOTALL,
)
# Tenants are listed over all tenants by the operator and the worker alone; the sessions of one account lie in several.
DIRECTORY = {"list_tenants", "revoke_auth_sessions_of_account"}
# What is put in the places that statements leave open.
EXAMPLES = {
    "{table}": "embeddings_all_minilm_l6_v2",
    "{condition}": "true",
    "{column}": "memories.session_id",
    "{value}": "requested.value",
}


# Every query with the service that it is of.
EVERY: list[tuple[str, Query]] = [
    (service, query)
    for service in registry.WITH_DATABASE
    for query in Queries.load(f"skein_{service}").by_name.values()
]


@cache
def _code(service: str) -> str:
    package = Path(str(resources.files(f"skein_{service}")))
    return "\n".join(file.read_text("utf-8") for file in package.rglob("*.py"))


def _filled(text: str) -> str:
    """Put one of what a statement may say in the places that it leaves open; conditions have tests of their own."""
    for mark, example in EXAMPLES.items():
        text = text.replace(mark, example)
    return text


def _name(value: tuple[str, Query]) -> str:
    return f"{value[0]}.{value[1].name}"


@pytest.fixture
async def roles(untouched: TestDatabase) -> AsyncIterator[dict[str, asyncpg.Connection[asyncpg.Record]]]:
    """A connection as each service has it."""
    async with AsyncExitStack() as stack:
        yield {service: await stack.enter_async_context(untouched.role(service)) for service in registry.WITH_DATABASE}


@over("named", EVERY, name=_name)
async def test_each_prepares_as_the_role_of_its_service(
    roles: dict[str, asyncpg.Connection[asyncpg.Record]], named: tuple[str, Query]
) -> None:
    service, query = named

    await roles[service].prepare(_filled(query.text))


@over("named", EVERY, name=_name)
def test_each_names_the_tenant(named: tuple[str, Query]) -> None:
    _, query = named

    assert "tenant_id" in query.text or GLOBAL.search(query.text) or query.name in DIRECTORY


# Of the resources of tenancy, whose stores name a query by its verb.
_VERBS = ("create", "get", "lock", "find_conflicting", "update", "delete", "undelete", "purge")
_RESOURCE_QUERIES = {f"{verb}_{noun}" for noun in ("agent", "subject", "tool") for verb in _VERBS} | {
    "clear_agent_responses",
    "clear_subject_responses",
}


@over("named", EVERY, name=_name)
def test_each_is_explained_and_used(named: tuple[str, Query]) -> None:
    service, query = named

    assert query.description
    assert f'"{query.name}"' in _code(service) or query.name in _RESOURCE_QUERIES
