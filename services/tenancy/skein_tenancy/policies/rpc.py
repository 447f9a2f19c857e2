"""The RPCs that concern the policy of a tenant: parse, one call, reply."""

from __future__ import annotations

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_tenancy.policies import model as policies
from skein_tenancy.rpc_base import Rpcs


class PolicyRpcs(Rpcs):
    """The rules that a tenant remembers by."""

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Context) -> pb.GetPolicyResponse:
        return pb.GetPolicyResponse(policy=await self._parts.policies.get_policy(caller(context).tenant()))

    async def UpdatePolicy(self, request: pb.UpdatePolicyRequest, context: Context) -> pb.UpdatePolicyResponse:
        who = caller(context)
        change = policies.PolicyChange.of(request)
        return await self._parts.policies.update_policy(who.tenant(), change, IdempotencyKey.of(who, request))
