"""The composition root of the auth service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from skein.auth.v1 import auth_pb2_grpc as rpc
from skein.auth.v1 import oauth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_auth.accounts.known_devices import KnownDevices
from skein_auth.accounts.one_time_token_store import OneTimeTokenStore
from skein_auth.accounts.one_time_tokens import OneTimeTokens, TokenMailer
from skein_auth.accounts.passwords import Passwords
from skein_auth.accounts.rpc import AccountHandlers
from skein_auth.accounts.self_service import AccountSelfService, sign_up_rule
from skein_auth.accounts.store import AccountStore
from skein_auth.api_keys.credential_lookup import CHECK_KEY_SECONDS, CheckKeys, CredentialLookup
from skein_auth.api_keys.last_use import LAST_USE_SECONDS, LastUseRecorder
from skein_auth.api_keys.rpc import ApiKeyHandlers
from skein_auth.api_keys.store import ApiKeyStore, LegacyTokenStore, OperatorKeyStore
from skein_auth.assertions.client_assertions import ClientAssertions
from skein_auth.assertions.identity_assertions import IdentityAssertions, parse_assertion_issuers
from skein_auth.attempts.limiter import AttemptLimiter, limits
from skein_auth.attempts.store import AttemptStore
from skein_auth.audit.chain_store import AuditChain
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.audit.rpc import AuditHandlers
from skein_auth.audit.store import AuditStore
from skein_auth.auth_sessions.auth_sessions import (
    ACCESS_TOKEN_LIFETIME,
    AuthSessions,
    lifetimes_from,
    refresh_token_derivation_from,
)
from skein_auth.auth_sessions.rpc import AuthSessionHandlers
from skein_auth.auth_sessions.store import AuthSessionStore
from skein_auth.encryption import SecretCipher
from skein_auth.erasure_certificates.rpc import ErasureCertificateHandlers
from skein_auth.erasure_certificates.store import ErasureCertificateStore
from skein_auth.exchange.access_token_authenticator import AccessTokenAuthenticator
from skein_auth.exchange.authenticator import Authenticator
from skein_auth.exchange.rejected_credentials import RejectedCredentialCache
from skein_auth.exchange.rpc import ExchangeHandlers
from skein_auth.federation.providers import Providers, ProviderSettings
from skein_auth.federation.rpc import FederatedLogin, FederationHandlers
from skein_auth.federation.store import IdentityStore
from skein_auth.login.password_login import LoginHandlers, PasswordLogin
from skein_auth.maintenance.rpc import MaintenanceHandlers
from skein_auth.maintenance.store import MaintenanceStore
from skein_auth.oauth.authorizations import Authorizations
from skein_auth.oauth.device_authorization import DEVICE_CODE_LIFETIME, DeviceFlow
from skein_auth.oauth.device_store import DeviceStore
from skein_auth.oauth.rpc import OAuthHandlers
from skein_auth.oauth.token_endpoint import TokenEndpoint
from skein_auth.oauth_clients.registry import ClientRegistry
from skein_auth.oauth_clients.rpc import OAuthClientHandlers
from skein_auth.oauth_clients.store import ClientStore
from skein_auth.recall_receipts import RecallReceiptHandlers
from skein_auth.revocation.rpc import RevocationHandlers
from skein_auth.revocation.store import RevocationStore
from skein_auth.second_factor.rpc import SecondFactorHandlers
from skein_auth.second_factor.store import TotpStore
from skein_auth.second_factor.totp import Totp
from skein_auth.service_accounts.rpc import ServiceAccountHandlers
from skein_auth.service_accounts.store import ServiceAccountStore
from skein_auth.settings import AuthSettings, SystemKeys, check_settings
from skein_auth.signing.access_tokens import AccessTokens
from skein_auth.signing.keyring import SIGNING_KEY_SECONDS, Keyring
from skein_auth.signing.rpc import SigningKeyHandlers
from skein_auth.signing.store import SigningKeyStore
from skein_auth.tenant_directory import TenantDirectory
from skein_kit.background import background_tasks
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.outbound.fetch import OutboundSettings, SafeHttpClient
from skein_kit.outbound.mail import Mailer, MailSettings


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:  # noqa: PLR0915 - the composition root.
    """Open the database, add the servicers and start the background tasks. Raises SettingInvalid."""
    settings = AuthSettings.read(host.environment)
    check_settings(settings)
    system_keys = SystemKeys.of(host.settings.system_key, settings.system_key_previous)
    servicers = ServicerRegistry()
    async with host.database("auth", servicers) as database, Passwords.open(settings) as passwords:
        idempotency = IdempotencyStore(database, "auth")
        audit_store = AuditStore(database)
        audit = AuditRecorder(audit_store)
        cipher = SecretCipher(system_keys)
        signing_key_store = SigningKeyStore(database)
        keyring = Keyring(signing_key_store, cipher, access_seconds=int(ACCESS_TOKEN_LIFETIME.total_seconds()))
        access_tokens = AccessTokens(keyring, partial(host.issuer, settings.issuer), settings.more_resources())
        auth_session_store = AuthSessionStore(database)
        auth_sessions = AuthSessions(
            auth_session_store,
            access_tokens,
            audit,
            lifetimes_from(settings),
            refresh_token_derivation_from(system_keys),
        )
        tenants = TenantDirectory(
            tenancy_pb2_grpc.TenancyInternalServiceStub(host.channel("tenancy", caller="auth")), keyring
        )
        attempt_store = AttemptStore(database)
        attempts = AttemptLimiter(attempt_store, limits(settings))
        devices = KnownDevices.of(system_keys)
        operator_keys = OperatorKeyStore(database)
        check_keys = CheckKeys(operator_keys)
        api_keys = ApiKeyStore(database, audit)
        legacy_tokens = LegacyTokenStore(database, audit)
        # Each has its own slots: OAuth's strangers and introspection must not block exchanges.
        exchange_lookup, oauth_lookup, introspection_lookup = (
            CredentialLookup(
                api_keys=api_keys, operator_keys=operator_keys, legacy_tokens=legacy_tokens, check_keys=check_keys
            )
            for _ in range(3)
        )
        last_uses = LastUseRecorder(api_keys)
        access_token_authenticator = AccessTokenAuthenticator(
            tokens=access_tokens,
            auth_sessions=auth_sessions,
            keys=api_keys,
            tenants=tenants,
            create_tenants=settings.accounts_create_tenants,
        )
        authenticator, introspector = (
            Authenticator(
                lookup=lookup,
                access_tokens=access_token_authenticator,
                tenants=tenants,
                system_keys=system_keys,
                audit=audit,
                last_uses=last_uses,
            )
            for lookup in (exchange_lookup, introspection_lookup)
        )
        totp = Totp(
            store=TotpStore(database, audit),
            cipher=cipher,
            passwords=passwords,
            auth_sessions=auth_sessions,
            attempts=attempts,
            audit=audit,
            idempotency=idempotency,
        )
        accounts = AccountStore(database, audit)
        token_store = OneTimeTokenStore(database, audit)
        mailer = Mailer.from_settings(MailSettings.read(host.environment))
        token_mailer = TokenMailer(token_store, mailer, attempts, settings, access_tokens.issuer)
        one_time_tokens = OneTimeTokens(
            store=token_store,
            accounts=accounts,
            mailer=token_mailer,
            passwords=passwords,
            devices=devices,
            attempts=attempts,
            audit=audit,
            idempotency=idempotency,
        )
        self_service = AccountSelfService(
            store=accounts,
            passwords=passwords,
            auth_sessions=auth_sessions,
            tenants=tenants,
            one_time_tokens=one_time_tokens,
            attempts=attempts,
            audit=audit,
            idempotency=idempotency,
            sign_up_rule=sign_up_rule(settings.sign_up),
        )
        login = PasswordLogin(
            store=accounts,
            passwords=passwords,
            totp=totp,
            auth_sessions=auth_sessions,
            devices=devices,
            attempts=attempts,
            audit=audit,
        )
        outbound_settings = OutboundSettings.read(host.environment)
        identity_store = IdentityStore(database, audit)
        federated_login = FederatedLogin(
            store=identity_store,
            providers=Providers.of(ProviderSettings.read(host.environment), outbound_settings.outbound_allow),
            auth_sessions=auth_sessions,
            totp=totp,
            accounts=accounts,
            devices=devices,
            attempts=attempts,
            audit=audit,
            is_sign_up_open=settings.sign_up == "open",
        )
        client_store = ClientStore(database)
        outbound = SafeHttpClient.from_settings(outbound_settings)
        client_assertions = ClientAssertions(outbound, attempt_store, access_tokens.issuer)
        clients = ClientRegistry(client_store, outbound, settings, passwords, attempts, audit, client_assertions)
        authorizations = Authorizations(
            registry=clients,
            store=auth_session_store,
            auth_sessions=auth_sessions,
            tokens=access_tokens,
            tenants=tenants,
            cipher=cipher,
            audit=audit,
        )
        device_flow = DeviceFlow(
            store=DeviceStore(database),
            registry=clients,
            authorizations=authorizations,
            auth_sessions=auth_sessions,
            tokens=access_tokens,
            attempts=attempts,
            audit=audit,
            lifetime=DEVICE_CODE_LIFETIME,
        )
        identity_assertions = IdentityAssertions(
            issuers=parse_assertion_issuers(settings.assertion_issuers, outbound_settings.outbound_allow),
            store=auth_session_store,
            auth_sessions=auth_sessions,
            identities=identity_store,
            tenants=tenants,
            tokens=access_tokens,
            attempts=attempt_store,
        )
        token_endpoint = TokenEndpoint(
            registry=clients,
            store=auth_session_store,
            auth_sessions=auth_sessions,
            tokens=access_tokens,
            devices=device_flow,
            identity_assertions=identity_assertions,
            keys=api_keys,
            lookup=oauth_lookup,
            rejected_credentials=RejectedCredentialCache(),
            attempts=attempts,
            tenants=tenants,
            audit=audit,
            lifetime=ACCESS_TOKEN_LIFETIME,
        )
        audit_chain = AuditChain(database, keyring, signing_key_store)
        maintenance = MaintenanceStore(
            database,
            audit,
            audit_chain,
            idempotency,
            audit_days=settings.audit_days,
        )
        account_handlers = AccountHandlers(
            store=accounts,
            self_service=self_service,
            tokens=one_time_tokens,
            token_store=token_store,
            token_lifetimes=token_mailer.lifetimes,
            idempotency=idempotency,
        )
        client_handlers = OAuthClientHandlers(clients, client_store, audit, idempotency)
        exchange_handlers = ExchangeHandlers(
            authenticator=authenticator, introspector=introspector, keyring=keyring, check_keys=check_keys
        )
        certificate_handlers = ErasureCertificateHandlers(
            ErasureCertificateStore(database, backup_days=settings.backup_retention_days), keyring
        )
        servicers.add(
            rpc.add_AuthServiceServicer_to_server,
            account_handlers,
            LoginHandlers(login),
            AuthSessionHandlers(auth_sessions, auth_session_store, audit, idempotency),
            AuditHandlers(audit_store),
            ApiKeyHandlers(api_keys, legacy_tokens, check_keys, idempotency),
            SigningKeyHandlers(signing_key_store, keyring, audit, idempotency),
            exchange_handlers,
            RevocationHandlers(RevocationStore(audit), idempotency),
            client_handlers,
            ServiceAccountHandlers(ServiceAccountStore(database, audit), idempotency),
            FederationHandlers(federated_login, identity_store, auth_sessions, idempotency),
            SecondFactorHandlers(totp),
            certificate_handlers,
        )
        servicers.add(
            rpc.add_AuthInternalServiceServicer_to_server,
            exchange_handlers,
            account_handlers,
            MaintenanceHandlers(maintenance, audit_chain),
            certificate_handlers,
            RecallReceiptHandlers(keyring),
        )
        servicers.add(
            oauth_pb2_grpc.add_OAuthServiceServicer_to_server,
            OAuthHandlers(
                tokens=access_tokens,
                clients=clients,
                authorizations=authorizations,
                devices=device_flow,
                endpoint=token_endpoint,
                introspector=introspector,
            ),
            client_handlers,
        )

        async def can_sign() -> bool:
            await check_keys.get_all()
            return bool(await keyring.active_key() and await keyring.active_key("access"))

        servicers.ready_checks.append(can_sign)
        async with background_tasks(
            signing_keys=partial(keyring.refresh_periodically, SIGNING_KEY_SECONDS),
            check_keys=partial(check_keys.refresh_periodically, CHECK_KEY_SECONDS),
            api_key_uses=partial(last_uses.flush_periodically, LAST_USE_SECONDS),
            **token_mailer.senders(),
        ):
            yield servicers


SERVICE = Service(name="auth", port=50051, depends_on=("tenancy",), start=start)
