"""How the auth service is put together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2_grpc as rpc
from skein.auth.v1 import oauth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_auth.accounts.known_devices import KnownDevices
from skein_auth.accounts.one_time_token_store import OneTimeTokenStore
from skein_auth.accounts.one_time_tokens import OneTimeTokens, TokenMailer
from skein_auth.accounts.passwords import Passwords
from skein_auth.accounts.rpc import AccountsRpc
from skein_auth.accounts.self_service import AccountSelfService, sign_up_rule
from skein_auth.accounts.store import AccountStore
from skein_auth.api_keys.check_keys import CHECK_KEY_SECONDS, CheckKeys, UncheckedLookupLimiter
from skein_auth.api_keys.credential_lookup import CredentialLookup
from skein_auth.api_keys.last_use import LastUseRecorder
from skein_auth.api_keys.legacy_token_store import LegacyStore
from skein_auth.api_keys.operator_key_store import OperatorKeyStore
from skein_auth.api_keys.rpc import ApiKeysRpc
from skein_auth.api_keys.store import ApiKeyStore
from skein_auth.attempts.model import AttemptLimiter, limits
from skein_auth.attempts.store import AttemptStore
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.audit.rpc import AuditRpc
from skein_auth.audit.store import AuditStore
from skein_auth.auth_sessions.auth_sessions import AuthSessions, lifetimes_from, refresh_token_derivation_from
from skein_auth.auth_sessions.store import AuthSessionStore
from skein_auth.encryption import SecretCipher
from skein_auth.exchange.access_token_authenticator import AccessTokenAuthenticator
from skein_auth.exchange.authenticator import Authenticator
from skein_auth.exchange.refusal_cache import RejectedCredentialCache
from skein_auth.exchange.rpc import ExchangeRpc
from skein_auth.federation.federated_login import FederatedLogin
from skein_auth.federation.providers import Providers, ProviderSettings
from skein_auth.federation.rpc import FederationRpc
from skein_auth.federation.store import IdentityStore
from skein_auth.login.password_login import PasswordLogin
from skein_auth.login.rpc import LoginRpc
from skein_auth.maintenance.rpc import MaintenanceRpc
from skein_auth.maintenance.store import MaintenanceStore
from skein_auth.oauth.authorizations import Authorizations
from skein_auth.oauth.device_authorization import DeviceFlow
from skein_auth.oauth.device_store import DeviceStore
from skein_auth.oauth.rpc import OAuthRpc
from skein_auth.oauth.server import check_oauth_settings
from skein_auth.oauth.token_endpoint import TokenEndpoint
from skein_auth.oauth_clients.registry import ClientRegistry
from skein_auth.oauth_clients.rpc import OAuthClientsRpc
from skein_auth.oauth_clients.store import ClientStore
from skein_auth.revocation.rpc import RevocationRpc
from skein_auth.revocation.store import RevocationStore
from skein_auth.second_factor.rpc import SecondFactorRpc
from skein_auth.second_factor.store import TotpStore
from skein_auth.second_factor.totp import Totp
from skein_auth.service_accounts.rpc import ServiceAccountsRpc
from skein_auth.service_accounts.store import ServiceAccountStore
from skein_auth.servicers import AuthServicer, IdentityServicer, OAuthServicer
from skein_auth.settings import AuthSettings, SystemKeys
from skein_auth.signing.access_tokens import AccessTokens
from skein_auth.signing.keyring import Keyring
from skein_auth.signing.rpc import SigningKeysRpc
from skein_auth.signing.store import SigningKeyStore
from skein_auth.tenancy.memberships import MembershipClient
from skein_auth.tenancy.tenants import TenantDirectory
from skein_kit.background import background_tasks
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.outbound.fetch import OutboundSettings, SafeHttpClient
from skein_kit.outbound.mail import Mailer, MailSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:  # noqa: PLR0915 - the composition root.
    """Open the pool, put the servicers on it and watch for new signing keys. Raises SettingInvalid."""
    settings = AuthSettings.read(host.environment)
    system_keys = SystemKeys.of(host.settings.system_key, settings.previous_system_key)
    servicers = ServicerRegistry()
    async with host.database("auth", servicers) as database, Passwords.open(settings) as passwords:
        audit_events = AuditStore(database)
        audit = AuditRecorder(audit_events)
        keys = SigningKeyStore(database)
        sealer = SecretCipher(system_keys)
        keyring = Keyring(keys, sealer, access_seconds=settings.access_token_seconds)
        access_tokens = AccessTokens(keyring, partial(host.issuer, settings.issuer), settings.more_resources())
        session_store = AuthSessionStore(database)
        sign_ins = AuthSessions(
            session_store,
            access_tokens,
            audit,
            lifetimes_from(settings),
            refresh_token_derivation_from(system_keys),
        )
        tenancy = host.channel("tenancy")
        tenants = TenantDirectory(tenancy_pb2_grpc.UpkeepServiceStub(tenancy), keyring)
        attempts = AttemptLimiter(AttemptStore(database), limits(settings))
        devices = KnownDevices.of(system_keys)
        operator_keys = OperatorKeyStore(database)
        check_keys = CheckKeys(operator_keys)
        api_keys = ApiKeyStore(database, audit, check_keys)
        legacy = LegacyStore(database, audit)
        looking_up = partial(
            CredentialLookup, api_keys=api_keys, operator_keys=operator_keys, legacy=legacy, check_keys=check_keys
        )
        # What strangers ask of OAuth and what tenants ask about others' credentials never stands before exchanges.
        exchange_lookup, oauth_lookup, introspection_lookup = (
            looking_up(unchecked=UncheckedLookupLimiter()) for _ in range(3)
        )
        uses = LastUseRecorder(api_keys)
        people = AccessTokenAuthenticator(
            tokens=access_tokens,
            sign_ins=sign_ins,
            keys=api_keys,
            tenants=tenants,
            create_tenants=settings.accounts_create_tenants,
        )
        identities = partial(
            Authenticator, people=people, tenants=tenants, system_keys=system_keys, audit=audit, uses=uses
        )
        totp = Totp(TotpStore(database, audit), sealer, passwords, sign_ins, attempts, audit)
        accounts = AccountStore(database, audit)
        one_time_tokens = OneTimeTokenStore(database, audit)
        mailer = Mailer.of(MailSettings.read(host.environment))
        post = TokenMailer(one_time_tokens, mailer, attempts, settings, access_tokens.issuer)
        one_time = OneTimeTokens(one_time_tokens, accounts, post, passwords, devices, attempts, audit)
        outbound_settings = OutboundSettings.read(host.environment)
        self_service = AccountSelfService(
            store=accounts,
            passwords=passwords,
            sign_ins=sign_ins,
            memberships=MembershipClient(tenancy_pb2_grpc.UpkeepServiceStub(tenancy), keyring),
            one_time=one_time,
            attempts=attempts,
            audit=audit,
            sign_up_rule=sign_up_rule(settings.sign_up),
        )
        login = PasswordLogin(
            store=accounts,
            passwords=passwords,
            totp=totp,
            sign_ins=sign_ins,
            devices=devices,
            attempts=attempts,
            audit=audit,
        )
        identity_store = IdentityStore(database, audit)
        federated_login = FederatedLogin(
            store=identity_store,
            providers=Providers.of(ProviderSettings.read(host.environment), outbound_settings.outbound_allow),
            sign_ins=sign_ins,
            totp=totp,
            accounts=accounts,
            devices=devices,
            attempts=attempts,
            audit=audit,
            sign_up_open=settings.sign_up == "open",
        )
        check_oauth_settings(settings)
        clients = ClientRegistry(
            ClientStore(database), SafeHttpClient.of(outbound_settings), settings, passwords, attempts, audit
        )
        authorizations = Authorizations(
            applications=clients,
            store=session_store,
            sign_ins=sign_ins,
            tokens=access_tokens,
            tenants=tenants,
            sealer=sealer,
            audit=audit,
        )
        device_flow = DeviceFlow(
            store=DeviceStore(database),
            applications=clients,
            authorizations=authorizations,
            sign_ins=sign_ins,
            tokens=access_tokens,
            attempts=attempts,
            audit=audit,
            lifetime=timedelta(seconds=settings.device_code_seconds),
        )
        token_endpoint = TokenEndpoint(
            applications=clients,
            store=session_store,
            sign_ins=sign_ins,
            tokens=access_tokens,
            devices=device_flow,
            keys=api_keys,
            lookup=oauth_lookup,
            refusals=RejectedCredentialCache(),
            attempts=attempts,
            tenants=tenants,
            audit=audit,
            lifetime=timedelta(seconds=settings.access_token_seconds),
        )
        maintenance = MaintenanceStore(
            database,
            audit,
            audit_days=settings.audit_days,
            client_unused_days=settings.client_unused_days,
            sweep_seconds=settings.auth_upkeep_seconds,
        )
        introspector = identities(lookup=introspection_lookup)
        accounts_rpc = AccountsRpc(accounts, self_service, one_time)
        clients_rpc = OAuthClientsRpc(clients)
        exchange_rpc = ExchangeRpc(
            authenticator=identities(lookup=exchange_lookup),
            introspector=introspector,
            keyring=keyring,
            check_keys=check_keys,
        )
        auth_servicer = AuthServicer(
            accounts=accounts_rpc,
            login=LoginRpc(login, accounts),
            audit=AuditRpc(audit_events),
            api_keys=ApiKeysRpc(api_keys, legacy),
            signing_keys=SigningKeysRpc(keys, keyring),
            exchange=exchange_rpc,
            revocation=RevocationRpc(RevocationStore(database, audit)),
            oauth_clients=clients_rpc,
            service_accounts=ServiceAccountsRpc(ServiceAccountStore(database, audit)),
            federation=FederationRpc(federated_login, identity_store),
            second_factor=SecondFactorRpc(totp),
        )
        identity_servicer = IdentityServicer(
            exchange=exchange_rpc, accounts=accounts_rpc, maintenance=MaintenanceRpc(maintenance)
        )
        oauth_servicer = OAuthServicer(
            oauth=OAuthRpc(
                tokens=access_tokens,
                clients=clients,
                authorizations=authorizations,
                devices=device_flow,
                endpoint=token_endpoint,
                introspector=introspector,
            ),
            clients=clients_rpc,
        )
        servicers.add(rpc.add_AuthServiceServicer_to_server, auth_servicer)
        servicers.add(rpc.add_IdentityServiceServicer_to_server, identity_servicer)
        servicers.add(oauth_pb2_grpc.add_OAuthServiceServicer_to_server, oauth_servicer)

        async def can_sign() -> bool:
            await check_keys.known()
            return bool(await keyring.active() and await keyring.active("access"))

        servicers.ready_checks.append(can_sign)
        async with background_tasks(
            signing_keys=partial(keyring.keep_fresh, settings.signing_key_refresh_seconds),
            check_keys=partial(check_keys.keep_fresh, CHECK_KEY_SECONDS),
            api_key_uses=partial(uses.keep_writing, settings.api_key_use_seconds),
            **post.senders(),
        ):
            yield servicers


SERVICE = Service(name="auth", port=50051, calls=("tenancy",), start=start)
