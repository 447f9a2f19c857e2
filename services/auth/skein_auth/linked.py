"""Signing in with what an identity provider says, and which identities sign into an account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.errors import IdentityRefused, SignInRefused, SignUpClosed
from skein_kit.call import current
from skein_kit.ids import now

if TYPE_CHECKING:
    from skein_auth.attempts import Attempts
    from skein_auth.audit import Audit
    from skein_auth.providers import Proof, Providers
    from skein_auth.sign_ins import SignIns
    from skein_auth.store.identities import IdentityStore
    from skein_auth.totp import Totp
    from skein_kit.identity import Caller
    from skein_kit.requests import Once


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedIn:
    """What came of a sign-in."""

    account: pb.Account
    tokens: pb.SignInTokens
    # The account was made on the way.
    created: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedIdentities:
    """The identities of all accounts."""

    store: IdentityStore
    providers: Providers
    sign_ins: SignIns
    totp: Totp
    attempts: Attempts
    audit: Audit
    # Whoever has an identity gets an account; else only those whose identity is linked sign in with it.
    sign_up_open: bool

    async def sign_in(self, provider: str, token: str, nonce: str, second_factor: str) -> SignedIn:
        """Begin a sign-in of the account that the identity signs into; where sign-up is open one is made if need be."""
        call = current()
        address = "" if call is None else call.client_address
        async with self.attempts.failing(("address", address)):
            proof = await self._proof(provider, token, nonce)
            account, created = await self._account(proof, address)
            account_id = UUID(account.account_id)
            try:
                await self._let_in(account, account_id, second_factor)
            except SignInRefused as refusal:
                await self.audit.record("sign_in", outcome="refused", reason=refusal.reason, account_id=account_id)
                raise
        tokens = await self.sign_ins.begin_own(account_id, at=now())
        await self.audit.record(
            "sign_in", account_id=account_id, principal=f"account:{account_id}", target=f"identity:{provider}"
        )
        return SignedIn(account=account, tokens=tokens, created=created)

    async def link(self, who: Caller, provider: str, token: str, nonce: str, once: Once) -> pb.LinkIdentityResponse:
        """Let the identity sign into the account, once for each request: its proof may have expired since."""
        if once.request_id and (first := await self.store.answered(once)) is not None:
            return first
        await self.sign_ins.must_be_recent(who)
        account_id = who.account()
        async with self.attempts.failing(("account", str(account_id))):
            proof = await self.providers.prove(provider, token, nonce)
            return await self.store.link(account_id, proof, once)

    async def _let_in(self, account: pb.Account, account_id: UUID, second_factor: str) -> None:
        if account.status != pb.ACCOUNT_STATUS_ACTIVE:
            raise SignInRefused
        async with self.attempts.failing(("account", account.account_id)):
            await self.totp.check(account_id, second_factor)

    async def _proof(self, provider: str, token: str, nonce: str) -> Proof:
        try:
            return await self.providers.prove(provider, token, nonce)
        except IdentityRefused:
            await self.audit.record(
                "sign_in", outcome="refused", reason=SignInRefused.reason, target=f"identity:{provider}"
            )
            raise SignInRefused from None

    async def _account(self, proof: Proof, address: str) -> tuple[pb.Account, bool]:
        """Return the account, and whether it was made just now; of those who come first at once one makes it."""
        found = await self.store.find(proof)
        if found is not None:
            return found, False
        if not self.sign_up_open:
            raise SignUpClosed
        await self.attempts.charge("sign_up", address)
        created = await self.store.create_account(proof)
        found = await self.store.find(proof)
        if found is None:
            # Made and deleted within a moment.
            raise SignInRefused
        return found, created
