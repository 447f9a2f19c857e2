"""A request for every RPC of the auth service."""

from __future__ import annotations

import uuid
from typing import Any

from fix_recipe import RECIPES, Recipe, a_token, mask, service
from fix_world import REDIRECT, World, authorization, device

from skein.auth.v1 import accounts_pb2, auth_pb2, certificates_pb2, oauth_pb2

PASSWORD = "a password of the matrix"
_accounts = service("skein.auth.v1.AuthService", accounts_pb2)
_oauth_of_operators = service("skein.auth.v1.AuthService", oauth_pb2)
_keys = service("skein.auth.v1.AuthService", auth_pb2)
_certificates = service("skein.auth.v1.AuthService", certificates_pb2)
_issuing = service("skein.auth.v1.AuthInternalService", certificates_pb2)
_identity = service("skein.auth.v1.AuthInternalService", auth_pb2)
_oauth = service("skein.auth.v1.OAuthService", oauth_pb2)


def _fill_auth() -> None:
    _accounts("SignUp", build=lambda _t, _w: {"email": f"{uuid.uuid4().hex}@example.org", "password": PASSWORD})
    _accounts("VerifyEmail", build=a_token, own="ONE_TIME_TOKEN_INVALID")
    _accounts("RequestEmailVerification", own="MAIL_NOT_CONFIGURED")
    _accounts(
        "RequestPasswordReset", "owner", build=lambda t, _w: {"email": t["owner"].email}, own="MAIL_NOT_CONFIGURED"
    )
    _accounts(
        "ResetPassword", build=lambda t, w: {**a_token(t, w), "new_password": PASSWORD}, own="ONE_TIME_TOKEN_INVALID"
    )
    _accounts(
        "SignIn",
        "owner",
        build=lambda t, _w: {"email": t["owner"].email, "password": "not it, sorry"},
        own="SIGN_IN_REFUSED",
    )
    _accounts("SignInWithIdentity", build=lambda _t, _w: {"provider": "none", "token": "t"}, own="PROVIDER_NOT_FOUND")
    _accounts("RefreshSession", build=lambda _t, _w: {"refresh_token": "nonsense"}, own="CREDENTIAL_INVALID")
    _accounts("SignOut")
    _accounts("UpdateMe", build=lambda _t, w: {"account": accounts_pb2.Account(display_name=w.text())})
    _accounts(
        "ChangePassword",
        build=lambda _t, _w: {"old_password": "wrong one", "new_password": PASSWORD},
        own="PASSWORD_WRONG",
    )
    _accounts("DeactivateMe", build=lambda _t, _w: {"password": "wrong one"}, own="PASSWORD_WRONG")
    _accounts("DeleteMe", build=lambda _t, _w: {"password": "wrong one"}, own="PASSWORD_WRONG")
    _accounts("StartTotp", build=lambda _t, _w: {"password": "wrong one"}, own="PASSWORD_WRONG")
    _accounts("ConfirmTotp", build=lambda _t, _w: {"code": "123456"}, own="TOTP_STATE_INVALID")
    _accounts(
        "DisableTotp", build=lambda _t, _w: {"password": "wrong one", "second_factor": "123456"}, own="PASSWORD_WRONG"
    )
    _accounts("ListAuthSessions")
    _accounts("RevokeAuthSession", "auth_session_id")
    _accounts("LinkIdentity", build=lambda _t, _w: {"provider": "none", "token": "t"}, own="PROVIDER_NOT_FOUND")
    _accounts("UnlinkIdentity", build=lambda _t, _w: {"identity_id": str(uuid.uuid4())}, own="IDENTITY_NOT_FOUND")
    _accounts("ListIdentities")
    _accounts("ListMyAuditEvents")
    _accounts(
        "CreateAccount", build=lambda _t, w: {"email": f"{uuid.uuid4().hex}@example.org", "display_name": w.text()}
    )
    _accounts("GetAccount", "owner", build=lambda t, _w: {"account_id": t["owner"].account_id})
    _accounts("ListAccounts")
    _accounts(
        "UpdateAccount",
        "owner",
        build=lambda t, w: {
            "account": accounts_pb2.Account(account_id=t["owner"].account_id, display_name=w.text()),
            "update_mask": mask("display_name"),
        },
    )
    _accounts("DeleteAccount", "stranger", build=lambda t, _w: {"account_id": t["stranger"].account_id})
    _accounts(
        "CreateOneTimeToken",
        "owner",
        build=lambda t, _w: {
            "account_id": t["owner"].account_id,
            "purpose": accounts_pb2.TOKEN_PURPOSE_PASSWORD_RESET,
        },
    )
    _accounts("RevokeCredentials", build=lambda _t, w: {"tenant_id": str(w.tenant.tenant_id)})
    _accounts("SetLegacyToken", build=lambda _t, _w: {"token": uuid.uuid4().hex})
    _oauth_of_operators(
        "ImportClient",
        build=lambda _t, w: {
            "client": oauth_pb2.Client(
                client_id=f"mcp_{uuid.uuid4().hex}",
                client_name=w.text("c "),
                redirect_uris=[REDIRECT],
                token_endpoint_auth_method="none",
            )
        },
    )
    _accounts("ListAuditEvents")
    _accounts(
        "CreateServiceAccount",
        build=lambda _t, w: {
            "service_account": accounts_pb2.ServiceAccount(display_name=w.text(), permissions=["memory.read"])
        },
    )
    _accounts("GetServiceAccount", "service_account_id")
    _accounts("ListServiceAccounts")
    _accounts(
        "UpdateServiceAccount",
        "service_account_id",
        build=lambda t, _w: {
            "service_account": accounts_pb2.ServiceAccount(**t, display_name="renamed"),
            "update_mask": mask("display_name"),
        },
    )
    _accounts("DeleteServiceAccount", "service_account_id")


