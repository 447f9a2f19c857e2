"""The tables with rows of a tenant, and their purge queries, children before parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_kit.database.named_queries import Query

_QUERIES = Queries.of("skein_session")

TENANT_TABLES: Mapping[str, Query] = {
    "session.message_external_ids": _QUERIES["purge_tenant_message_external_ids"],
    "session.message_order": _QUERIES["purge_tenant_message_order"],
    "session.messages": _QUERIES["purge_tenant_messages"],
    "session.session_properties": _QUERIES["purge_tenant_session_properties"],
    "session.items": _QUERIES["purge_tenant_items"],
    "session.agent_states": _QUERIES["purge_tenant_agent_states"],
    "session.tombstones": _QUERIES["purge_tenant_tombstones"],
    "session.tombstone_salts": _QUERIES["purge_tenant_tombstone_salts"],
    "session.stored_messages": _QUERIES["purge_tenant_archived_messages"],
    "session.stored_sessions": _QUERIES["purge_tenant_archived_sessions"],
    "session.leaving_files": _QUERIES["purge_tenant_pending_files"],
    "session.sessions": _QUERIES["purge_tenant_sessions"],
    "session.usage": _QUERIES["purge_tenant_usage"],
    "session.requests": _QUERIES["purge_tenant_requests"],
}
