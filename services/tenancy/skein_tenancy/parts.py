"""What the tenancy service is made of: one value that the composition root fills and every group of RPCs draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_tenancy.agents.store import AgentStore
    from skein_tenancy.deletions.store import DeletionStore
    from skein_tenancy.invitations.sender import InvitationSender
    from skein_tenancy.invitations.store import InvitationStore
    from skein_tenancy.members.accounts import AccountClient
    from skein_tenancy.members.store import MemberStore
    from skein_tenancy.policies.store import PolicyStore
    from skein_tenancy.quotas.store import QuotaStore
    from skein_tenancy.settings import TenancySettings
    from skein_tenancy.subjects.store import SubjectStore
    from skein_tenancy.tenants.store import DirectoryStore
    from skein_tenancy.tools.store import ToolStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a running tenancy service."""

    settings: TenancySettings
    accounts: AccountClient
    directory: DirectoryStore
    deletions: DeletionStore
    agents: AgentStore
    quotas: QuotaStore
    subjects: SubjectStore
    tools: ToolStore
    policies: PolicyStore
    members: MemberStore
    invitations: InvitationStore
    inviting: InvitationSender
