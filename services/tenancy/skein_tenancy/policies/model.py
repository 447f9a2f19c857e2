"""The rules that a tenant remembers by: their defaults, and changes on their way in. No SQL, no clock."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from google.protobuf.unknown_fields import UnknownFieldSet

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.errors import UpdateMaskInvalid
from skein_kit.policies.store import DEFAULT
from skein_kit.rpc import well_known_types
from skein_tenancy.errors import PolicyFieldUnknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

DEFAULTS: Mapping[str, object] = MappingProxyType(asdict(DEFAULT))
# Zero is no value of theirs: whoever sets it wants the default.
_NEVER_ZERO = frozenset(
    {
        "decay_days", "retention_days", "snapshot_retention", "path_max_hops", "subgraph_default_radius",
        "watch_max_failures", "capacity_strategic", "capacity_tactical", "capacity_operational", "capacity_contextual",
    }
)  # fmt: skip
# Empty: the default.
_NAMES = frozenset({"search_language", "recall_fusion"})
_KNOWN = frozenset(pb.Policy.DESCRIPTOR.fields_by_name)


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyChange:
    """New values for some rules."""

    # 0: whatever it is now.
    revision: int
    # By column; None: the default.
    values: Mapping[str, object]

    @classmethod
    def of(cls, request: pb.UpdatePolicyRequest) -> PolicyChange:
        """Read the fields that the mask names, at least one.

        Raises PolicyFieldUnknown for a field that no policy has, in the mask or in the message.
        """
        paths = [path for path in request.update_mask.paths if path not in _KNOWN]
        known = f"a policy has {', '.join(sorted(DEFAULTS))}"
        unknown = [("update_mask", f"{path[:60]} is no field; {known}") for path in paths]
        unknown += [("policy", f"number {number} is no field") for number in _unknown(request.policy)]
        unknown += [("", f"number {number} is no field") for number in _unknown(request)]
        if unknown:
            raise PolicyFieldUnknown(violations=unknown)
        if not request.update_mask.paths:
            raise UpdateMaskInvalid(violations=[("update_mask", "must name at least one field")])
        fields = well_known_types.updated_fields(request.update_mask, DEFAULTS)
        return cls(
            revision=request.policy.revision, values={field: _value(request.policy, field) for field in sorted(fields)}
        )


def _unknown(message: Message) -> list[int]:
    found = UnknownFieldSet(message)
    return [found[index].field_number for index in range(len(found))]


def _value(policy: pb.Policy, field: str) -> object:
    if field == "memory_types":
        return list(policy.memory_types)
    if field == "importance_formula":
        name = pb.ImportanceFormula.Name(policy.importance_formula).removeprefix("IMPORTANCE_FORMULA_").lower()
        return name if policy.importance_formula else None
    if field == "recall_weights":
        return json.dumps(dict(policy.recall_weights), sort_keys=True) if policy.recall_weights else None
    if field in _NAMES:
        return getattr(policy, field) or None
    value: object = getattr(policy, field)
    return None if field in _NEVER_ZERO and not value else value
