"""People for the tests: fresh accounts that signed in, and members of tenants."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from fix_cluster import Cluster, Stubs, Tenant

from skein.auth.v1 import accounts_pb2 as pb
from skein.tenancy.v1 import members_pb2

PASSWORD = "correct horse battery"
_ROLES = {
    "viewer": members_pb2.ROLE_VIEWER,
    "member": members_pb2.ROLE_MEMBER,
    "admin": members_pb2.ROLE_ADMIN,
    "owner": members_pb2.ROLE_OWNER,
}


@dataclass(frozen=True)
class Account:
    """A person who signed in."""

    email: str
    password: str
    account_id: str
    access_token: str
    refresh_token: str
    # Calls with the access token; of a member they act in the tenant.
    stubs: Stubs


def new_email() -> str:
    """Make an address that no other test has."""
    return f"{uuid.uuid4().hex}@example.org"


async def sign_in(cluster: Cluster, email: str, password: str = PASSWORD, second_factor: str = "") -> Account:
    """Begin another sign-in of an account."""
    request = pb.SignInRequest(email=email, password=password, second_factor=second_factor)
    answer = await cluster.anonymous.auth.SignIn(request)
    return Account(
        email=email,
        password=password,
        account_id=answer.account.account_id,
        access_token=answer.tokens.access_token,
        refresh_token=answer.tokens.refresh_token,
        stubs=cluster.with_key(answer.tokens.access_token),
    )


async def new_account(cluster: Cluster, *, password: str = PASSWORD) -> Account:
    """Sign a new person up and in."""
    email = new_email()
    await cluster.anonymous.auth.SignUp(pb.SignUpRequest(email=email, password=password))
    return await sign_in(cluster, email, password)


async def member(cluster: Cluster, tenant: Tenant, role: str) -> Account:
    """Make a new account a member of the tenant, in which it acts."""
    account = await new_account(cluster)
    metadata = {"skein-tenant-id": str(tenant.tenant_id)}
    operator = cluster.with_key(cluster.operator_key, **metadata)
    await operator.tenancy.AddMember(members_pb2.AddMemberRequest(account_id=account.account_id, role=_ROLES[role]))
    return replace(account, stubs=cluster.with_key(account.access_token, **metadata))
