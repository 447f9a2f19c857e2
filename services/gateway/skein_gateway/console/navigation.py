"""The navigation of a tenant's pages: one line for each entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from skein_kit.identity.permissions import ACCESS_RULES


class Entry(NamedTuple):
    """One entry of the navigation."""

    path: str
    title: str
    # The RPC that the page needs, below /skein; empty for none.
    rpc: str

    @property
    def permission(self) -> str:
        """Return the permission that the contract asks of callers of the RPC; empty for none."""
        return (ACCESS_RULES[f"/skein.{self.rpc}"].permission or "") if self.rpc else ""


# A page that is not listed here belongs to the entry that it passes to `page` as `at`.
GROUPS: Sequence[tuple[str, Sequence[Entry]]] = (
    (
        "Memory",
        (
            Entry("", "Overview", ""),
            Entry("start", "First steps", ""),
            Entry("search", "Search", "gateway.v1.GatewayService/Recall"),
            Entry("context", "Context", "gateway.v1.GatewayService/BuildContext"),
            Entry("ledgers", "Ledgers", "session.v1.SessionService/ListContextLedgers"),
            Entry("receipts", "Receipts", "recall.v1.RecallService/ListRecallReceipts"),
            Entry("memories", "Memories", "memory.v1.MemoryService/ListMemories"),
            Entry("pages", "Pages", "memory.v1.CurationService/ListPages"),
            Entry("graph", "Graph", "memory.v1.LinkService/GetSubgraph"),
            Entry("timeline", "Timeline", "memory.v1.CurationService/GetTemporalClusters"),
            Entry("blocks", "Blocks", "memory.v1.BlockService/ListBlocks"),
            Entry("sessions", "Sessions", "session.v1.SessionService/ListSessions"),
            Entry("conflicts", "Conflicts", "memory.v1.CurationService/ListConflicts"),
            Entry("approvals", "Approvals", "memory.v1.CurationService/ListPendingMemories"),
            Entry("refused-facts", "Refused facts", "memory.v1.CurationService/ListRefusedFacts"),
            Entry("changes", "Changes", "memory.v1.HistoryService/ListChanges"),
        ),
    ),
    (
        "Tenant",
        (
            Entry("webhooks", "Webhooks", "memory.v1.HistoryService/ListWebhooks"),
            Entry("spaces", "Spaces", "tenancy.v1.TenancyService/ListSpaces"),
            Entry("members", "Members", "tenancy.v1.TenancyService/ListMembers"),
            Entry("usage", "Usage", "tenancy.v1.TenancyService/GetUsage"),
            Entry("policy", "Policy", "tenancy.v1.TenancyService/GetPolicy"),
            Entry("jobs", "Jobs", "tenancy.v1.TenancyService/GetJobs"),
            Entry("keys", "API keys", "auth.v1.AuthService/ListApiKeys"),
            Entry("certificates", "Certificates", "auth.v1.AuthService/ListErasureCertificates"),
        ),
    ),
)


def entries_for(may: Callable[[str], bool]) -> list[tuple[str, list[Entry]]]:
    """Return the groups with the entries that a caller may open; `may` tells whether it has a permission."""
    groups = [
        (title, [entry for entry in entries if not entry.permission or may(entry.permission)])
        for title, entries in GROUPS
    ]
    return [(title, entries) for title, entries in groups if entries]