def _fill_keys() -> None:
    _keys("GetMe")
    _keys("CreateApiKey", build=lambda _t, w: {"display_name": w.text()})
    _keys("ListApiKeys")
    _keys("RevokeApiKey", "api_key_id")
    _accounts("RotateApiKey", "api_key_id")
    # Only people adopt, so every caller gets the answer of the tenant's key here; tests of attacks show the rest.
    _accounts("AdoptApiKey", "api_key_id", own="ACCOUNT_REQUIRED")
    _accounts("AdoptServiceAccount", "service_account_id", own="ACCOUNT_REQUIRED")
    _keys("Introspect", build=lambda _t, w: {"credential": w.tenant.api_key})
    _certificates(
        "GetErasureCertificate",
        build=lambda _t, _w: {"certificate_id": str(uuid.uuid4())},
        own="ERASURE_CERTIFICATE_NOT_FOUND",
    )
    _certificates("ListErasureCertificates")
    _issuing(
        "IssueErasureCertificate",
        build=lambda _t, _w: {
            "kind": "forget",
            "erasure_key": uuid.uuid4().bytes * 2,
            "start_time": {"seconds": 1},
            "end_time": {"seconds": 2},
        },
    )
    _issuing(
        "IssueDeletionCertificate",
        build=lambda _t, _w: {
            "tenant_id": str(uuid.uuid4()),
            "start_time": {"seconds": 1},
            "end_time": {"seconds": 2},
        },
    )
    _keys("ListSigningKeys")
    _keys("RotateSigningKey")
    _identity("Exchange", build=lambda _t, w: {"bearer": w.tenant.api_key, "tenant_id": str(w.tenant.tenant_id)})
    _identity("GetCheckKeys")
    _identity("ListDueTenants")
    _identity("DeleteExpired")
    _identity("ChainAuditEvents")
    _identity("PurgeTenant", "deleted", build=lambda _t, _w: {})
    _identity("GetAccountState", "owner", build=lambda t, _w: {"account_id": t["owner"].account_id})


def _fill_oauth() -> None:
    _oauth("GetServerMetadata")
    _oauth(
        "RegisterClient",
        build=lambda _t, w: {"client": oauth_pb2.Client(client_name=w.text("c "), redirect_uris=[REDIRECT])},
    )

    def token(things: dict[str, Any], _world: World) -> dict[str, Any]:
        made = things["client"]
        return {"client_id": made.client.client_id, "registration_access_token": made.registration_access_token}

    _oauth("GetClient", "client", build=token)
    _oauth("DeleteClient", "client", build=token)
    _oauth(
        "UpdateClient",
        "client",
        build=lambda t, _w: {
            "client": t["client"].client,
            "registration_access_token": t["client"].registration_access_token,
        },
    )
    RECIPES["/skein.auth.v1.OAuthService/CreateAuthorization"] = Recipe(needs=("client",), build=authorization)
    RECIPES["/skein.auth.v1.OAuthService/StartDeviceAuthorization"] = Recipe(needs=("client",), build=device)
    _oauth(
        "ApproveAuthorization",
        "handle",
        build=lambda t, w: {**t, "approved": True, "tenant_id": str(w.tenant.tenant_id)},
    )

    def authenticated(things: dict[str, Any]) -> oauth_pb2.ClientAuthentication:
        return oauth_pb2.ClientAuthentication(client_id=things["client"].client.client_id, method="none")

    _oauth(
        "ExchangeToken",
        "client",
        build=lambda t, _w: {
            "client": authenticated(t),
            "refresh_token": oauth_pb2.RefreshTokenGrant(refresh_token="nonsense"),
        },
        own="OAUTH_INVALID_GRANT",
    )
    _oauth("GetDeviceAuthorization", "user_code")
    _oauth(
        "ApproveDevice",
        "user_code",
        build=lambda t, w: {**t, "approved": True, "tenant_id": str(w.tenant.tenant_id)},
    )
    _oauth("RevokeToken", "client", build=lambda t, _w: {"client": authenticated(t), "token": "nonsense"})
    _oauth("IntrospectToken", build=lambda _t, w: {"bearer": w.tenant.api_key, "token": "nonsense"})
    _oauth("GetUserInfo", build=lambda _t, _w: {"access_token": "nonsense"}, own="OAUTH_INVALID_TOKEN")


_fill_auth()
_fill_keys()
_fill_oauth()
