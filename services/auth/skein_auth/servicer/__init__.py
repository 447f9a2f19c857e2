"""The RPCs of the auth service, in groups."""

from __future__ import annotations

from skein.auth.v1 import auth_pb2_grpc as rpc
from skein_auth.servicer.exchange import IdentityServicer
from skein_auth.servicer.keys import KeyRpcs

__all__ = ["AuthServicer", "IdentityServicer"]


class AuthServicer(KeyRpcs, rpc.AuthServiceServicer):
    """AuthService: accounts, sign-ins, keys."""
