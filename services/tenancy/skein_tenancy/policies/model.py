"""The policy of a tenant: defaults and changes. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

from skein_kit.policies.store import DEFAULT

# By column.
DEFAULTS: Mapping[str, object] = MappingProxyType(asdict(DEFAULT))


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyChange:
    """New values for some columns of a policy."""

    # 0: any revision.
    revision: int
    # By column; None: the default.
    values: Mapping[str, object]
