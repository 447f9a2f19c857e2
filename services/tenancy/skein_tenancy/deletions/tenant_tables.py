"""The tables that hold rows of a tenant, children before parents, and the query that purges each.

The tenant's own row is purged when its deletion finishes; the report of the deletion stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_tenancy.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_kit.database.named_queries import Query

TENANT_TABLES: Mapping[str, Query] = {
    "tenancy.memberships": QUERIES["purge_memberships"],
    "tenancy.invitations": QUERIES["purge_invitations"],
    "tenancy.subject_properties": QUERIES["purge_subject_properties"],
    "tenancy.subjects": QUERIES["purge_subjects"],
    "tenancy.agent_tools": QUERIES["purge_agent_tools"],
    "tenancy.agents": QUERIES["purge_agents"],
    "tenancy.tools": QUERIES["purge_tools"],
    "tenancy.policies": QUERIES["purge_policies"],
    "tenancy.limits": QUERIES["purge_limits"],
    "tenancy.usage": QUERIES["purge_usage"],
    "tenancy.collected_usage": QUERIES["purge_collected_usage"],
    "tenancy.allowances": QUERIES["purge_rate_limits"],
    "tenancy.requests": QUERIES["purge_requests"],
}
