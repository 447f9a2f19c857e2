"""The RPCs that concern accounts: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein.auth.v1 import auth_pb2
from skein_auth import convert as wire
from skein_auth.accounts.model import Change, Draft, normal_email
from skein_auth.rpc_group import Rpcs, id_before
from skein_kit.calls.call import Context, caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.identity.permissions import ACCOUNT
from skein_kit.ids import now, parse_id
from skein_kit.rpc import pagination

if TYPE_CHECKING:
    from skein_auth.accounts.store import AccountStore


class AccountRpcs(Rpcs):
    """One's own account."""

    async def GetMe(self, request: auth_pb2.GetMeRequest, context: Context) -> auth_pb2.GetMeResponse:
        who = caller(context)
        is_own = ACCOUNT in who.permissions and who.account_id is not None
        return wire.me(who, await self._parts.accounts.get_account(who.account()) if is_own else None)

    async def SignUp(self, request: pb.SignUpRequest, context: Context) -> pb.SignUpResponse:
        return pb.SignUpResponse(account=await self._parts.own_accounts.sign_up(request))

    async def VerifyEmail(self, request: pb.VerifyEmailRequest, context: Context) -> pb.VerifyEmailResponse:
        return pb.VerifyEmailResponse(account=await self._parts.one_time.verify_email(request.token))

    async def RequestEmailVerification(
        self, request: pb.RequestEmailVerificationRequest, context: Context
    ) -> pb.RequestEmailVerificationResponse:
        who = caller(context)
        await self._parts.one_time.request_verification(who.account(), IdempotencyKey.of(who, request))
        return pb.RequestEmailVerificationResponse()

    async def RequestPasswordReset(
        self, request: pb.RequestPasswordResetRequest, context: Context
    ) -> pb.RequestPasswordResetResponse:
        await self._parts.one_time.request_reset(request.email, request.device_token)
        return pb.RequestPasswordResetResponse()

    async def ResetPassword(self, request: pb.ResetPasswordRequest, context: Context) -> pb.ResetPasswordResponse:
        await self._parts.one_time.reset_password(request.token, request.new_password)
        return pb.ResetPasswordResponse()

    async def UpdateMe(self, request: pb.UpdateMeRequest, context: Context) -> pb.UpdateMeResponse:
        who = caller(context)
        change = Change.own(who.account(), request.account, request.update_mask)
        return await self._parts.own_accounts.update(who, change, IdempotencyKey.of(who, request))

    async def ChangePassword(self, request: pb.ChangePasswordRequest, context: Context) -> pb.ChangePasswordResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        await self._parts.own_accounts.change_password(who, request.old_password, request.new_password, once)
        return pb.ChangePasswordResponse()

    async def DeactivateMe(self, request: pb.DeactivateMeRequest, context: Context) -> pb.DeactivateMeResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        await self._parts.own_accounts.deactivate(who, request.password, once)
        return pb.DeactivateMeResponse()

    async def DeleteMe(self, request: pb.DeleteMeRequest, context: Context) -> pb.DeleteMeResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        await self._parts.own_accounts.delete(who, request.password, once)
        return pb.DeleteMeResponse()


class AccountAdminRpcs(Rpcs):
    """The accounts of everybody, in the hands of the operator."""

    async def CreateAccount(self, request: pb.CreateAccountRequest, context: Context) -> pb.CreateAccountResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._parts.accounts.create_account(Draft.of(request, at=now()), once)

    async def GetAccount(self, request: pb.GetAccountRequest, context: Context) -> pb.GetAccountResponse:
        return pb.GetAccountResponse(account=await _one(self._parts.accounts, request))

    async def ListAccounts(self, request: pb.ListAccountsRequest, context: Context) -> pb.ListAccountsResponse:
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, NO_TENANT, request))
        found = await self._parts.accounts.list_accounts(before=before, size=size + 1)
        response = pb.ListAccountsResponse(accounts=found[:size])
        if len(found) > size:
            response.next_page_token = pagination.write_token([found[size - 1].account_id], NO_TENANT, request)
        return response

    async def UpdateAccount(self, request: pb.UpdateAccountRequest, context: Context) -> pb.UpdateAccountResponse:
        account_id = _account_id(request.account.account_id, "account.account_id")
        change = Change.operators(account_id, request.account, request.update_mask)
        return await self._parts.accounts.update_account(change, IdempotencyKey.of(caller(context), request))

    async def DeleteAccount(self, request: pb.DeleteAccountRequest, context: Context) -> pb.DeleteAccountResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._parts.own_accounts.remove(UUID(request.account_id), once, pb.DeleteAccountResponse())

    async def CreateOneTimeToken(
        self, request: pb.CreateOneTimeTokenRequest, context: Context
    ) -> pb.CreateOneTimeTokenResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._parts.one_time.create(UUID(request.account_id), request.purpose, once)


class StandingRpcs(Rpcs):
    """What services that keep accounts' ids may know of them."""

    async def GetAccountStanding(
        self, request: auth_pb2.GetAccountStandingRequest, context: Context
    ) -> auth_pb2.GetAccountStandingResponse:
        return wire.standing(await _one(self._parts.accounts, request))


def _account_id(text: str, name: str) -> UUID:
    found = parse_id(text)
    if found is None:
        raise FieldInvalid(violations=[(name, "is no id")])
    return found


async def _one(
    accounts: AccountStore, request: pb.GetAccountRequest | auth_pb2.GetAccountStandingRequest
) -> pb.Account:
    """Read the account that a request names by its id or its address."""
    if request.account_id:
        return await accounts.get_account(UUID(request.account_id))
    if request.email:
        return await accounts.get_account_by_email(normal_email(request.email))
    raise FieldInvalid(violations=[("account_id", "or email is needed")])
