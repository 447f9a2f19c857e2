"""The RPCs of policies: parse, one call, reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PermissionMissing, UpdateMaskInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.rpc import well_known_types
from skein_kit.rpc.well_known_types import to_timestamp
from skein_tenancy.errors import PolicyFieldUnknown
from skein_tenancy.policies.store import DEFAULTS, PolicyChange, PolicyStore
from skein_tenancy.validation import check_time_zone

# Fields that say which secret of the vault is sent, and where; and the permission that reveals any.
_SENDS_SECRET = frozenset({"extraction_url", "extraction_key_id"})
_READS_SECRETS = "secrets.read"
# Zero means the default.
_ZERO_IS_DEFAULT = frozenset(
    {
        "decay_days", "retention_days", "snapshot_retention", "path_max_hops", "subgraph_default_radius",
        "webhook_max_failures", "capacity_strategic", "capacity_tactical", "capacity_operational",
        "capacity_contextual", "approval_expiry_days", "extraction_messages", "extraction_quiet_seconds",
    }
)  # fmt: skip
# An empty text means the default.
_EMPTY_IS_DEFAULT = frozenset(
    {
        "search_language", "recall_fusion", "guard_secrets", "guard_personal_data", "approval", "recall_receipts",
        "time_zone", "embedding_model", "extraction", "extraction_instructions", "extraction_url",
        "extraction_model", "extraction_key_id",
    }
)  # fmt: skip
_LISTS = frozenset({"memory_types", "guard_ignored_kinds", "extraction_roles", "extraction_types"})
_FORMULA_PREFIX = "IMPORTANCE_FORMULA_"
_FIELDS = frozenset(pb.Policy.DESCRIPTOR.fields_by_name)
_MAX_PATH_CHARACTERS = 60


class PolicyHandlers:
    """The policy of a tenant."""

    def __init__(self, store: PolicyStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Context) -> pb.GetPolicyResponse:
        return pb.GetPolicyResponse(policy=policy(await self._store.get_policy(caller_of(context).require_tenant())))

    async def UpdatePolicy(self, request: pb.UpdatePolicyRequest, context: Context) -> pb.UpdatePolicyResponse:
        caller = caller_of(context)
        change = read_change(request)
        if change.values.keys() & _SENDS_SECRET and _READS_SECRETS not in caller.permissions:
            raise PermissionMissing(permission=_READS_SECRETS)
        async with self._idempotency.begin(caller, request) as write:
            columns = await self._store.update_policy(write.tx, caller.require_tenant(), change)
            return await write.save(pb.UpdatePolicyResponse(policy=policy(columns)))


def policy(columns: Mapping[str, object]) -> pb.Policy:
    """Convert the columns that a tenant set; the others have their defaults."""
    values: dict[str, Any] = {"revision": 1, **DEFAULTS, **columns}
    formula = f"{_FORMULA_PREFIX}{values.pop('importance_formula').upper()}"
    weights = json.loads(values.pop("recall_weights"))
    return pb.Policy(
        importance_formula=formula,
        recall_weights=weights,
        update_time=to_timestamp(values.pop("update_time", None)),
        **values,
    )


def read_change(request: pb.UpdatePolicyRequest) -> PolicyChange:
    """Read the fields that the mask names, at least one.

    Raises PolicyFieldUnknown for a field that no policy has, in the mask or in the message, UpdateMaskInvalid, and
    FieldInvalid.
    """
    paths = [path for path in request.update_mask.paths if path not in _FIELDS]
    fields = f"a policy has {', '.join(sorted(DEFAULTS))}"
    violations = [("update_mask", f"{path[:_MAX_PATH_CHARACTERS]} is no field; {fields}") for path in paths]
    violations += [("policy", f"number {number} is no field") for number in _unknown_numbers(request.policy)]
    violations += [("", f"number {number} is no field") for number in _unknown_numbers(request)]
    if violations:
        raise PolicyFieldUnknown(violations=violations)
    if not request.update_mask.paths:
        raise UpdateMaskInvalid(violations=[("update_mask", "must name at least one field")])
    updated_names = well_known_types.updated_fields(request.update_mask, DEFAULTS)
    if "time_zone" in updated_names:
        check_time_zone(request.policy.time_zone, "policy.time_zone")
    values = {name: _value(request.policy, name) for name in sorted(updated_names)}
    return PolicyChange(revision=request.policy.revision, values=values)


def _unknown_numbers(message: Message) -> list[int]:
    unknown_fields = UnknownFieldSet(message)
    return [unknown_fields[index].field_number for index in range(len(unknown_fields))]


def _value(message: pb.Policy, name: str) -> object:
    if name in _LISTS:
        return list(getattr(message, name))
    if name == "importance_formula":
        formula = pb.ImportanceFormula.Name(message.importance_formula).removeprefix(_FORMULA_PREFIX).lower()
        return formula if message.importance_formula else None
    if name == "recall_weights":
        return json.dumps(dict(message.recall_weights), sort_keys=True) if message.recall_weights else None
    value: object = getattr(message, name)
    return None if name in _ZERO_IS_DEFAULT | _EMPTY_IS_DEFAULT and not value else value
