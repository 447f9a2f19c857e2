"""Places for calls that nobody has to prove an identity for: so many of a connection, of an address, and in all."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from skein_kit.calls.call import peer_address
from skein_kit.network.source_network import source_network

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

# Of all places: what the connections of one address may take.
_SHARE_OF_ADDRESS = 2


class SlotsFull(Exception):
    """The connection, its address or all together have as many calls as they may have."""


class CallSlots:
    """The places of one port."""

    def __init__(self, *, of_connection: int, in_all: int) -> None:
        """One address, or one IPv6 network of a customer, gets half of the places."""
        self._most = {"connection": of_connection, "address": max(1, in_all // _SHARE_OF_ADDRESS), "all": in_all}
        self._taken: Counter[tuple[str, Hashable]] = Counter()

    @contextmanager
    def taken_by(self, peer: str) -> Iterator[None]:
        """Take a place for a call of a peer ("ipv4:192.0.2.1:50", its connection) for the block. Raises SlotsFull."""
        address = source_network(peer_address(peer))
        keys = [("connection", peer), ("all", "")]
        if address:
            keys.append(("address", address))
        if any(self._taken[key] >= self._most[key[0]] for key in keys):
            raise SlotsFull
        self._taken.update(keys)
        try:
            yield
        finally:
            self._taken.subtract(keys)
            for key in keys:
                if not self._taken[key]:
                    del self._taken[key]
