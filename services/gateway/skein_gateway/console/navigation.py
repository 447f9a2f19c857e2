"""The navigation of a tenant's pages: one line for each entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Entry(NamedTuple):
    """One entry of the navigation."""

    path: str
    title: str
    # The permission that the page needs; empty for none.
    permission: str


# A page that is not listed here belongs to the entry that it passes to `page` as `at`.
GROUPS: Sequence[tuple[str, Sequence[Entry]]] = (
    (
        "Memory",
        (
            Entry("", "Overview", ""),
            Entry("start", "First steps", ""),
            Entry("search", "Search", "recall.read"),
            Entry("receipts", "Receipts", "recall.read"),
            Entry("memories", "Memories", "memory.read"),
            Entry("blocks", "Blocks", "memory.read"),
            Entry("sessions", "Sessions", "session.read"),
            Entry("conflicts", "Conflicts", "memory.read"),
            Entry("approvals", "Approvals", "memory.approve"),
            Entry("changes", "Changes", "memory.read"),
        ),
    ),
    (
        "Tenant",
        (
            Entry("webhooks", "Webhooks", "memory.read"),
            Entry("members", "Members", "members.read"),
            Entry("usage", "Usage", "tenant.read"),
            Entry("policy", "Policy", "tenant.read"),
            Entry("jobs", "Jobs", "tenant.read"),
            Entry("keys", "API keys", "keys.read"),
            Entry("certificates", "Certificates", "audit.read"),
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
