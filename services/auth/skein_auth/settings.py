"""Settings of the auth service."""

from __future__ import annotations

import dataclasses
from urllib.parse import urlsplit

from skein_kit.settings import SettingInvalid, Settings

MIN_SYSTEM_KEY = 32
_REGISTRATION = ("open", "token", "closed")
_MIN_TOKEN_CHARACTERS = 32
_MAX_CODE_SECONDS = 600
_AT_LEAST_ONE = (
    "access_token_seconds",
    "refresh_token_seconds",
    "sign_in_seconds",
    "device_code_seconds",
    "client_unused_days",
    "unused_clients_per_address_most",
    "unused_clients_most",
)
# The database keeps events of 30 days, whatever the setting.
_MIN_AUDIT_DAYS = 31
_GENERATE_HINT = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(48))'"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuthSettings(Settings):
    """Settings of the auth service, besides those of every process."""

    # The system key before this one. It still decrypts secrets and is accepted from the cluster's services, so that a
    # cluster can change its key without downtime.
    previous_system_key: str = dataclasses.field(default="", repr=False)
    # Seconds until a replica reads a new signing key of another one.
    signing_key_refresh_seconds: float = 2.0
    # Let every account create tenants; otherwise only the operator creates them.
    accounts_create_tenants: bool = False
    # Seconds between two writes of the last use of API keys.
    api_key_use_seconds: float = 60.0
    # Days that audit events are kept, 31 at least.
    audit_days: int = 400
    # Days after which every backup and archived segment is removed, as certificates of erasures state. 0: unknown, and
    # the certificates say so.
    backup_retention_days: int = 0
    # Issuer of tokens: the public HTTP URL of the gateway, without a slash at its end, e.g. https://skein.example.
    # Empty: the address of the gateway's own HTTP port.
    issuer: str = ""
    # Resources of access tokens besides the issuer and <issuer>/mcp, separated by commas.
    resources: str = ""
    # Who may register OAuth clients: everyone (open), holders of the initial access token (token), or no one (closed).
    registration: str = "open"
    # The token for the registration of OAuth clients if SKEIN_REGISTRATION is "token"; at least 32 characters.
    initial_access_token: str = dataclasses.field(default="", repr=False)
    # Private-use schemes without a dot that redirect URIs may have, separated by commas: those of editors on the
    # person's device (RFC 8252, 7.1). The whole URI must be the registered one, and the code needs the verifier (PKCE).
    redirect_schemes: str = "cursor,windsurf,vscode,vscode-insiders"
    # Identity providers whose identity assertions (ID-JAG) clients exchange for access tokens, separated by spaces or
    # commas: issuer;tenant_id. An issuer speaks for that tenant, and for people whose identity is linked to an account.
    assertion_issuers: str = ""
    # Lifetime of an access token, in seconds.
    access_token_seconds: int = 3600
    # Seconds that a refresh token stays valid without use.
    refresh_token_seconds: int = 2_592_000
    # Lifetime of an auth session or grant, in seconds, however much it is used.
    sign_in_seconds: int = 7_776_000
    # Seconds in which a client that lost the response to a refresh, or to a device code, may repeat the request.
    refresh_grace_seconds: int = 10
    # Lifetime of an authorization code, in seconds; at most 600.
    code_seconds: int = 600
    # Lifetime of a device code, in seconds.
    device_code_seconds: int = 600
    # Who may sign up: everyone (open), holders of an invitation to a tenant (invited), or no one (closed).
    sign_up: str = "invited"
    # Memory of one password hash (argon2id), in KiB. After a change, each password is hashed again at its next login.
    password_hash_memory_kib: int = 19_456
    # Iterations of argon2id.
    password_hash_iterations: int = 2
    # Parallelism (lanes) of argon2id.
    password_hash_parallelism: int = 1
    # Passwords that are hashed at a time. One source gets at most three quarters of the threads, and at least one.
    password_hash_threads: int = 2
    # Most calls that wait for a password hash; further ones are refused as OVERLOADED.
    password_hash_waiting: int = 64
    # Lifetime of a link that verifies an address, in seconds.
    verification_seconds: int = 86_400
    # Lifetime of a link that resets a password, in seconds.
    password_reset_seconds: int = 3600
    # Most failed attempts within the window: of logins to one account from one source (IPv6: one /64) or one known
    # device. The same limit holds for second factors of one account, and for secrets of one client.
    attempts_most: int = 10
    # Most failed attempts of one source that are recorded within the window. Valid credentials always pass.
    address_attempts_most: int = 10
    # Length of the window, in seconds.
    attempts_window_seconds: int = 900
    # Most sign-ups from one address within an hour.
    sign_ups_most: int = 10
    # Most registrations of OAuth clients from one address within an hour.
    registrations_most: int = 20
    # Most device authorizations from one address within an hour.
    device_starts_most: int = 60
    # Most requests for mail from one address within an hour.
    mail_requests_most: int = 10
    # Days until a self-registered OAuth client without grants is deleted, after its registration or the end of its last
    # grant.
    client_unused_days: int = 30
    # Most OAuth clients without a grant that were registered from one address (IPv6: one /64). A further one replaces
    # the oldest, if that is at least an hour old; otherwise it is refused.
    unused_clients_per_address_most: int = 100
    # Most OAuth clients without a grant, of all addresses together.
    unused_clients_most: int = 20_000
    # Most mails with one purpose to one mailbox within an hour.
    mails_to_most: int = 5

    def more_resources(self) -> tuple[str, ...]:
        """Return the resources besides the issuer's own."""
        return tuple(part.strip().rstrip("/") for part in self.resources.split(",") if part.strip())

    def schemes(self) -> frozenset[str]:
        """Return the schemes without a dot that a redirect URI may have."""
        return frozenset(part.strip().lower() for part in self.redirect_schemes.split(",") if part.strip())


