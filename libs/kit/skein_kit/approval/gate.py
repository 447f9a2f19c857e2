"""The gate before a service that writes texts: what a source writes whose memories wait for approval.

A method that needs memory.write, session.write or subject.write is refused for such a source, unless it is held (it
waits) or in FREE_METHODS. So a method that is added later is refused until it is placed in one of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from skein_kit.calls.call import caller as caller_of
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import ApprovalRequired
from skein_kit.identity.permissions import ACCESS_RULES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from google.protobuf.message import Message

    from skein_kit.calls.call import Call
    from skein_kit.database.transactions import Database
    from skein_kit.policies.store import Policy, PolicyCache

    Handler = Callable[[Any, Any], Awaitable[Message]]

APPROVE: Final = "memory.approve"
_GATED_PERMISSIONS: Final = frozenset({"memory.write", "session.write", "subject.write", APPROVE})
# They have a permission of their own, and would raise the scores of what the source itself wrote.
_OTHER_GATED_METHODS: Final = frozenset({"SetSourceTrust", "DeleteSourceTrust"})
# They remove or move what is stored, copy what was approved, or store what no search, context and list of others shows.
FREE_METHODS: Final = frozenset(
    {
        "DeleteMemory", "DeleteMemories", "PurgeMemories", "DeleteBlock", "PurgeBlock", "DetachBlock",
        "CreateSnapshot", "DeleteSnapshot", "DeleteSubject", "PurgeSubject", "ExportSubject",
        "HideSession", "UnhideSession", "DeleteSession", "PurgeSession", "ArchiveSession", "UnarchiveSession",
        "DeleteMessage", "PurgeMessages", "PutAgentState", "DeleteAgentState", "PutSessionItem", "DeleteSessionItem",
    }
)  # fmt: skip


def must_wait(policy: Policy, call: Call) -> bool:
    """Return whether the memories of a call's source wait for approval.

    An application that acts for a person (OAuth) counts as an agent; the console, where the person acts, has no
    client_id. The metadata skein-agent-id counts too: a claim can make a source wait, and never the reverse.
    """
    caller = caller_of(call)
    if policy.approval == "agents":
        return bool(caller.agent_id or caller.client_id or call.claimed_agent_id)
    return policy.approval == "all" and APPROVE not in caller.permissions


class ApprovalGate:
    """Decides by the policy of the caller's tenant."""

    def __init__(self, database: Database, policies: PolicyCache) -> None:
        """Read policies with the service's role."""
        self._database = database
        self._policies = policies

    def wrap(self, servicer: object, service: str, held: Mapping[str, Handler] | None = None) -> GatedServicer:
        """Return a servicer of `service` ("skein.memory.v1.MemoryService") with the same methods behind the gate.

        `held` are the methods that wait for approval, each with the handler that stores what waits.
        """
        return GatedServicer(servicer, self, service, held or {})

    async def must_wait(self, call: Call) -> bool:
        """Return whether the memories of a call's source wait, by a policy that is at most a second old."""
        tenant_id = caller_of(call).require_tenant()
        policy = self._policies.get_cached(tenant_id)
        if policy is None:
            options = TxOptions(plan_once=True, skip_replica=True, read_only=True)
            async with self._database.transaction(tenant_id, options) as tx:
                policy = await self._policies.get(tx, tenant_id)
        return must_wait(policy, call)


class GatedServicer:
    """A servicer behind the gate."""

    def __init__(self, servicer: object, gate: ApprovalGate, service: str, held: Mapping[str, Handler]) -> None:
        """Call the methods of `servicer`, or those of `held`."""
        self._servicer = servicer
        self._gate = gate
        self._service = service
        self._held = held

    def __getattr__(self, name: str) -> Any:
        """Return the servicer's method, gated if it writes to the memory or decides on what waits."""
        method = getattr(self._servicer, name)
        rule = ACCESS_RULES.get(f"/{self._service}/{name}")
        is_gated = rule is not None and (rule.permission in _GATED_PERMISSIONS or name in _OTHER_GATED_METHODS)
        if not is_gated or name in FREE_METHODS:
            return method

        async def call_gated(request: Message, context: Call) -> Message:
            if not await self._gate.must_wait(context):
                response: Message = await method(request, context)
                return response
            if name not in self._held:
                raise ApprovalRequired
            return await self._held[name](request, context)

        return call_gated
