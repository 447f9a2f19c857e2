"""The routes of the authorization server."""

from __future__ import annotations

from starlette.routing import Route

from skein.auth.v1 import auth_pb2_grpc, oauth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_gateway.identity.challenges import RESOURCE_PATH
from skein_gateway.identity.credential_cache import IdentityCache
from skein_gateway.identity.trusted_proxies import TrustedProxies
from skein_gateway.oauth.account_pages import AccountPages
from skein_gateway.oauth.authorize_page import AuthorizePage
from skein_gateway.oauth.device_page import DevicePage
from skein_gateway.oauth.login import BrowserLogin
from skein_gateway.oauth.metadata import METADATA_PATH, DiscoveryEndpoints, ServerMetadata
from skein_gateway.oauth.pages import STYLE_PATH, style
from skein_gateway.oauth.registration import Registration
from skein_gateway.oauth.request_handler import RequestHandler
from skein_gateway.oauth.token_endpoints import TokenEndpoints
from skein_kit.calls.call import DEFAULT_DEADLINE_SECONDS
from skein_kit.host.process import Host


def oauth_routes(
    host: Host, credentials: IdentityCache, metadata: ServerMetadata, proxies: TrustedProxies
) -> list[Route]:
    """Return the routes of the authorization server."""
    oauth = oauth_pb2_grpc.OAuthServiceStub(host.channel("auth", caller="gateway"))
    auth = auth_pb2_grpc.AuthServiceStub(host.channel("auth", caller="gateway"))
    tenancy = tenancy_pb2_grpc.TenancyServiceStub(host.channel("tenancy", caller="gateway"))
    request_handler = RequestHandler(proxies, DEFAULT_DEADLINE_SECONDS)
    login = BrowserLogin(credentials, auth, tenancy)
    discovery = DiscoveryEndpoints(request_handler, metadata, auth)
    tokens = TokenEndpoints(request_handler, metadata, oauth, credentials)
    registration = Registration(request_handler, metadata, oauth)
    authorize = AuthorizePage(request_handler, metadata, login, oauth)
    device = DevicePage(request_handler, metadata, login, oauth)
    accounts = AccountPages(request_handler, metadata, login, auth, tenancy)
    return [
        Route(METADATA_PATH, discovery.authorization_server),
        Route("/.well-known/openid-configuration", discovery.authorization_server),
        Route(RESOURCE_PATH, discovery.protected_resource),
        Route(RESOURCE_PATH + "/{path:path}", discovery.protected_resource),
        Route("/jwks.json", discovery.keys),
        Route("/authorize", authorize.show),
        Route("/authorize", authorize.submit, methods=["POST"]),
        Route("/device", device.show),
        Route("/device", device.submit, methods=["POST"]),
        Route("/account/verify", accounts.verify, methods=["GET", "POST"]),
        Route("/account/reset", accounts.reset, methods=["GET", "POST"]),
        Route("/account/invitation", accounts.invitation, methods=["GET", "POST"]),
        Route(STYLE_PATH, style),
        Route("/token", tokens.token, methods=["POST"]),
        Route("/revoke", tokens.revoke, methods=["POST"]),
        Route("/introspect", tokens.introspect, methods=["POST"]),
        Route("/device_authorization", tokens.device, methods=["POST"]),
        Route("/userinfo", tokens.userinfo, methods=["GET", "POST"]),
        Route("/register", registration.register, methods=["POST"]),
        Route("/register/{client_id}", registration.manage, methods=["GET", "PUT", "DELETE"]),
    ]
