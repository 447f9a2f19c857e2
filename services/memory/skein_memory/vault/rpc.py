"""Types of memories and the secrets among them: each RPC reads its request, makes one call, and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.json_values import exact
from skein_kit.json_values.fields import fields
from skein_kit.rpc.pagination import MAX_UNPAGED, paginate
from skein_memory.memories import memory_type
from skein_memory.parts import Rpcs

if TYPE_CHECKING:
    from skein_kit.policies.store import Policy


class SecretRpcs(Rpcs):
    """What types there are, and what the vault holds."""

    async def ListMemoryTypes(self, request: pb.ListMemoryTypesRequest, context: Context) -> pb.ListMemoryTypesResponse:
        tenant_id = caller(context).tenant()
        policy = await self._parts.memories.policy(tenant_id)
        own = [name for name in policy.memory_types if name not in memory_type.BUILT_IN]
        found = [
            *(_type(type_, policy) for type_ in memory_type.BUILT_IN.values()),
            *(_type(memory_type.MemoryType(name=name, description="The tenant's own."), policy) for name in own),
        ]
        page, token = paginate(
            found, lambda type_: type_.type, request, tenant_id, size=request.page_size or MAX_UNPAGED
        )
        return pb.ListMemoryTypesResponse(
            memory_types=page, others_accepted=not policy.memory_types, next_page_token=token
        )

    async def RevealSecret(self, request: pb.RevealSecretRequest, context: Context) -> pb.RevealSecretResponse:
        who = caller(context)
        memory_id, secret = await self._parts.secrets.reveal(
            who.tenant(), request.memory_id, by=who.principal, at=now()
        )
        return pb.RevealSecretResponse(memory_id=memory_id, secret_value=secret)

    async def RotateTenantKey(self, request: pb.RotateTenantKeyRequest, context: Context) -> pb.RotateTenantKeyResponse:
        who = caller(context)

        def respond(key_id: str, resealed: int, more: bool) -> pb.RotateTenantKeyResponse:  # noqa: FBT001 - as told.
            return pb.RotateTenantKeyResponse(key_id=key_id, resealed_count=resealed, more=more)

        rotated = await self._parts.secrets.rotate(who.tenant(), IdempotencyKey.of(who, request), respond, at=now())
        return pb.RotateTenantKeyResponse.FromString(rotated) if isinstance(rotated, bytes) else rotated


def _type(type_: memory_type.MemoryType, policy: Policy) -> pb.MemoryType:
    return pb.MemoryType(
        type=type_.name,
        description=type_.description,
        built_in=type_.name in memory_type.BUILT_IN,
        searched_fields=type_.searched,
        accepted=not policy.memory_types or type_.name in policy.memory_types,
        **fields(json_schema=exact.dumps(type_.schema)),
    )
