"""Imports and comparisons of a source's realms with their tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_importers.accounts import AccountImporter, count_read
from skein_importers.comparison import Comparison, compare, count_all_missing
from skein_importers.errors import ImportFailure
from skein_importers.importer import Importer, read_all
from skein_importers.tenants import all_tenants, find_tenants

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from skein_client.client import Client
    from skein_importers.report import Report
    from skein_importers.sources.base import Realm, Source

    # Opens a client that acts in the tenant with this id.
    OpenTenant = Callable[[str], AbstractAsyncContextManager[Client]]

# Concurrent calls: more do not help.
_MAX_CONCURRENT = 4
_SHOWN = 50


def choose_realms(source: Source, key: str, *, all_realms: bool) -> list[Realm]:
    """Return the realms to import. Raises ImportFailure with their names when one must be chosen."""
    realms = source.tenants()
    if all_realms:
        return realms
    if key:
        return [_find_realm(realms, key)]
    if len(realms) > 1:
        raise ImportFailure(
            f"The source has {len(realms)} realms, which belong into tenants of their own: name one with --realm for "
            f"the tenant of your key, or bring all as the operator with --all. It has {_names_of(realms)}."
        )
    return realms


def _find_realm(realms: Sequence[Realm], name: str) -> Realm:
    """Return the realm whose id or slug is `name`; an id goes first. Raises ImportFailure for none and for several."""
    matching = [realm for realm in realms if realm.key == name]
    matching = matching or [realm for realm in realms if name in {realm.slug, realm.source_slug}]
    if len(matching) == 1:
        return matching[0]
    if matching:
        message = (
            f"{len(matching)} realms of the source have the slug {name!r}; name one by its id: {_names_of(matching)}."
        )
    else:
        message = f"The source has no realm {name!r}. It has {_names_of(realms)}."
    raise ImportFailure(message)


def dry_run(
    source: Source, realms: Sequence[Realm], report: Report, on_done: Callable[[int], None], *, all_realms: bool
) -> None:
    """Count everything without writing."""
    for realm in realms:
        read_all(source.records(realm, report.notes), report, on_done)
    if all_realms:
        for account in source.accounts(report.notes):
            count_read(account, report)
            on_done(1)


async def import_into_tenant(
    api: Client, source: Source, realms: Sequence[Realm], report: Report, on_done: Callable[[int], None]
) -> None:
    """Import realms into the tenant of `api`."""
    for realm in realms:
        importer = Importer(api, report, on_done, max_concurrent=_MAX_CONCURRENT, origin=source.name)
        await importer.run(source.records(realm, report.notes))


async def import_all(
    operator: Client,
    open_tenant: OpenTenant,
    source: Source,
    realms: Sequence[Realm],
    report: Report,
    on_done: Callable[[int], None],
) -> dict[str, str]:
    """Import each realm into its own tenant, which is created if needed; then accounts, OAuth clients and memberships.

    Return the tenants' ids by the realms' keys.
    """
    tenants = await all_tenants(operator, source.name, realms)
    for realm in realms:
        async with open_tenant(tenants[realm.key]) as api:
            importer = Importer(
                api, report, on_done, max_concurrent=_MAX_CONCURRENT, operator=operator, origin=source.name
            )
            await importer.run(source.records(realm, report.notes))
    await AccountImporter(operator, tenants, report).run(source.accounts(report.notes))
    return dict(tenants)


async def compare_one(
    api: Client, source: Source, realms: Sequence[Realm], report: Report, on_done: Callable[[int], None]
) -> Comparison:
    """Compare realms with the tenant of `api`."""
    comparison = Comparison()
    for realm in realms:
        await compare(api, source.records(realm, report.notes), comparison, on_done)
    return comparison


async def compare_all(
    operator: Client,
    open_tenant: OpenTenant,
    source: Source,
    realms: Sequence[Realm],
    report: Report,
    on_done: Callable[[int], None],
) -> Comparison:
    """Compare each realm with its tenant. A realm without a tenant is missing as a whole."""
    comparison = Comparison()
    tenants = await find_tenants(operator, source.name, realms)
    for realm in realms:
        records = source.records(realm, report.notes)
        if realm.key in tenants:
            async with open_tenant(tenants[realm.key]) as api:
                await compare(api, records, comparison, on_done)
        else:
            comparison.without_tenant.append(realm.key)
            await count_all_missing(records, comparison, on_done)
    return comparison


def _names_of(realms: Sequence[Realm]) -> str:
    names = ", ".join(_describe(realm) for realm in realms[:_SHOWN])
    return f"{names}, …" if len(realms) > _SHOWN else names or "none"


def _describe(realm: Realm) -> str:
    slug = f"{realm.source_slug} or " if realm.source_slug not in {"", realm.key} else ""
    name = f" ({realm.name})" if realm.name != realm.key else ""
    return f"{slug}{realm.key}{name}"
