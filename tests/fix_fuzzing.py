"""What a fuzzer of the public RPCs sends, as whom, and how an answer to it must be."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import asyncpg
import grpc
from fix_accounts import Account, member
from fix_attacks import attack_size
from fix_cluster import Cluster
from fix_lineage import rescore
from fix_messages import Pool, altered, damaged, examples, with_extremes
from fix_recipes import RECIPES, request_for
from fix_rows import rows_of
from fix_world import World
from google.protobuf import text_format
from google.protobuf.message import Message
from grpc import aio
from grpc_status import rpc_status
from hypothesis import strategies as st

from skein.errors.v1 import errors_pb2
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit.errors import status_reason
from skein_kit.identity.permissions import ACCESS_RULES, ACCOUNT, CREATE_TENANT, OPERATOR

CORPUS = Path(__file__).parent / "attacks" / "corpus"
REASONS = {name.removeprefix("ERROR_REASON_") for name in errors_pb2.ErrorReason.keys()[1:]}
# What a call may never end with: each is a defect of the cluster, whatever was sent.
FAULTS = {
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
}
TENANT, VIEWER, STRANGER, OPERATOR_ITSELF = "tenant", "viewer", "stranger", "operator"
# Several times in a second, it leaves services with keys that nothing is signed with any more.
NOT_AS_OPERATOR = {"/skein.auth.v1.AuthService/RotateSigningKey"}
READS = (
    "Get",
    "List",
    "Search",
    "Export",
    "Explain",
    "Find",
    "TraverseLinks",
    "SpreadActivation",
    "Suggest",
    "Recall",
    "Build",
)
# A call that takes longer hangs.
PATIENCE_SECONDS = 60
# The things whose names a caller may put anywhere.
NAMED = (
    "session_id", "message_id", "memory_id", "other_memory_id", "deleted_memory_id", "link_id", "agent_id", "tool_id",
    "subject_id", "api_key_id", "service_account_id",
)  # fmt: skip
# The tenant that these are about is gone afterwards, or its keys and members are.
ENDING = {path for path, recipe in RECIPES.items() if {"deleted", "due"} & set(recipe.needs)} | {
    "/skein.auth.v1.AuthService/RevokeCredentials",
    "/skein.tenancy.v1.TenancyService/DeleteTenant",
    "/skein.tenancy.v1.TenancyService/TransferOwnership",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One call of the fuzzer."""

    path: str
    caller: str
    wire: bytes

    def __str__(self) -> str:
        """Show what was sent in the form that the corpus takes."""
        try:
            text = text_format.MessageToString(
                PUBLIC_METHODS[self.path].request.FromString(self.wire), as_one_line=True
            )
        except Exception:  # noqa: BLE001 - bytes that are no message have no text.
            text = ""
        shown = {"wire": self.wire[:2000].hex()} if not text else {"request": text[:4000]}
        return json.dumps({"path": self.path, "caller": self.caller, **shown})


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """How a call ended."""

    code: grpc.StatusCode
    reason: str
    # All that the caller can read of it.
    text: str

    def fault(self, foreign: str) -> str:
        """Return what is wrong with it; "" for nothing. `foreign` is in no answer to this caller."""
        if self.code in FAULTS:
            return f"{self.code.name} {self.reason} {self.text[:500]}"
        if self.code is not grpc.StatusCode.OK and self.reason not in REASONS:
            return f"{self.code.name} with the undocumented reason {self.reason!r}: {self.text[:500]}"
        if foreign and foreign in self.text:
            return f"{self.code.name} shows what another tenant has"
        return ""


