"""Connections of a service to the database: its role and its settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import asyncpg

from skein_kit.network.tcp_keepalive import enable_keepalive
from skein_kit.settings import SettingInvalid, read_variable

_SETTINGS = {
    # Tables have partitions, and tenants differ in size: a plan for the values of each call is worth its cost.
    "plan_cache_mode": "force_custom_plan",
    "search_path": "",
}
CONNECT_SECONDS = 5.0


def database_role(service: str) -> str:
    """Return the database role that a service acts as."""
    return f"skein_{service}"


def role_password(service: str, environment: Mapping[str, str]) -> str:
    """Return SKEIN_<SERVICE>_DATABASE_PASSWORD, the password of a service's role; "" when it is not set.

    Raises SettingInvalid.
    """
    return read_variable(environment, f"SKEIN_{service.upper()}_DATABASE_PASSWORD") or ""


def service_url(url: str, service: str, environment: Mapping[str, str]) -> str:
    """Return the URL by which a service connects: that of its own role and password if the environment has it.

    Otherwise it is `url`, whose user then acts as the role. Raises SettingInvalid.
    """
    password = role_password(service, environment)
    return login_url(url, database_role(service), password) if url and password else url


def login_url(url: str, user: str, password: str) -> str:
    """Return a URL with another user and password."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    options = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode([(name, value) for name, value in options if name not in {"user", "password"}], quote_via=quote)
    return urlunsplit(parts._replace(netloc=f"{login}@{hosts}", query=query))


def connect_arguments(url: str, role: str, *, pooled: bool = False) -> dict[str, Any]:
    """Return asyncpg's keywords for a URL; connections act as `role`, whatever the user of the URL.

    With `pooled` the URL leads to a PgBouncer, which supports two of the settings; transactions set the others. Raises
    SettingInvalid if its user is not `role`: a connection through PgBouncer cannot change its role.
    """
    settings = {"application_name": role, "timezone": "UTC"}
    is_other_user = urlsplit(url).username != role
    if pooled:
        if is_other_user:
            message = f"With SKEIN_DATABASE_POOLED, SKEIN_DATABASE_URL should name the user {role}."
            raise SettingInvalid(message)
        return {"dsn": url, "server_settings": settings}
    if is_other_user:
        settings["role"] = role
    return {"dsn": url, "server_settings": {**settings, **_SETTINGS}}


async def connect(*arguments: Any, **keywords: Any) -> asyncpg.Connection[asyncpg.Record]:
    """Connect as asyncpg does, with TCP keepalive: it detects a server that disappeared."""
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(*arguments, **keywords)
    transport: asyncio.BaseTransport = connection._transport  # type: ignore[attr-defined]  # noqa: SLF001 - the only way.
    enable_keepalive(transport.get_extra_info("socket"))
    return connection


def transaction_settings() -> str:
    """Return the settings of a connection for one transaction, each "; SET LOCAL name = 'value'"."""
    return "".join(f"; SET LOCAL {name} = '{value}'" for name, value in _SETTINGS.items())
