"""API keys of the tenant: which there are, a new one (its secret is shown once), and the end of one."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein_gateway.console.pages import page
from skein_gateway.console.problems import PageError, attempted, refusal_of
from skein_gateway.oauth.pages import see_other
from skein_kit.errors import FieldInvalid
from skein_kit.identity.permissions import PERMISSION_DESCRIPTIONS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from skein_gateway.console.page_handler import PageHandler
    from skein_gateway.console.visitors import PageContext
    from skein_gateway.oauth.forms import Parameters

_PAGE = 50
# How long a new key is good, in days.
LIFETIMES = {"30": "30 days", "90": "90 days", "365": "a year", "": "until it is revoked"}
# What a key of an ordinary agent needs; ticked at first.
USUAL = frozenset({"memory.read", "memory.write", "recall.read", "session.read", "session.write"})
_DAY = 86_400
_BOX = "permission-"


class ApiKeys:
    """The handlers."""

    def routes(self, desk: PageHandler) -> list[Route]:
        """Return the routes."""
        return desk.routes("keys", self.show, self.act)

    async def show(self, request: Request, visit: PageContext, asked: Parameters) -> Response:
        """List the keys."""
        return await self._listed(request, visit, asked)

    async def act(self, request: Request, visit: PageContext, asked: Parameters, form: Parameters) -> Response:
        """Make a key, end one, or let one outlive the application that made it."""
        try:
            if form.get("step") == "revoke":
                await visit.api.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=form.get("api_key_id")))
                return see_other(visit.url("keys", done="revoked"))
            if form.get("step") == "adopt":
                await visit.api.auth.AdoptApiKey(accounts_pb2.AdoptApiKeyRequest(api_key_id=form.get("api_key_id")))
                return see_other(visit.url("keys", done="adopted"))
            made = await visit.api.auth.CreateApiKey(_wanted(form))
        except Exception as error:
            trouble = refusal_of(error)
            if trouble is None:
                raise
            return await self._listed(request, visit, asked, form=form, trouble=trouble)
        return await self._listed(request, visit, asked, made=made)

    async def _listed(
        self,
        request: Request,
        visit: PageContext,
        asked: Parameters,
        *,
        form: Parameters | None = None,
        made: auth_pb2.CreateApiKeyResponse | None = None,
        trouble: PageError | None = None,
    ) -> Response:
        found = await attempted(
            visit.api.auth.ListApiKeys(auth_pb2.ListApiKeysRequest(page_size=_PAGE, page_token=asked.get("page")))
        )
        more = "" if isinstance(found, PageError) else found.next_page_token
        failed = trouble or (found if isinstance(found, PageError) else None)
        offered = [(name, meaning) for name, meaning in PERMISSION_DESCRIPTIONS.items() if visit.may(name)]
        ticked = USUAL if form is None else {name for name in PERMISSION_DESCRIPTIONS if form.get(_BOX + name) == "on"}
        return page(
            "keys",
            request,
            visit,
            status=200 if failed is None else failed.status,
            at="keys",
            title="API keys",
            problem="" if trouble is None else trouble.text,
            found=found,
            made=made,
            own=visit.caller.principal.removeprefix("api_key:"),
            offered=offered,
            ticked=ticked,
            box=_BOX,
            display_name="" if form is None else form.get("display_name"),
            lifetime="90" if form is None else form.get("lifetime"),
            lifetimes=LIFETIMES,
            # Sent twice, a form makes one key.
            request_id=str(uuid.uuid4()),
            first=visit.url("keys") if asked.get("page") else "",
            more=visit.url("keys", page=more) if more else "",
            form_token=visit.visitor.form_token(request.url.path),
            may_write=visit.may("keys.write"),
            may_adopt=visit.may("keys.write") and not visit.is_key,
        )


def _wanted(form: Parameters) -> auth_pb2.CreateApiKeyRequest:
    """Return the key that a form asks for. One without permissions is refused: it would get all of the visitor's."""
    permissions = [name for name in PERMISSION_DESCRIPTIONS if form.get(_BOX + name) == "on"]
    if not permissions:
        raise FieldInvalid(violations=[("permissions", "tick at least one")])
    days = form.get("lifetime")
    # At the end of a day: a form that is sent twice asks for the same key.
    today = int(time.time()) // _DAY
    ends = Timestamp(seconds=(today + int(days) + 1) * _DAY) if days in LIFETIMES and days else None
    return auth_pb2.CreateApiKeyRequest(
        display_name=form.get("display_name").strip(),
        permissions=permissions,
        expire_time=ends,
        request_id=form.get("request_id"),
    )
