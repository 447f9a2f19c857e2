"""Moving in: which realms of a source go into which tenants, and what is done there."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from skein_cluster.calling import as_operator, as_tenant, calling
from skein_cluster.directory import ensure_organization, ensure_tenant
from skein_cluster.exits import Exit, Failure
from skein_cluster.transfer.comparing import Comparison, compare
from skein_cluster.transfer.importing import Importer, check
from skein_cluster.transfer.people import Newcomers, counted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from skein_cluster.calling import Api
    from skein_cluster.transfer.report import Report
    from skein_cluster.transfer.sources.base import Realm, Source

# Calls side by side: more only wait for each other.
_AT_ONCE = 4
_SHOWN = 50


def chosen(source: Source, key: str, *, every: bool) -> list[Realm]:
    """Return the realms to bring. Raises Failure, with their names, when it has to be said which."""
    realms = source.tenants()
    if every:
        return realms
    if key:
        found = [realm for realm in realms if realm.key == key]
        if found:
            return found
        message = f"The source has no realm {key!r}. It has {_listed(realms)}."
        raise Failure(message, Exit.REFUSED)
    if len(realms) > 1:
        message = (
            f"The source has {len(realms)} realms, which belong into tenants of their own: name one with --realm for "
            f"the tenant of your key, or bring all as the operator with --all. It has {_listed(realms)}."
        )
        raise Failure(message, Exit.REFUSED)
    return realms


def try_out(
    source: Source, realms: Sequence[Realm], report: Report, done: Callable[[int], None], *, every: bool
) -> None:
    """Read everything and write nothing."""
    for realm in realms:
        check(source.records(realm, report.notes), report, done)
    if every:
        for one in source.people(report.notes):
            counted(one, report)
            done(1)


async def bring_one(
    environment: Mapping[str, str], source: Source, realms: Sequence[Realm], report: Report, done: Callable[[int], None]
) -> None:
    """Bring realms into the caller's tenant."""
    async with as_tenant(environment) as api:
        for realm in realms:
            await Importer(api, report, done, at_once=_AT_ONCE).run(source.records(realm, report.notes))


async def bring_all(
    environment: Mapping[str, str], source: Source, realms: Sequence[Realm], report: Report, done: Callable[[int], None]
) -> dict[str, str]:
    """Bring each realm into a tenant of its own, made unless its slug is there, and then those who sign in.

    Return the tenants' ids by the realms' keys.
    """
    tenants: dict[str, str] = {}
    async with as_operator(environment) as operator:
        async for realm, tenant_id, api in _tenants(operator, realms):
            tenants[realm.key] = tenant_id
            importer = Importer(api, report, done, at_once=_AT_ONCE, operator=operator)
            await importer.run(source.records(realm, report.notes))
        await Newcomers(operator, tenants, report).bring(source.people(report.notes))
    return tenants


async def compare_one(
    environment: Mapping[str, str],
    source: Source,
    realms: Sequence[Realm],
    report: Report,
    done: Callable[[int], None],
) -> Comparison:
    """Hold realms against the caller's tenant."""
    comparison = Comparison()
    async with as_tenant(environment) as api:
        for realm in realms:
            await compare(api, source.records(realm, report.notes), comparison, done)
    return comparison


async def compare_all(
    environment: Mapping[str, str],
    source: Source,
    realms: Sequence[Realm],
    report: Report,
    done: Callable[[int], None],
) -> Comparison:
    """Hold each realm against its tenant."""
    comparison = Comparison()
    async with as_operator(environment) as operator:
        async for realm, _, api in _tenants(operator, realms):
            await compare(api, source.records(realm, report.notes), comparison, done)
    return comparison


async def _tenants(operator: Api, realms: Sequence[Realm]) -> AsyncIterator[tuple[Realm, str, Api]]:
    """Yield each realm with its tenant, and an Api that acts in it."""
    organization_id = await ensure_organization(operator, "Default", "default")
    for realm in realms:
        tenant_id = await ensure_tenant(operator, organization_id, realm.name[:255] or realm.slug, realm.slug)
        async with AsyncExitStack() as stack:
            connection = replace(operator.connection, tenant_id=tenant_id)
            yield realm, tenant_id, await stack.enter_async_context(calling(connection))


def _listed(realms: Sequence[Realm]) -> str:
    shown = ", ".join(
        realm.key if realm.key == realm.name else f"{realm.key} ({realm.name})" for realm in realms[:_SHOWN]
    )
    return f"{shown}, …" if len(realms) > _SHOWN else shown or "none"
