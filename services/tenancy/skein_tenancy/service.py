"""How the tenancy service is put together."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc as rpc
from skein_kit.background import background_tasks
from skein_kit.canary import CanarySettings
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.outbound.mail import Mailer, MailSettings
from skein_tenancy.agents.store import AgentStore
from skein_tenancy.canary import provisioner
from skein_tenancy.canary.store import CanaryStore
from skein_tenancy.deletions.store import DeletionStore
from skein_tenancy.invitations.sender import InvitationSender
from skein_tenancy.invitations.store import InvitationStore
from skein_tenancy.members.accounts import AccountClient
from skein_tenancy.members.store import MemberStore
from skein_tenancy.parts import Parts
from skein_tenancy.policies.store import PolicyStore
from skein_tenancy.quotas.store import QuotaStore
from skein_tenancy.servicers import TenancyInternalServicer, TenancyServicer
from skein_tenancy.settings import TenancySettings
from skein_tenancy.subjects.store import SubjectStore
from skein_tenancy.tenants.store import DirectoryStore
from skein_tenancy.tools.store import ToolStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Open the pool and put the servicers on it. Raises SettingInvalid."""
    settings = TenancySettings.read(host.environment)
    mailer = Mailer.of(MailSettings.read(host.environment))
    servicers = ServicerRegistry()
    async with host.database("tenancy", servicers) as database:
        invitations = InvitationStore(database)
        parts = Parts(
            settings=settings,
            accounts=AccountClient(auth_pb2_grpc.IdentityServiceStub(host.channel("auth"))),
            directory=DirectoryStore(database),
            deletions=DeletionStore(database),
            agents=AgentStore(database),
            quotas=QuotaStore(database),
            subjects=SubjectStore(database),
            tools=ToolStore(database),
            policies=PolicyStore(database),
            members=MemberStore(database),
            invitations=invitations,
            inviting=InvitationSender(
                invitations, mailer, partial(host.issuer, settings.issuer), most=settings.invitations_most
            ),
        )
        servicers.add(rpc.add_TenancyServiceServicer_to_server, TenancyServicer(parts))
        servicers.add(rpc.add_UpkeepServiceServicer_to_server, TenancyInternalServicer(parts))
        async with AsyncExitStack() as stack:
            if CanarySettings.read(host.environment).canary_seconds > 0:
                await stack.enter_async_context(
                    background_tasks(canary=partial(provisioner.provision, CanaryStore(database)))
                )
            yield servicers


SERVICE = Service(name="tenancy", port=50052, calls=("auth",), start=start)
