"""RPCs: accounts: what people do about their own, and the operator about all."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein_auth.accounts import convert
from skein_auth.accounts.model import Change, Draft, normal_email
from skein_auth.pages import id_before
from skein_kit.calls.call import Context, caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.identity.permissions import ACCOUNT
from skein_kit.ids import now, parse_id
from skein_kit.rpc import pagination

if TYPE_CHECKING:
    from skein_auth.accounts.one_time_tokens import OneTimeTokens
    from skein_auth.accounts.self_service import AccountSelfService
    from skein_auth.accounts.store import AccountStore


class AccountsRpc:
    """Accounts: what people do about their own, and the operator about all."""

    def __init__(
        self, accounts: AccountStore, self_service: AccountSelfService, one_time_tokens: OneTimeTokens
    ) -> None:
        self._accounts = accounts
        self._self_service = self_service
        self._one_time_tokens = one_time_tokens

    async def GetMe(self, request: auth_pb2.GetMeRequest, context: Context) -> auth_pb2.GetMeResponse:
        who = caller(context)
        is_own = ACCOUNT in who.permissions and who.account_id is not None
        return convert.me(who, await self._accounts.get_account(who.account()) if is_own else None)

    async def SignUp(self, request: accounts_pb2.SignUpRequest, context: Context) -> accounts_pb2.SignUpResponse:
        return accounts_pb2.SignUpResponse(account=await self._self_service.sign_up(request))

    async def VerifyEmail(
        self, request: accounts_pb2.VerifyEmailRequest, context: Context
    ) -> accounts_pb2.VerifyEmailResponse:
        return accounts_pb2.VerifyEmailResponse(account=await self._one_time_tokens.verify_email(request.token))

    async def RequestEmailVerification(
        self, request: accounts_pb2.RequestEmailVerificationRequest, context: Context
    ) -> accounts_pb2.RequestEmailVerificationResponse:
        who = caller(context)
        await self._one_time_tokens.request_verification(who.account(), IdempotencyKey.of(who, request))
        return accounts_pb2.RequestEmailVerificationResponse()

    async def RequestPasswordReset(
        self, request: accounts_pb2.RequestPasswordResetRequest, context: Context
    ) -> accounts_pb2.RequestPasswordResetResponse:
        await self._one_time_tokens.request_reset(request.email, request.device_token)
        return accounts_pb2.RequestPasswordResetResponse()

    async def ResetPassword(
        self, request: accounts_pb2.ResetPasswordRequest, context: Context
    ) -> accounts_pb2.ResetPasswordResponse:
        await self._one_time_tokens.reset_password(request.token, request.new_password)
        return accounts_pb2.ResetPasswordResponse()

    async def UpdateMe(self, request: accounts_pb2.UpdateMeRequest, context: Context) -> accounts_pb2.UpdateMeResponse:
        who = caller(context)
        change = Change.own(who.account(), request.account, request.update_mask)
        return await self._self_service.update(who, change, IdempotencyKey.of(who, request))

    async def ChangePassword(
        self, request: accounts_pb2.ChangePasswordRequest, context: Context
    ) -> accounts_pb2.ChangePasswordResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        await self._self_service.change_password(who, request.old_password, request.new_password, once)
        return accounts_pb2.ChangePasswordResponse()

    async def DeactivateMe(
        self, request: accounts_pb2.DeactivateMeRequest, context: Context
    ) -> accounts_pb2.DeactivateMeResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        await self._self_service.deactivate(who, request.password, once)
        return accounts_pb2.DeactivateMeResponse()

    async def DeleteMe(self, request: accounts_pb2.DeleteMeRequest, context: Context) -> accounts_pb2.DeleteMeResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        await self._self_service.delete(who, request.password, once)
        return accounts_pb2.DeleteMeResponse()

    async def CreateAccount(
        self, request: accounts_pb2.CreateAccountRequest, context: Context
    ) -> accounts_pb2.CreateAccountResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._accounts.create_account(Draft.of(request, at=now()), once)

    async def GetAccount(
        self, request: accounts_pb2.GetAccountRequest, context: Context
    ) -> accounts_pb2.GetAccountResponse:
        return accounts_pb2.GetAccountResponse(account=await _one(self._accounts, request))

    async def ListAccounts(
        self, request: accounts_pb2.ListAccountsRequest, context: Context
    ) -> accounts_pb2.ListAccountsResponse:
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, NO_TENANT, request))
        found = await self._accounts.list_accounts(before=before, size=size + 1)
        response = accounts_pb2.ListAccountsResponse(accounts=found[:size])
        if len(found) > size:
            response.next_page_token = pagination.write_token([found[size - 1].account_id], NO_TENANT, request)
        return response

    async def UpdateAccount(
        self, request: accounts_pb2.UpdateAccountRequest, context: Context
    ) -> accounts_pb2.UpdateAccountResponse:
        account_id = _account_id(request.account.account_id, "account.account_id")
        change = Change.operators(account_id, request.account, request.update_mask)
        return await self._accounts.update_account(change, IdempotencyKey.of(caller(context), request))

    async def DeleteAccount(
        self, request: accounts_pb2.DeleteAccountRequest, context: Context
    ) -> accounts_pb2.DeleteAccountResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._self_service.remove(UUID(request.account_id), once, accounts_pb2.DeleteAccountResponse())

    async def CreateOneTimeToken(
        self, request: accounts_pb2.CreateOneTimeTokenRequest, context: Context
    ) -> accounts_pb2.CreateOneTimeTokenResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._one_time_tokens.create(UUID(request.account_id), request.purpose, once)

    async def GetAccountStanding(
        self, request: auth_pb2.GetAccountStandingRequest, context: Context
    ) -> auth_pb2.GetAccountStandingResponse:
        return convert.standing(await _one(self._accounts, request))


def _account_id(text: str, name: str) -> UUID:
    found = parse_id(text)
    if found is None:
        raise FieldInvalid(violations=[(name, "is no id")])
    return found


async def _one(
    accounts: AccountStore, request: accounts_pb2.GetAccountRequest | auth_pb2.GetAccountStandingRequest
) -> accounts_pb2.Account:
    """Read the account that a request names by its id or its address."""
    if request.account_id:
        return await accounts.get_account(UUID(request.account_id))
    if request.email:
        return await accounts.get_account_by_email(normal_email(request.email))
    raise FieldInvalid(violations=[("account_id", "or email is needed")])
