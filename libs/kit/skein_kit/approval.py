"""The gate before a service that writes texts: what a source writes whose memories wait for approval.

A method that needs memory.write, session.write or subject.write is refused for such a source unless it declares that it
waits or passes. So a method that is added later is refused until it declares one of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from skein.options.v1 import options_pb2 as pb
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import ApprovalRequired
from skein_kit.identity.permissions import EXTRACT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skein_kit.calls.call import Call
    from skein_kit.database.transactions import Database
    from skein_kit.policies.store import Policy, PolicyCache

    Handler = Callable[[Any, Any], Awaitable[Any]]

APPROVE: Final = "memory.approve"
_GATED_PERMISSIONS: Final = frozenset({"memory.write", "session.write", "subject.write", APPROVE})


def is_gated(rule: pb.MethodRule) -> bool:
    """Return whether a method is refused, or waits, for a source whose memories wait for approval."""
    if rule.approval == pb.APPROVAL_RULE_UNSPECIFIED:
        return rule.permission in _GATED_PERMISSIONS
    return rule.approval != pb.APPROVAL_RULE_PASSES


def must_wait(policy: Policy, call: Call) -> bool:
    """Return whether the memories of a call's source wait for approval.

    An application that acts for a person (OAuth) counts as an agent; the console, where the person acts, has no
    client_id. So does an extractor of facts. The metadata skein-agent-id counts too: a claim can make a source wait,
    and never the reverse.
    """
    caller = caller_of(call)
    if policy.approval == "agents":
        if EXTRACT in caller.permissions:
            return True
        return bool(caller.agent_id or caller.client_id or call.claimed_agent_id)
    return policy.approval == "all" and APPROVE not in caller.permissions


class ApprovalGate:
    """Decides by the policy of the caller's tenant."""

    def __init__(self, database: Database, policies: PolicyCache) -> None:
        """Read policies with the service's role."""
        self._database = database
        self._policies = policies

    def wrap(self, handler: Handler, waiting: Handler | None) -> Handler:
        """Return a method's handler behind the gate; `waiting` stores what waits, None refuses it."""

        async def answer(request: Any, call: Call) -> Any:
            if not await self.must_wait(call):
                return await handler(request, call)
            if waiting is None:
                raise ApprovalRequired
            return await waiting(request, call)

        return answer

    async def must_wait(self, call: Call) -> bool:
        """Return whether the memories of a call's source wait, by a policy that is at most a second old."""
        tenant_id = caller_of(call).require_tenant()
        policy = self._policies.get_cached(tenant_id)
        if policy is None:
            options = TxOptions(plan_once=True, skip_replica=True, read_only=True)
            async with self._database.transaction(tenant_id, options) as tx:
                policy = await self._policies.get(tx, tenant_id)
        return must_wait(policy, call)
