"""The RPCs of policies: parse, one call, reply."""

from __future__ import annotations

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PermissionMissing
from skein_kit.idempotency.store import IdempotencyStore
from skein_tenancy.policies import convert
from skein_tenancy.policies.store import PolicyStore

# Fields that say which secret of the vault is sent, and where; and the permission that reveals any.
_SENDS_SECRET = frozenset({"extraction_url", "extraction_key_id"})
_READS_SECRETS = "secrets.read"


class PolicyHandlers:
    """The policy of a tenant."""

    def __init__(self, store: PolicyStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Context) -> pb.GetPolicyResponse:
        return pb.GetPolicyResponse(
            policy=convert.policy(await self._store.get_policy(caller_of(context).require_tenant()))
        )

    async def UpdatePolicy(self, request: pb.UpdatePolicyRequest, context: Context) -> pb.UpdatePolicyResponse:
        caller = caller_of(context)
        change = convert.change(request)
        if change.values.keys() & _SENDS_SECRET and _READS_SECRETS not in caller.permissions:
            raise PermissionMissing(permission=_READS_SECRETS)
        async with self._idempotency.begin(caller, request) as write:
            columns = await self._store.update_policy(write.tx, caller.require_tenant(), change)
            return await write.save(pb.UpdatePolicyResponse(policy=convert.policy(columns)))
