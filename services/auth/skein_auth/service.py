"""How the auth service is put together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2_grpc as rpc
from skein.auth.v1 import oauth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_auth.accounts.known_devices import KnownDevices
from skein_auth.accounts.one_time_token_store import OneTimeTokenStore
from skein_auth.accounts.one_time_tokens import OneTimeTokens, TokenMailer
from skein_auth.accounts.passwords import Passwords
from skein_auth.accounts.self_service import AccountSelfService, sign_up_rule
from skein_auth.accounts.store import AccountStore
from skein_auth.api_keys.check_keys import CHECK_KEY_SECONDS, CheckKeys, UncheckedLookupLimiter
from skein_auth.api_keys.credential_lookup import CredentialLookup
from skein_auth.api_keys.last_use import LastUseRecorder
from skein_auth.api_keys.legacy_token_store import LegacyStore
from skein_auth.api_keys.store import ApiKeyStore
from skein_auth.attempts.model import AttemptLimiter, limits
from skein_auth.attempts.store import AttemptStore
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.audit.store import AuditStore
from skein_auth.auth_sessions.auth_sessions import AuthSessions, lifetimes_from, refresh_token_derivation_from
from skein_auth.auth_sessions.store import AuthSessionStore
from skein_auth.encryption import SecretCipher
from skein_auth.exchange.access_token_authenticator import AccessTokenAuthenticator
from skein_auth.exchange.authenticator import Authenticator
from skein_auth.exchange.rpc import IdentityServicer
from skein_auth.federation.federated_login import FederatedLogin
from skein_auth.federation.providers import Providers, ProviderSettings
from skein_auth.federation.store import IdentityStore
from skein_auth.login.password_login import PasswordLogin
from skein_auth.maintenance.store import MaintenanceStore
from skein_auth.oauth.rpc import OAuthServicer
from skein_auth.oauth.server import Ingredients, OAuth
from skein_auth.parts import Parts
from skein_auth.revocation.store import RevocationStore
from skein_auth.second_factor.model import Totp
from skein_auth.second_factor.store import TotpStore
from skein_auth.service_accounts.store import ServiceAccountStore
from skein_auth.servicers import AuthServicer
from skein_auth.settings import AuthSettings, SystemKeys
from skein_auth.signing.access_tokens import AccessTokens
from skein_auth.signing.keyring import Keyring
from skein_auth.signing.store import KeyStore
from skein_auth.tenancy.memberships import MembershipClient
from skein_auth.tenancy.tenants import TenantDirectory
from skein_kit.background import background_tasks
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.outbound.fetch import OutboundSettings, SafeHttpClient
from skein_kit.outbound.mail import Mailer, MailSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Open the pool, put the servicers on it and watch for new signing keys. Raises SettingInvalid."""
    settings = AuthSettings.read(host.environment)
    system_keys = SystemKeys.of(host.settings.system_key, settings.previous_system_key)
    servicers = ServicerRegistry()
    async with host.database("auth", servicers) as database, Passwords.open(settings) as passwords:
        audit_events = AuditStore(database)
        audit = AuditRecorder(audit_events)
        keys = KeyStore(database)
        sealer = SecretCipher(system_keys)
        keyring = Keyring(keys, sealer, access_seconds=settings.access_token_seconds)
        access_tokens = AccessTokens(keyring, partial(host.issuer, settings.issuer), settings.more_resources())
        sign_ins = AuthSessions(
            AuthSessionStore(database),
            access_tokens,
            audit,
            lifetimes_from(settings),
            refresh_token_derivation_from(system_keys),
        )
        tenancy = host.channel("tenancy")
        tenants = TenantDirectory(tenancy_pb2_grpc.UpkeepServiceStub(tenancy), keyring)
        attempts = AttemptLimiter(AttemptStore(database), limits(settings))
        devices = KnownDevices.of(system_keys)
        check_keys = CheckKeys(keys)
        api_keys = ApiKeyStore(database, audit, check_keys)
        legacy = LegacyStore(database, audit)
        looking_up = partial(
            CredentialLookup, api_keys=api_keys, operator_keys=keys, legacy=legacy, check_keys=check_keys
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
        parts = Parts(
            settings=settings,
            attempts=attempts,
            audit=audit,
            audit_events=audit_events,
            keys=keys,
            keyring=keyring,
            check_keys=check_keys,
            access_tokens=access_tokens,
            sign_ins=sign_ins,
            accounts=accounts,
            own_accounts=AccountSelfService(
                store=accounts,
                passwords=passwords,
                sign_ins=sign_ins,
                memberships=MembershipClient(tenancy_pb2_grpc.UpkeepServiceStub(tenancy), keyring),
                one_time=one_time,
                attempts=attempts,
                audit=audit,
                sign_up_rule=sign_up_rule(settings.sign_up),
            ),
            one_time=one_time,
            signing_in=PasswordLogin(
                store=accounts,
                passwords=passwords,
                totp=totp,
                sign_ins=sign_ins,
                devices=devices,
                attempts=attempts,
                audit=audit,
            ),
            totp=totp,
            linked=FederatedLogin(
                store=IdentityStore(database, audit),
                providers=Providers.of(ProviderSettings.read(host.environment), outbound_settings.outbound_allow),
                sign_ins=sign_ins,
                totp=totp,
                accounts=accounts,
                devices=devices,
                attempts=attempts,
                audit=audit,
                sign_up_open=settings.sign_up == "open",
            ),
            oauth=OAuth.of(
                Ingredients(
                    settings=settings,
                    database=database,
                    outbound=SafeHttpClient.of(outbound_settings),
                    sealer=sealer,
                    sign_ins=sign_ins,
                    tokens=access_tokens,
                    tenants=tenants,
                    keys=api_keys,
                    passwords=passwords,
                    lookup=oauth_lookup,
                    attempts=attempts,
                    audit=audit,
                )
            ),
            tenants=tenants,
            api_keys=api_keys,
            service_accounts=ServiceAccountStore(database, audit),
            legacy=legacy,
            revocation=RevocationStore(database, audit),
            upkeep=MaintenanceStore(
                database,
                audit,
                audit_days=settings.audit_days,
                client_unused_days=settings.client_unused_days,
                sweep_seconds=settings.auth_upkeep_seconds,
            ),
            identities=identities(lookup=exchange_lookup),
            introspecting=identities(lookup=introspection_lookup),
        )
        servicers.add(rpc.add_AuthServiceServicer_to_server, AuthServicer(parts))
        servicers.add(rpc.add_IdentityServiceServicer_to_server, IdentityServicer(parts))
        servicers.add(oauth_pb2_grpc.add_OAuthServiceServicer_to_server, OAuthServicer(parts))

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
