"""The RPCs of the auth service, in groups."""

from __future__ import annotations

from skein.auth.v1 import auth_pb2_grpc as rpc
from skein_auth.servicer.accounts import AccountAdminRpcs, AccountRpcs
from skein_auth.servicer.audit import AuditRpcs
from skein_auth.servicer.exchange import IdentityServicer
from skein_auth.servicer.identities import IdentityRpcs
from skein_auth.servicer.keys import KeyRpcs
from skein_auth.servicer.oauth import ClientRpcs, OAuthServicer
from skein_auth.servicer.revocation import RevocationRpcs
from skein_auth.servicer.service_accounts import ServiceAccountRpcs
from skein_auth.servicer.sign_in import SignInRpcs
from skein_auth.servicer.totp import TotpRpcs

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
