"""Composition root of the tenancy service: settings, database, clients, features, servicers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

from skein.auth.v1 import auth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc as rpc
from skein_kit.approval import ApprovalGate
from skein_kit.audit_log.writer import AuditLog
from skein_kit.background import background_tasks
from skein_kit.canary import CanarySettings
from skein_kit.content_guard.endpoint import DetectorEndpoint
from skein_kit.content_guard.guard import ContentGuard
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.jobs.store import JobStore
from skein_kit.outbound.mail import Mailer, MailSettings
from skein_kit.policies.store import shared_policy_cache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.rpc.declared_steps import DeclaredSteps
from skein_tenancy.agents.rpc import AgentHandlers
from skein_tenancy.agents.store import AgentStore
from skein_tenancy.canary.store import CanaryStore
from skein_tenancy.deletions.rpc import DeletionHandlers
from skein_tenancy.deletions.store import DeletionStore
from skein_tenancy.invitations.model import MAX_INVITATIONS_PER_HOUR
from skein_tenancy.invitations.rpc import InvitationHandlers, InvitationMailer
from skein_tenancy.invitations.store import InvitationStore
from skein_tenancy.jobs.rpc import JobHandlers
from skein_tenancy.jobs.store import TenantJobStore
from skein_tenancy.maintenance.rpc import MaintenanceHandlers
from skein_tenancy.members.accounts import AccountClient
from skein_tenancy.members.rpc import MemberHandlers
from skein_tenancy.members.store import MemberStore
from skein_tenancy.organizations.rpc import OrganizationHandlers
from skein_tenancy.organizations.store import OrganizationStore
from skein_tenancy.policies.rpc import PolicyHandlers
from skein_tenancy.policies.store import PolicyStore
from skein_tenancy.quotas.rpc import QuotaHandlers
from skein_tenancy.quotas.store import QuotaStore
from skein_tenancy.rate_limits.model import DefaultRateLimits
from skein_tenancy.rate_limits.rpc import RateLimitHandlers
from skein_tenancy.rate_limits.store import RateLimitStore
from skein_tenancy.settings import TenancySettings
from skein_tenancy.spaces.rpc import SpaceHandlers
from skein_tenancy.spaces.store import SpaceStore
from skein_tenancy.subjects.rpc import SubjectHandlers
from skein_tenancy.subjects.store import SubjectStore
from skein_tenancy.tenants.rpc import TenantHandlers
from skein_tenancy.tenants.store import TenantStore
from skein_tenancy.tools.rpc import ToolHandlers
from skein_tenancy.tools.store import ToolStore


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Open the database and register the servicers. Raises SettingInvalid."""
    settings = TenancySettings.read(host.environment)
    mailer = InvitationMailer(
        Mailer.from_settings(MailSettings.read(host.environment)), issuer=partial(host.issuer, settings.issuer)
    )
    accounts = AccountClient(auth_pb2_grpc.AuthInternalServiceStub(host.channel("auth", caller="tenancy")))
    registry = ServicerRegistry()
    async with host.database("tenancy", registry) as database, AsyncExitStack() as stack:
        audit, quota_counter = AuditLog(), QuotaCounter("tenancy")
        idempotency = IdempotencyStore(database, "tenancy", audit)
        # Items of every space keep the row of a purged agent, and a space from being deleted. Former rows of all go.
        whole_database = database.for_all_spaces()
        agents = AgentStore(database, quota_counter, whole_database)
        members, subjects = MemberStore(database, quota_counter), SubjectStore(database, quota_counter)
        invitations, quotas = InvitationStore(database, members), QuotaStore(database)
        rate_limits, spaces = RateLimitStore(database), SpaceStore(database)
        member_handlers = MemberHandlers(members, spaces, accounts, idempotency)
        invitation_handlers = InvitationHandlers(
            invitations, mailer, accounts, idempotency, max_per_hour=MAX_INVITATIONS_PER_HOUR
        )
        deletion_handlers = DeletionHandlers(
            DeletionStore(database), idempotency, default_grace=timedelta(seconds=settings.delete_grace_seconds)
        )
        quota_handlers = QuotaHandlers(quotas, idempotency)
        policies = shared_policy_cache(database)
        registry.steps = DeclaredSteps(
            gate=ApprovalGate(database, policies),
            guard=ContentGuard(database, policies, DetectorEndpoint.of(host.environment, service="tenancy")),
            locate=subjects.locate,
        )
        registry.add(
            rpc.add_TenancyServiceServicer_to_server,
            OrganizationHandlers(OrganizationStore(database), idempotency),
            TenantHandlers(
                TenantStore(database, members, quotas),
                accounts,
                idempotency,
                accounts_organization=settings.accounts_organization,
                max_owned=settings.accounts_max_tenants,
            ),
            deletion_handlers,
            member_handlers,
            invitation_handlers,
            AgentHandlers(agents, idempotency),
            SubjectHandlers(subjects, idempotency),
            ToolHandlers(ToolStore(database, quota_counter), idempotency),
            PolicyHandlers(PolicyStore(database), idempotency),
            quota_handlers,
            JobHandlers(TenantJobStore(database, audit), JobStore(database), idempotency),
            SpaceHandlers(spaces, idempotency, IdempotencyStore(whole_database, "tenancy", audit)),
        )
        registry.add(
            rpc.add_TenancyInternalServiceServicer_to_server,
            deletion_handlers,
            member_handlers,
            invitation_handlers,
            quota_handlers,
            RateLimitHandlers(rate_limits, DefaultRateLimits.from_settings(settings)),
            MaintenanceHandlers(whole_database, invitations, rate_limits, agents, idempotency),
        )
        if CanarySettings.read(host.environment).canary_seconds > 0:
            await stack.enter_async_context(background_tasks(canary=CanaryStore(database).provision))
        yield registry


SERVICE = Service(name="tenancy", port=50052, depends_on=("auth",), start=start)
