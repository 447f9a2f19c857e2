"""How the tenancy service is put together."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc as rpc
from skein_kit.background import alongside
from skein_kit.canary import CanarySettings
from skein_kit.host.process import Host, Service, Servicers
from skein_kit.outbound.mail import Mailer, MailSettings
from skein_tenancy import canary
from skein_tenancy.accounts import Accounts
from skein_tenancy.inviting import Inviting
from skein_tenancy.parts import Parts
from skein_tenancy.servicer import TenancyServicer, UpkeepServicer
from skein_tenancy.settings import TenancySettings
from skein_tenancy.store import (
    AgentStore,
    CanaryStore,
    DeletionStore,
    DirectoryStore,
    InvitationStore,
    MemberStore,
    PolicyStore,
    QuotaStore,
    SubjectStore,
    ToolStore,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Open the pool and put the servicers on it. Raises SettingInvalid."""
    settings = TenancySettings.read(host.environment)
    mailer = Mailer.of(MailSettings.read(host.environment))
    servicers = Servicers()
    async with host.database("tenancy", servicers) as database:
        invitations = InvitationStore(database)
        parts = Parts(
            settings=settings,
            accounts=Accounts(auth_pb2_grpc.IdentityServiceStub(host.channel("auth"))),
            directory=DirectoryStore(database),
            deletions=DeletionStore(database),
            agents=AgentStore(database),
            quotas=QuotaStore(database),
            subjects=SubjectStore(database),
            tools=ToolStore(database),
            policies=PolicyStore(database),
            members=MemberStore(database),
            invitations=invitations,
            inviting=Inviting(
                invitations, mailer, partial(host.issuer, settings.issuer), most=settings.invitations_most
            ),
        )
        servicers.add(rpc.add_TenancyServiceServicer_to_server, TenancyServicer(parts))
        servicers.add(rpc.add_UpkeepServiceServicer_to_server, UpkeepServicer(parts))
        async with AsyncExitStack() as stack:
            if CanarySettings.read(host.environment).canary_seconds > 0:
                await stack.enter_async_context(alongside(canary=partial(canary.keep, CanaryStore(database))))
            yield servicers


SERVICE = Service(name="tenancy", port=50052, calls=("auth",), start=start)
