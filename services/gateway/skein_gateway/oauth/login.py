"""Browser logins: sign in and out, and the tenants of the account."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skein.auth.v1 import accounts_pb2, auth_pb2_grpc
from skein.tenancy.v1 import members_pb2, tenancy_pb2, tenancy_pb2_grpc
from skein_gateway.identity.credential_cache import IdentityCache
from skein_gateway.oauth.browser import Browser
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.request_handler import OAuthError, error_reason, oauth_error, status_of
from skein_kit.calls.call import AUTHORIZATION_KEY, Call
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCOUNT, PERMISSION_DESCRIPTIONS

# Most tenants in a choice.
_MAX_TENANTS = 1000
# Longer cookies are not from us.
_MAX_DEVICE_TOKEN = 255
# Errors that the login form shows; others propagate.
_FORM_REASONS = frozenset(
    {"SIGN_IN_REFUSED", "SECOND_FACTOR_REQUIRED", "TOO_MANY_ATTEMPTS", "OVERLOADED", "INVALID_FIELD",
     "PASSWORD_TOO_SHORT", "ACCOUNT_EXISTS", "SIGN_UP_CLOSED"}
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantChoice:
    """A tenant of the account."""

    tenant_id: str
    name: str
    role: str


class BrowserLogin:
    """Logins of accounts in a browser."""

    def __init__(
        self,
        credentials: IdentityCache,
        auth: auth_pb2_grpc.AuthServiceAsyncStub,
        tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub,
    ) -> None:
        """Exchange the browser's access token like any other credential."""
        self._credentials = credentials
        self._auth = auth
        self._tenancy = tenancy

    async def current_caller(self, call: Call, browser: Browser) -> Caller | None:
        """Return the signed-in caller and attach it to the call; None without a valid login."""
        if not browser.session:
            return None
        call.metadata = {**call.metadata, AUTHORIZATION_KEY: f"Bearer {browser.session}"}
        try:
            caller = await self._credentials.identify(call)
        except Exception as error:
            if error_reason(error) in {"CREDENTIAL_INVALID", "CREDENTIAL_EXPIRED"}:
                return None
            raise
        # The session cookie must hold an account's access token, not a key or an application's token.
        if ACCOUNT not in caller.permissions:
            call.identity_token = ""
            return None
        return caller

    async def sign_in(self, form: Parameters, browser: Browser) -> accounts_pb2.SignInResponse:
        """Sign in with a form of this browser. Pass errors to `login_form_error`."""
        return await self._auth.SignIn(
            accounts_pb2.SignInRequest(
                email=form.get("email").strip(),
                password=form.get("password"),
                second_factor="".join(form.get("second_factor").split()),
                device_token=device_token_of(browser),
            )
        )

    async def sign_out(self) -> None:
        """End the auth session of the call."""
        await self._auth.SignOut(accounts_pb2.SignOutRequest())

    async def tenants(self) -> list[TenantChoice]:
        """Return the tenants of the calling account, sorted by name."""
        response = await self._tenancy.ListTenants(tenancy_pb2.ListTenantsRequest(page_size=_MAX_TENANTS))
        choices = [
            TenantChoice(tenant_id=tenant.tenant_id, name=_name(tenant), role=_role(tenant))
            for tenant in response.tenants
        ]
        return sorted(choices, key=lambda choice: choice.name.lower())


def needs_tenant(scopes: Iterable[str]) -> bool:
    """Tell whether scopes give access to a tenant, or only to the person's identity."""
    return any(scope in PERMISSION_DESCRIPTIONS for scope in scopes)


def device_token_of(browser: Browser) -> str:
    """Return the browser's device token; empty for a cookie that is not from us."""
    token = browser.device_token
    return token if len(token) <= _MAX_DEVICE_TOKEN else ""


def login_form_error(error: Exception) -> OAuthError:
    """Return the error for the login form. Raises an error that the form does not show."""
    status = status_of(error)
    if status is None or error_reason(error) not in _FORM_REASONS:
        raise error
    return oauth_error(status)


def _name(tenant: tenancy_pb2.Tenant) -> str:
    return tenant.display_name or tenant.slug or tenant.tenant_id


def _role(tenant: tenancy_pb2.Tenant) -> str:
    return members_pb2.Role.Name(tenant.role).removeprefix("ROLE_").lower() if tenant.role else ""
