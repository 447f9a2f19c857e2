"""Settings of the auth service."""

from __future__ import annotations

import dataclasses
from urllib.parse import urlsplit

from skein_kit.settings import SettingInvalid, Settings, advanced

MIN_SYSTEM_KEY = 32
_REGISTRATION = ("open", "token", "closed")
_MIN_TOKEN_CHARACTERS = 32
# The database keeps events of 30 days, whatever the setting.
_MINIMA = {"sign_in_seconds": 1, "max_attempts": 1, "audit_days": 31}
_GENERATE_HINT = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(48))'"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuthSettings(Settings):
    """Settings of the auth service, besides those of every process."""

    # The system key before this one. It still decrypts secrets and is accepted from the cluster's services, so that a
    # cluster can change its key without downtime.
    system_key_previous: str = dataclasses.field(default="", repr=False)
    # Let every account create tenants; otherwise only the operator creates them.
    accounts_create_tenants: bool = False
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
    # Lifetime of an auth session or grant, in seconds, however much it is used.
    sign_in_seconds: int = 7_776_000
    # Who may sign up: everyone (open), holders of an invitation to a tenant (invited), or no one (closed).
    sign_up: str = "invited"
    # Memory of one password hash (argon2id), in KiB; the default is OWASP's. More, where a policy asks for it: each
    # password is hashed again at its next login.
    password_hash_memory_kib: int = advanced(19_456)
    # Passwords that are hashed at a time. One source gets at most three quarters of the threads, and at least one.
    password_hash_threads: int = 2
    # Most failed attempts within fifteen minutes: of logins to one account from one source (IPv6: one /64) or one known
    # device, of second factors of one account, and of secrets of one client. Fewer, where a policy asks for it.
    max_attempts: int = advanced(10)
    # Multiplies what one address may do: sign-ups (10 within an hour), registrations of OAuth clients (20), device
    # authorizations (60), requests for mail (10), clients without a grant (100), and failed attempts (10 within fifteen
    # minutes). More, where many people share an address: an office, a campus, a carrier's NAT.
    address_limit_factor: float = advanced(1.0)

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
        for name, key in (("SKEIN_SYSTEM_KEY", current), ("SKEIN_SYSTEM_KEY_PREVIOUS", previous)):
            if key and len(key) < MIN_SYSTEM_KEY:
                raise SettingInvalid(f"{name} needs at least {MIN_SYSTEM_KEY} characters; {_GENERATE_HINT}.")
        return cls(tuple(key for key in (current, previous) if key))


def check_settings(settings: AuthSettings) -> None:
    """Raises SettingInvalid for an invalid setting of OAuth or of the audit log."""
    if settings.registration not in _REGISTRATION:
        raise SettingInvalid(f"SKEIN_REGISTRATION should be one of {', '.join(_REGISTRATION)}.")
    if settings.registration == "token" and len(settings.initial_access_token) < _MIN_TOKEN_CHARACTERS:
        raise SettingInvalid(f"SKEIN_INITIAL_ACCESS_TOKEN needs at least {_MIN_TOKEN_CHARACTERS} characters.")
    for field in dataclasses.fields(settings):
        minimum = _MINIMA.get(field.name, 0)
        if minimum and getattr(settings, field.name) < minimum:
            raise SettingInvalid(f"{settings.variable_of(field)} should be at least {minimum}.")
    if settings.address_limit_factor <= 0:
        raise SettingInvalid("SKEIN_ADVANCED_ADDRESS_LIMIT_FACTOR should be above 0.")
    issuer = urlsplit(settings.issuer.rstrip("/"))
    if settings.issuer and (
        issuer.scheme not in {"https", "http"} or issuer.geturl() != f"{issuer.scheme}://{issuer.netloc}"
    ):
        raise SettingInvalid("SKEIN_ISSUER should be an origin such as https://skein.example, without a path.")
    for resource in settings.more_resources():
        if not urlsplit(resource).scheme or "#" in resource:
            raise SettingInvalid("SKEIN_RESOURCES should be absolute URIs without a fragment.")
