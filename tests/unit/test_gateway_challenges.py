from __future__ import annotations

from fix_catalogue import over

from skein_gateway.identity.challenges import error_headers
from skein_gateway.oauth.request_handler import oauth_error
from skein_kit import errors

LIST = "/skein.memory.v1.MemoryService/ListMemories"
METADATA = 'resource_metadata="https://a/.well-known/oauth-protected-resource"'


def challenge(refusal: errors.RpcError, path: str = LIST, *, has_credential: bool = True) -> str:
    return error_headers(refusal.status(), path, "https://a", has_credential=has_credential).get("www-authenticate", "")


def test_a_caller_without_a_credential_is_told_what_to_show() -> None:
    result = challenge(errors.CredentialMissing(), has_credential=False)

    assert result == f'Bearer scope="memory.read", {METADATA}'


def test_a_caller_with_a_wrong_credential_is_told_so() -> None:
    assert challenge(errors.CredentialExpired()) == f'Bearer error="invalid_token", scope="memory.read", {METADATA}'


def test_too_little_scope_is_named() -> None:
    result = challenge(errors.PermissionMissing(permission="memory.write"))

    assert result == f'Bearer error="insufficient_scope", scope="memory.write", {METADATA}'


def test_a_permission_without_a_scope_is_not_asked_for() -> None:
    assert challenge(errors.AccountRequired()) == ""
    assert "scope=" not in challenge(errors.CredentialMissing(), "/skein.auth.v1.AuthService/SignOut")


def test_a_server_that_does_not_know_its_issuer_says_less() -> None:
    status = errors.CredentialMissing().status()

    assert error_headers(status, "/unknown", "", has_credential=False) == {"www-authenticate": "Bearer"}


@over(("after", "seconds"), [(0.05, "1"), (3.0, "3"), (3.2, "4")])
def test_a_rate_limited_caller_is_told_when_to_come_back(after: float, seconds: str) -> None:
    actual_error_headers = error_headers(
        errors.RateLimited(retry_after=after).status(), LIST, "https://a", has_credential=True
    )

    assert actual_error_headers == {"retry-after": seconds}


def test_oauth_words_are_those_of_the_reason() -> None:
    class InvalidGrant(errors.InvalidArgument):
        """The code is spent."""

        reason = "OAUTH_INVALID_GRANT"

    result = oauth_error(InvalidGrant().status())

    assert (result.status, result.error, result.description) == (400, "invalid_grant", "The code is spent.")


def test_a_challenge_names_its_error() -> None:
    result = oauth_error(errors.FieldInvalid(violations=[("scope", "is too long")]).status())

    assert (result.status, result.error) == (400, "invalid_request")
    assert result.description.endswith(" scope: is too long.")


def test_our_own_faults_say_nothing() -> None:
    result = oauth_error(errors.InternalError(request_id="r").status())

    assert (result.status, result.error, result.description) == (500, "server_error", "Skein failed.")
