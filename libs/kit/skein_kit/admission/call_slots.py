"""Slots for calls without a credential: limits per connection, per address, and in total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from skein_kit.calls.call import peer_address
from skein_kit.network.source_network import source_network

# Share of all slots that the connections of one address may take.
_SHARE_OF_ADDRESS = 2


class SlotsFull(Exception):
    """The connection, its address or the port has no free slot."""


class CallSlots:
    """The slots of one port."""

    def __init__(self, *, per_connection: int, total: int) -> None:
        """One address, or one IPv6 network of a customer, gets half of the slots."""
        self._limits = {"connection": per_connection, "address": max(1, total // _SHARE_OF_ADDRESS), "all": total}
        self._counts: Counter[tuple[str, Hashable]] = Counter()

    @contextmanager
    def occupy(self, peer: str) -> Iterator[None]:
        """Occupy a slot for a call of a peer, the connection "ipv4:192.0.2.1:50", for a block. Raises SlotsFull."""
        address = source_network(peer_address(peer))
        keys = [("connection", peer), ("all", "")]
        if address:
            keys.append(("address", address))
        if any(self._counts[key] >= self._limits[key[0]] for key in keys):
            raise SlotsFull
        self._counts.update(keys)
        try:
            yield
        finally:
            self._counts.subtract(keys)
            for key in keys:
                if not self._counts[key]:
                    del self._counts[key]