@dataclasses.dataclass(frozen=True, slots=True)
class SystemKeys:
    """The secret that the cluster's services share with auth, followed by the one before it."""

    keys: tuple[str, ...] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, current: str, previous: str = "") -> SystemKeys:
        """Raises SettingInvalid, which names the variable and how to generate a key."""
        if not current:
            raise SettingInvalid(
                f"SKEIN_SYSTEM_KEY is missing; auth encrypts its signing keys with it; {_GENERATE_HINT}."
            )
        for name, key in (("SKEIN_SYSTEM_KEY", current), ("SKEIN_PREVIOUS_SYSTEM_KEY", previous)):
            if key and len(key) < MIN_SYSTEM_KEY:
                raise SettingInvalid(f"{name} needs at least {MIN_SYSTEM_KEY} characters; {_GENERATE_HINT}.")
        return cls(tuple(key for key in (current, previous) if key))


def check_settings(settings: AuthSettings) -> None:
    """Raises SettingInvalid for an invalid setting of OAuth or of the audit log."""
    if settings.registration not in _REGISTRATION:
        raise SettingInvalid(f"SKEIN_REGISTRATION should be one of {', '.join(_REGISTRATION)}.")
    if settings.registration == "token" and len(settings.initial_access_token) < _MIN_TOKEN_CHARACTERS:
        raise SettingInvalid(f"SKEIN_INITIAL_ACCESS_TOKEN needs at least {_MIN_TOKEN_CHARACTERS} characters.")
    if not 1 <= settings.code_seconds <= _MAX_CODE_SECONDS:
        raise SettingInvalid(f"SKEIN_CODE_SECONDS should be 1 to {_MAX_CODE_SECONDS}.")
    for name, minimum in (*((name, 1) for name in _AT_LEAST_ONE), ("audit_days", _MIN_AUDIT_DAYS)):
        if getattr(settings, name) < minimum:
            raise SettingInvalid(f"SKEIN_{name.upper()} should be at least {minimum}.")
    if settings.refresh_grace_seconds < 0:
        raise SettingInvalid("SKEIN_REFRESH_GRACE_SECONDS should be 0 or more.")
    issuer = urlsplit(settings.issuer.rstrip("/"))
    if settings.issuer and (
        issuer.scheme not in {"https", "http"} or issuer.geturl() != f"{issuer.scheme}://{issuer.netloc}"
    ):
        raise SettingInvalid("SKEIN_ISSUER should be an origin such as https://skein.example, without a path.")
    for resource in settings.more_resources():
        if not urlsplit(resource).scheme or "#" in resource:
            raise SettingInvalid("SKEIN_RESOURCES should be absolute URIs without a fragment.")
