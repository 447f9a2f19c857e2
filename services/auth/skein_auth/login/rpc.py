"""The RPC of password logins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts import convert

if TYPE_CHECKING:
    from skein_auth.login.password_login import PasswordLogin
    from skein_kit.calls.call import Context


class LoginHandlers:
    """Logins with a password."""

    def __init__(self, login: PasswordLogin) -> None:
        self._login = login

    async def SignIn(self, request: pb.SignInRequest, context: Context) -> pb.SignInResponse:
        tokens, account, device_token = await self._login.login(request)
        return pb.SignInResponse(tokens=tokens, account=convert.account(account), device_token=device_token)
