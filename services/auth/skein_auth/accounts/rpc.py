"""The RPCs of accounts: those of people for their own account, and those of the operator for all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein_auth.accounts import convert
from skein_auth.accounts.model import Account, TokenPurpose, normalize_email, parse_one_time_token
from skein_auth.accounts.one_time_token_store import OneTimeTokenStore
from skein_auth.accounts.one_time_tokens import OneTimeTokens
from skein_auth.accounts.self_service import AccountSelfService
from skein_auth.accounts.store import AccountStore
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.permissions import ACCOUNT
from skein_kit.ids import now, parse_id
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import to_timestamp

_PURPOSES = {
    accounts_pb2.TOKEN_PURPOSE_EMAIL_VERIFICATION: TokenPurpose.EMAIL_VERIFICATION,
    accounts_pb2.TOKEN_PURPOSE_PASSWORD_RESET: TokenPurpose.PASSWORD_RESET,
}


class AccountHandlers:
    """Accounts of people."""

    def __init__(
        self,
        *,
        store: AccountStore,
        self_service: AccountSelfService,
        tokens: OneTimeTokens,
        token_store: OneTimeTokenStore,
        token_lifetimes: Mapping[TokenPurpose, timedelta],
        idempotency: IdempotencyStore,
    ) -> None:
        self._store = store
        self._self_service = self_service
        self._tokens = tokens
        self._token_store = token_store
        self._token_lifetimes = token_lifetimes
        self._idempotency = idempotency

    async def GetMe(self, request: auth_pb2.GetMeRequest, context: Context) -> auth_pb2.GetMeResponse:
        caller = caller_of(context)
        has_own_session = ACCOUNT in caller.permissions and caller.account_id is not None
        account = await self._store.get_account(caller.require_account()) if has_own_session else None
        return convert.get_me_response(caller, account)

    async def SignUp(self, request: accounts_pb2.SignUpRequest, context: Context) -> accounts_pb2.SignUpResponse:
        account = await self._self_service.sign_up(
            request.email,
            request.password,
            display_name=request.display_name,
            invitation_token=request.invitation_token,
        )
        return accounts_pb2.SignUpResponse(account=convert.account(account))

    async def VerifyEmail(
        self, request: accounts_pb2.VerifyEmailRequest, context: Context
    ) -> accounts_pb2.VerifyEmailResponse:
        account = await self._token_store.verify_email(parse_one_time_token(request.token))
        return accounts_pb2.VerifyEmailResponse(account=convert.account(account))

    async def RequestEmailVerification(
        self, request: accounts_pb2.RequestEmailVerificationRequest, context: Context
    ) -> accounts_pb2.RequestEmailVerificationResponse:
        caller = caller_of(context)
        await self._tokens.request_verification(caller.require_account(), IdempotencyKey.of(caller, request))
        return accounts_pb2.RequestEmailVerificationResponse()

    async def RequestPasswordReset(
        self, request: accounts_pb2.RequestPasswordResetRequest, context: Context
    ) -> accounts_pb2.RequestPasswordResetResponse:
        await self._tokens.request_reset(request.email, request.device_token)
        return accounts_pb2.RequestPasswordResetResponse()

    async def ResetPassword(
        self, request: accounts_pb2.ResetPasswordRequest, context: Context
    ) -> accounts_pb2.ResetPasswordResponse:
        await self._tokens.reset_password(request.token, request.new_password)
        return accounts_pb2.ResetPasswordResponse()

    async def UpdateMe(self, request: accounts_pb2.UpdateMeRequest, context: Context) -> accounts_pb2.UpdateMeResponse:
        caller = caller_of(context)
        change = convert.own_change(caller.require_account(), request.account, request.update_mask)
        idempotency_key = IdempotencyKey.of(caller, request)
        if "email" in change.values and await self._idempotency.saved_response(NO_TENANT, idempotency_key) is None:
            await self._self_service.check_email_change(caller)
        async with self._idempotency.begin_as_account(change.account_id, idempotency_key) as write:
            account, new_email = await self._store.update_own(write.tx, change)
            response = await write.save(accounts_pb2.UpdateMeResponse(account=convert.account(account)))
        if new_email:
            await self._self_service.send_verification(change.account_id)
        return response

    async def ChangePassword(
        self, request: accounts_pb2.ChangePasswordRequest, context: Context
    ) -> accounts_pb2.ChangePasswordResponse:
        caller = caller_of(context)
        idempotency_key = IdempotencyKey.of(caller, request)
        await self._self_service.change_password(caller, request.old_password, request.new_password, idempotency_key)
        return accounts_pb2.ChangePasswordResponse()

    async def DeactivateMe(
        self, request: accounts_pb2.DeactivateMeRequest, context: Context
    ) -> accounts_pb2.DeactivateMeResponse:
        caller = caller_of(context)
        await self._self_service.deactivate(caller, request.password, IdempotencyKey.of(caller, request))
        return accounts_pb2.DeactivateMeResponse()

    async def DeleteMe(self, request: accounts_pb2.DeleteMeRequest, context: Context) -> accounts_pb2.DeleteMeResponse:
        caller = caller_of(context)
        await self._self_service.delete_own(caller, request.password, IdempotencyKey.of(caller, request))
        return accounts_pb2.DeleteMeResponse()

    async def CreateAccount(
        self, request: accounts_pb2.CreateAccountRequest, context: Context
    ) -> accounts_pb2.CreateAccountResponse:
        idempotency_key = IdempotencyKey.of(caller_of(context), request)
        draft = convert.draft(request, at=now())
        async with self._idempotency.begin_with_key(NO_TENANT, idempotency_key) as write:
            account = await self._store.create_account(write.tx, draft)
            return await write.save(accounts_pb2.CreateAccountResponse(account=convert.account(account)))

    async def GetAccount(
        self, request: accounts_pb2.GetAccountRequest, context: Context
    ) -> accounts_pb2.GetAccountResponse:
        return accounts_pb2.GetAccountResponse(account=convert.account(await self._find(request)))

    async def ListAccounts(
        self, request: accounts_pb2.ListAccountsRequest, context: Context
    ) -> accounts_pb2.ListAccountsResponse:
        size = pagination.resolve_page_size(request.page_size)
        before = pagination.read_id(NO_TENANT, request)
        accounts = await self._store.list_accounts(before=before, size=size + 1)
        page, token = pagination.fit_rows(
            accounts, convert.account, lambda account: [str(account.account_id)], request, NO_TENANT, size=size
        )
        return accounts_pb2.ListAccountsResponse(accounts=page, next_page_token=token)

    async def UpdateAccount(
        self, request: accounts_pb2.UpdateAccountRequest, context: Context
    ) -> accounts_pb2.UpdateAccountResponse:
        account_id = parse_id(request.account.account_id)
        if account_id is None:
            raise FieldInvalid(violations=[("account.account_id", "is no id")])
        change = convert.operator_change(account_id, request.account, request.update_mask)
        idempotency_key = IdempotencyKey.of(caller_of(context), request)
        async with self._idempotency.begin_as_account(account_id, idempotency_key) as write:
            account = await self._store.update_account(write.tx, change)
            return await write.save(accounts_pb2.UpdateAccountResponse(account=convert.account(account)))

    async def DeleteAccount(
        self, request: accounts_pb2.DeleteAccountRequest, context: Context
    ) -> accounts_pb2.DeleteAccountResponse:
        idempotency_key = IdempotencyKey.of(caller_of(context), request)
        await self._self_service.delete(UUID(request.account_id), idempotency_key)
        return accounts_pb2.DeleteAccountResponse()

    async def CreateOneTimeToken(
        self, request: accounts_pb2.CreateOneTimeTokenRequest, context: Context
    ) -> accounts_pb2.CreateOneTimeTokenResponse:
        idempotency_key = IdempotencyKey.of(caller_of(context), request)
        account_id, purpose = UUID(request.account_id), _PURPOSES[request.purpose]
        lifetime = self._token_lifetimes[purpose]
        async with self._idempotency.begin_with_key(NO_TENANT, idempotency_key) as write:
            token, expire_time = await self._token_store.create_for_operator(write.tx, account_id, purpose, lifetime)
            response = await write.save(accounts_pb2.CreateOneTimeTokenResponse(expire_time=to_timestamp(expire_time)))
        # After the save: the saved response must not contain the secret.
        response.token = token.encode()
        return response

    async def GetAccountState(
        self, request: auth_pb2.GetAccountStateRequest, context: Context
    ) -> auth_pb2.GetAccountStateResponse:
        return convert.account_state(await self._find(request))

    async def _find(self, request: accounts_pb2.GetAccountRequest | auth_pb2.GetAccountStateRequest) -> Account:
        """Read the account that a request names by its id or its address."""
        if request.account_id:
            return await self._store.get_account(UUID(request.account_id))
        if request.email:
            return await self._store.get_account_by_email(normalize_email(request.email))
        raise FieldInvalid(violations=[("account_id", "or email is needed")])
