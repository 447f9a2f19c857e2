"""The RPC of password logins."""

from __future__ import annotations

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts import convert
from skein_auth.auth_sessions.rpc import session_tokens
from skein_auth.login.password_login import PasswordLogin
from skein_kit.calls.call import Context


class LoginHandlers:
    """Logins with a password."""

    def __init__(self, login: PasswordLogin) -> None:
        self._login = login

    async def SignIn(self, request: pb.SignInRequest, context: Context) -> pb.SignInResponse:
        result = await self._login.login(
            request.email, request.password, second_factor=request.second_factor, device_token=request.device_token
        )
        return pb.SignInResponse(
            tokens=session_tokens(result.tokens),
            account=convert.account(result.account),
            device_token=result.device_token,
        )
