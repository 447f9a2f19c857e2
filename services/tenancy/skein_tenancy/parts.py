"""What the tenancy service is made of: one value that the composition root fills and every group of RPCs draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_tenancy.accounts import Accounts
    from skein_tenancy.inviting import Inviting
    from skein_tenancy.settings import TenancySettings
    from skein_tenancy.store import (
        AgentStore,
        DeletionStore,
        DirectoryStore,
        InvitationStore,
        MemberStore,
        PolicyStore,
        QuotaStore,
        SubjectStore,
        ToolStore,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a running tenancy service."""

    settings: TenancySettings
    accounts: Accounts
    directory: DirectoryStore
    deletions: DeletionStore
    agents: AgentStore
    quotas: QuotaStore
    subjects: SubjectStore
    tools: ToolStore
    policies: PolicyStore
    members: MemberStore
    invitations: InvitationStore
    inviting: Inviting
