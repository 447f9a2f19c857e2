"""Subjects of attempts that belong to one source. No SQL, no clock."""

from __future__ import annotations

from skein_kit.network.source_network import source_network


def subject_at_network(name: str, address: str) -> str:
    """Return the subject for attempts at one account or client from one source."""
    return f"{name} {source_network(address)}"