class Fuzzer:
    """Sends messages to the public RPCs of a cluster, as a tenant, as another one's viewer, and as a stranger to it."""

    def __init__(self, cluster: Cluster, victim: World, world: World, viewer: Account) -> None:
        """The tenant of `world` calls and is changed; strangers and the viewer name what `victim` has."""
        self._cluster = cluster
        self.victim = victim
        self.world = world
        self._viewer = viewer

    @classmethod
    async def create(cls, cluster: Cluster) -> Self:
        """Make both worlds, and one of each thing in the victim's."""
        victim, world = await World.new(cluster), await World.new(cluster)
        # All that strangers will name: afterwards no call of the victim's own changes what it has.
        for path in set(PUBLIC_METHODS) - ENDING:
            await request_for(path, victim)
        for name in NAMED:
            await victim.thing(name)
        return cls(cluster, victim, world, await member(cluster, victim.tenant, "viewer"))

    async def attempts(self, path: str, count: int, number: int) -> list[Attempt]:
        """Make the calls of one RPC: the same ones for the same `number`, but for the ids."""
        own, own_names = await self._request(path)
        foreign = await request_for(path, self.victim.seen_by(self.world)) if path not in ENDING else own
        foreign_names = own_names | await self._names(self.victim)
        callers = _callers(path)

        @st.composite
        def attempt(draw: st.DrawFn) -> Attempt:
            caller = draw(st.sampled_from(callers))
            origin, names = (foreign, foreign_names) if caller in {VIEWER, STRANGER} else (own, own_names)
            message = draw(altered(origin, Pool(tuple(sorted(names)))))
            wire = message.SerializeToString(deterministic=True)
            is_damaged = draw(st.integers(0, 11)) == 0
            return Attempt(path=path, caller=caller, wire=draw(damaged(wire)) if is_damaged else wire)

        return examples(attempt(), count, number)

    async def extreme_attempts(self, path: str, count: int, number: int) -> list[Attempt]:
        """Make calls of one RPC in each of which one field has an extreme value: so many of all that there are."""
        own, _ = await self._request(path)
        caller = _callers(path)[0]
        every = list(with_extremes(own)) if count else []
        chosen = random.Random(number).sample(every, min(count, len(every)))
        return [Attempt(path=path, caller=caller, wire=one.SerializeToString()) for one in chosen]

    async def send(self, attempt: Attempt) -> Answer:
        """Make a call and read all of its answer, or the beginning of a stream."""
        method = PUBLIC_METHODS[attempt.path]
        metadata = await self._metadata(attempt)
        opened: Any = self._cluster.channel.unary_stream if method.streams else self._cluster.channel.unary_unary
        invoke = opened(attempt.path, response_deserializer=method.response.FromString)
        call = invoke(attempt.wire, metadata=metadata, timeout=PATIENCE_SECONDS)
        try:
            answer = await (call.read() if method.streams else call)
        except aio.AioRpcError as error:
            status = rpc_status.from_call(cast("Any", error))
            text = f"{error.details()} {status}"
            return Answer(code=error.code(), reason=status_reason(status) if status else "", text=text)
        finally:
            call.cancel()
        return Answer(code=grpc.StatusCode.OK, reason="", text=str(answer))

    async def fault(self, attempt: Attempt) -> str:
        """Make a call; return what is wrong with its answer, "" for nothing."""
        result = (await self.send(attempt)).fault(
            "" if attempt.caller in {VIEWER, OPERATOR_ITSELF} else self.victim.marker
        )
        return f"{result}\n    {attempt}" if result else ""

    async def renew(self, path: str) -> None:
        """Forget what the calls of an RPC may have changed, so that the next ones find it as it was."""
        if path.rpartition("/")[2].startswith(READS):
            return
        for name in RECIPES[path].needs:
            self.world.things.pop(name, None)
        if ACCESS_RULES[path].permission == ACCOUNT:
            self.world.things.pop("owner", None)
            self.world.things.pop("co_owner", None)
        if path in ENDING:
            self.world = await World.new(self._cluster)

    async def recorded(self, entry: dict[str, Any]) -> Attempt:
        """Return a call of the corpus; "{memory_id}" in its request is one that the caller's tenant has."""
        if "wire" in entry:
            wire = bytes.fromhex(entry["wire"])
        else:
            text = entry["request"]
            for name in re.findall(r"\{(\w+)\}", text):
                text = text.replace(f"{{{name}}}", await self.world.thing(name))
            wire = text_format.Parse(text, PUBLIC_METHODS[entry["path"]].request()).SerializeToString()
        return Attempt(path=entry["path"], caller=entry["caller"], wire=wire)

    async def finish_rescores(self) -> None:
        """Compute the victim's trust again, as the worker does, which changes its rows."""
        await rescore(self._cluster, self.victim.tenant)

    async def victims_rows(self) -> dict[str, str]:
        """Return a digest of each table's rows of the victim."""
        connection = await asyncpg.connect(dsn=self._cluster.postgres.url(user="postgres", database="skein"))
        try:
            result = await rows_of(connection, self.victim.tenant.tenant_id)
        finally:
            await connection.close()
        # A viewer may export what it reads, which is an event.
        return {name: digest for name, digest in result.items() if name != "memory.changes"}

    async def _request(self, path: str) -> tuple[Message, set[str]]:
        try:
            return await request_for(path, self.world), await self._names(self.world)
        except aio.AioRpcError:
            # Some things can be made once alone in a tenant, and others no more after what was sent.
            self.world = await World.new(self._cluster)
            return await request_for(path, self.world), await self._names(self.world)

    async def _names(self, world: World) -> set[str]:
        return {str(world.tenant.tenant_id), *[await world.thing(name) for name in NAMED]}

    async def _metadata(self, attempt: Attempt) -> list[tuple[str, str]]:
        rule = ACCESS_RULES[attempt.path]
        if rule.is_public:
            return []
        if attempt.caller == VIEWER:
            return [
                ("authorization", f"Bearer {self._viewer.access_token}"),
                ("skein-tenant-id", str(self.victim.tenant.tenant_id)),
            ]
        naming = [("skein-tenant-id", str(self.world.tenant.tenant_id))] if rule.needs_tenant else []
        if rule.permission == ACCOUNT:
            name = "co_owner" if attempt.path.endswith("/LeaveTenant") else "owner"
            return [("authorization", f"Bearer {(await self.world.thing(name)).access_token}"), *naming]
        if attempt.caller == OPERATOR_ITSELF:
            return [("authorization", f"Bearer {self._cluster.operator_key}"), *naming]
        return [("authorization", f"Bearer {self.world.tenant.api_key}")]


def _callers(path: str) -> tuple[str, ...]:
    """Return who calls an RPC, each as often as it is to be drawn."""
    permission = ACCESS_RULES[path].permission
    # An account is one person's, and has no viewers.
    if permission == ACCOUNT:
        return (TENANT,)
    if permission not in {OPERATOR, CREATE_TENANT}:
        return (TENANT, TENANT, TENANT, VIEWER, STRANGER)
    # What operators change is the whole cluster, which other tests share with a sample of this one.
    return (OPERATOR_ITSELF,) if attack_size(0, 1) and path not in NOT_AS_OPERATOR else (TENANT, VIEWER, STRANGER)
