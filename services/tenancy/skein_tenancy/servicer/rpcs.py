"""What every group of RPCs is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_tenancy.parts import Parts


class Rpcs:
    """Some RPCs of a service, over the parts that the composition root made."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
