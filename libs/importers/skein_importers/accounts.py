"""Imports accounts, OAuth clients and memberships of a source, as the operator.

An existing account belongs to the same person only if its address was verified: anyone can sign up with an address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from skein.auth.v1 import accounts_pb2, oauth_pb2
from skein.tenancy.v1 import members_pb2
from skein_client.client import Client
from skein_client.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from skein_importers.importer import read_chunks
from skein_importers.records import UnreadableRecord
from skein_importers.report import MAX_REFUSED_SHOWN, Outcome, RefusedRecord, Report
from skein_importers.sources.base import Membership, OAuthClient, Person
from skein_importers.sources.rows import to_timestamp

ACCOUNT, CLIENT, MEMBERSHIP = "account", "oauth_client", "membership"
_KINDS = {Person: ACCOUNT, OAuthClient: CLIENT, Membership: MEMBERSHIP}
_REFUSALS = (InvalidArgument, AlreadyExists, FailedPrecondition, NotFound)
_UNVERIFIED = (
    "An account here has this address unverified, so it may belong to another person: "
    "`skein members invite` lets them in."
)
_ROLES = {
    "owner": members_pb2.ROLE_OWNER,
    "admin": members_pb2.ROLE_ADMIN,
    "member": members_pb2.ROLE_MEMBER,
    "viewer": members_pb2.ROLE_VIEWER,
}


class AccountImporter:
    """The accounts, OAuth clients and memberships of one import."""

    def __init__(self, operator: Client, tenants: Mapping[str, str], report: Report) -> None:
        """Write as `operator`; `tenants` has the tenant of each realm."""
        self._operator = operator
        self._tenants = tenants
        self._report = report
        self._accounts: dict[str, accounts_pb2.Account] = {}
        # Addresses of accounts that this import created.
        self._own_addresses: set[str] = set()

    async def run(self, entries: Iterable[Person | OAuthClient | Membership | UnreadableRecord]) -> None:
        """Import all entries, which are ordered: people first, memberships last."""
        async for chunk in read_chunks(entries):  # type: ignore[arg-type]  # It yields the same items.
            for entry in chunk:
                await self._write(entry)  # type: ignore[arg-type]  # As above.

    async def _write(self, entry: Person | OAuthClient | Membership | UnreadableRecord) -> None:
        if isinstance(entry, UnreadableRecord):
            self._report.count_read(entry)
            return
        count_read(entry, self._report)
        try:
            match entry:
                case Person():
                    is_new = await self._person(entry)
                case OAuthClient():
                    is_new = await self._client(entry)
                case _:
                    is_new = await self._membership(entry)
        except _REFUSALS as error:
            self._refuse(entry, self._report.describe_error(error))
        except _AccountNotOwned:
            self._refuse(entry, _UNVERIFIED)
        else:
            outcome = Outcome.WRITTEN if is_new else Outcome.SKIPPED
            self._report.outcomes[_table(entry), _KINDS[type(entry)], outcome] += 1
            (self._report.written if is_new else self._report.skipped)[_KINDS[type(entry)]] += 1

    async def _person(self, person: Person) -> bool:
        values = (person.email, person.display_name, person.create_time, person.update_time)
        digest = hashlib.sha256("\n".join(map(str, values)).encode()).hexdigest()
        request = accounts_pb2.CreateAccountRequest(
            email=person.email,
            display_name=person.display_name,
            password_hash=person.password_hash,
            # A repeated import recognizes its accounts by it for a day.
            request_id=f"import-{digest}",
        )
        for value, field in (
            (person.create_time, request.create_time),
            (person.update_time, request.update_time),
        ):
            if value is not None:
                field.CopyFrom(to_timestamp(value))
        existing_account = await self._account(person.email)
        try:
            account = (await self._operator.auth.CreateAccount(request)).account
        except AlreadyExists:
            return False
        self._accounts[person.email] = account
        self._own_addresses.add(person.email)
        return existing_account is None

    async def _client(self, client: OAuthClient) -> bool:
        values = oauth_pb2.Client(
            client_id=client.client_id,
            client_name=client.name,
            redirect_uris=client.redirect_uris,
            grant_types=client.grant_types,
            response_types=client.response_types,
            token_endpoint_auth_method=client.auth_method,
        )
        for value, field in (
            (client.create_time, values.create_time),
            (client.secret_expire_time, values.secret_expire_time),
        ):
            if value is not None:
                field.CopyFrom(to_timestamp(value))
        request = oauth_pb2.ImportClientRequest(client=values, secret_hash=bytes.fromhex(client.secret_hash))
        return not (await self._operator.auth.ImportClient(request)).existed

    async def _membership(self, membership: Membership) -> bool:
        account = await self._account(membership.email)
        if account is None:
            raise NotFound("Its account was not imported.")
        tenant_metadata = (("skein-tenant-id", self._tenants[membership.realm]),)
        try:
            await self._operator.tenancy.GetMember(
                members_pb2.GetMemberRequest(account_id=account.account_id), metadata=tenant_metadata
            )
        except NotFound:
            pass
        else:
            return False
        if membership.email not in self._own_addresses and not account.HasField("email_verify_time"):
            raise _AccountNotOwned
        await self._operator.tenancy.AddMember(
            members_pb2.AddMemberRequest(account_id=account.account_id, role=_ROLES[membership.role]),
            metadata=tenant_metadata,
        )
        return True

    async def _account(self, email: str) -> accounts_pb2.Account | None:
        if email not in self._accounts:
            try:
                response = await self._operator.auth.GetAccount(accounts_pb2.GetAccountRequest(email=email))
            except NotFound:
                return None
            self._accounts[email] = response.account
        return self._accounts[email]

    def _refuse(self, entry: Person | OAuthClient | Membership, reason: str) -> None:
        self._report.outcomes[_table(entry), _KINDS[type(entry)], Outcome.REFUSED] += 1
        self._report.refused_count += 1
        if len(self._report.refused) < MAX_REFUSED_SHOWN:
            self._report.refused.append(RefusedRecord(entry.where, _KINDS[type(entry)], "", reason))


class _AccountNotOwned(Exception):
    """An account may belong to another person."""


def count_read(entry: Person | OAuthClient | Membership | UnreadableRecord, report: Report) -> None:
    """Count an entry that was read."""
    if isinstance(entry, UnreadableRecord):
        report.count_read(entry)
        return
    report.read[_KINDS[type(entry)]] += 1
    report.records[_table(entry), _KINDS[type(entry)]] += 1


def _table(entry: Person | OAuthClient | Membership) -> str:
    return entry.where.partition(" ")[0]
