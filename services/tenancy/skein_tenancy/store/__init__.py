"""Every database call of the tenancy service, one method for each thing that is done."""

from __future__ import annotations

from skein_tenancy.store.agents import AgentStore
from skein_tenancy.store.canary import CanaryStore
from skein_tenancy.store.deletions import DeletionStore
from skein_tenancy.store.directory import DirectoryStore
from skein_tenancy.store.invitations import InvitationStore
from skein_tenancy.store.members import MemberStore
from skein_tenancy.store.policies import PolicyStore
from skein_tenancy.store.quotas import QuotaStore
from skein_tenancy.store.subjects import SubjectStore
from skein_tenancy.store.tools import ToolStore

__all__ = [
    "AgentStore",
    "CanaryStore",
    "DeletionStore",
    "DirectoryStore",
    "InvitationStore",
    "MemberStore",
    "PolicyStore",
    "QuotaStore",
    "SubjectStore",
    "ToolStore",
]
