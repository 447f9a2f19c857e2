"""The RPCs of the auth service, in groups."""

from __future__ import annotations

from skein.auth.v1 import auth_pb2_grpc as rpc
from skein_auth.accounts.rpc import AccountAdminRpcs, AccountRpcs
from skein_auth.api_keys.rpc import KeyRpcs
from skein_auth.audit.rpc import AuditRpcs
from skein_auth.exchange.rpc import IdentityServicer
from skein_auth.federation.rpc import IdentityRpcs
from skein_auth.login.rpc import SignInRpcs
from skein_auth.oauth.rpc import ClientRpcs, OAuthServicer
from skein_auth.revocation.rpc import RevocationRpcs
from skein_auth.second_factor.rpc import TotpRpcs
from skein_auth.service_accounts.rpc import ServiceAccountRpcs

__all__ = ["AuthServicer", "IdentityServicer", "OAuthServicer"]


class AuthServicer(
    AccountRpcs,
    AccountAdminRpcs,
    SignInRpcs,
    AuditRpcs,
    KeyRpcs,
    RevocationRpcs,
    ClientRpcs,
    ServiceAccountRpcs,
    IdentityRpcs,
    TotpRpcs,
    rpc.AuthServiceServicer,
):
    """AuthService: accounts, sign-ins, keys."""
