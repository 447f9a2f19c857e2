"""How the auth service is put together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2_grpc as rpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_auth.identities import Identities
from skein_auth.parts import Parts
from skein_auth.sealing import Sealer
from skein_auth.servicer import AuthServicer, IdentityServicer
from skein_auth.settings import AuthSettings, SystemKeys
from skein_auth.signing import Keyring
from skein_auth.store import KeyStore
from skein_auth.tenants import Tenants
from skein_kit.background import alongside
from skein_kit.service import Host, Service, Servicers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Open the pool, put the servicers on it and watch for new signing keys. Raises SettingInvalid."""
    settings = AuthSettings.read(host.environment)
    system_keys = SystemKeys.of(host.settings.system_key, settings.previous_system_key)
    servicers = Servicers()
    async with host.database("auth", servicers) as database:
        keys = KeyStore(database)
        keyring = Keyring(keys, Sealer(system_keys))
        tenants = Tenants(tenancy_pb2_grpc.TenancyServiceStub(host.channel("tenancy")), keyring)
        parts = Parts(
            settings=settings,
            keys=keys,
            keyring=keyring,
            tenants=tenants,
            identities=Identities(keys, tenants, system_keys),
        )
        servicers.add(rpc.add_AuthServiceServicer_to_server, AuthServicer(parts))
        servicers.add(rpc.add_IdentityServiceServicer_to_server, IdentityServicer(parts))

        async def can_sign() -> bool:
            return bool(await keyring.active())

        servicers.ready_checks.append(can_sign)
        async with alongside(signing_keys=partial(keyring.keep_fresh, settings.signing_key_refresh_seconds)):
            yield servicers


SERVICE = Service(name="auth", port=50051, calls=("tenancy",), start=start)
