"""Every table in which the tenancy service keeps something of a tenant, children before parents.

Not among them: the tenant's own row, which goes when its deletion is finished, and the report of its deletion, which
stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_kit.database.named_queries import Query

_QUERIES = Queries.of("skein_tenancy")

TENANT_TABLES: Mapping[str, Query] = {
    "tenancy.memberships": _QUERIES["purge_memberships"],
    "tenancy.invitations": _QUERIES["purge_invitations"],
    "tenancy.subject_properties": _QUERIES["purge_subject_properties"],
    "tenancy.subjects": _QUERIES["purge_subjects"],
    "tenancy.agent_tools": _QUERIES["purge_agent_tools"],
    "tenancy.agents": _QUERIES["purge_agents"],
    "tenancy.tools": _QUERIES["purge_tools"],
    "tenancy.policies": _QUERIES["purge_policies"],
    "tenancy.limits": _QUERIES["purge_limits"],
    "tenancy.usage": _QUERIES["purge_usage"],
    "tenancy.collected_usage": _QUERIES["purge_collected_usage"],
    "tenancy.allowances": _QUERIES["purge_allowances"],
    "tenancy.requests": _QUERIES["purge_requests"],
}
