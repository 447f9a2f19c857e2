"""How a service's connections to the database are made: as its own role, and set for what it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg

from skein_kit.network.tcp_keepalive import enable_keepalive
from skein_kit.settings import SettingInvalid

if TYPE_CHECKING:
    import asyncio

_OF_A_CONNECTION = {
    # Partitioned tables and tenants of all sizes: a plan made for the values at hand is worth its price.
    "plan_cache_mode": "force_custom_plan",
    "search_path": "",
}
CONNECT_SECONDS = 5.0


def database_role(service: str) -> str:
    """Return the database role that a service acts as."""
    return f"skein_{service}"


def connect_arguments(url: str, role: str, *, pooled: bool = False) -> dict[str, Any]:
    """Return asyncpg's keywords for a URL, acting as `role` whoever the URL's user is.

    With `pooled` the URL leads to a PgBouncer, which knows two of the settings; transactions set the others themselves.
    Raises SettingInvalid when it leads there as somebody else, since nobody can become another there.
    """
    settings = {"application_name": role, "timezone": "UTC"}
    is_another = urlsplit(url).username != role
    if pooled:
        if is_another:
            message = f"With SKEIN_DATABASE_POOLED, SKEIN_DATABASE_URL should name the user {role}."
            raise SettingInvalid(message)
        return {"dsn": url, "server_settings": settings}
    if is_another:
        settings["role"] = role
    return {"dsn": url, "server_settings": {**settings, **_OF_A_CONNECTION}}


async def connect(*arguments: Any, **keywords: Any) -> asyncpg.Connection[asyncpg.Record]:
    """Connect as asyncpg does, and notice when the server is gone without a word."""
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(*arguments, **keywords)
    transport: asyncio.BaseTransport = connection._transport  # type: ignore[attr-defined]  # noqa: SLF001 - the only way.
    enable_keepalive(transport.get_extra_info("socket"))
    return connection


def transaction_settings() -> str:
    """Set for one transaction what a connection of ours is set to for good."""
    return "".join(f"; SET LOCAL {name} = '{value}'" for name, value in _OF_A_CONNECTION.items())
