"""A tenant that has been lived in: people, plans, contradictions, conversations, and things that mean no good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx
import pytest
from fix_cluster import Cluster, Stubs, Tenant
from fix_database import all_told
from fix_http import TLS
from fix_world import system_identity
from google.protobuf.struct_pb2 import Struct

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2, memory_pb2_grpc, webhooks_pb2
from skein.session.v1 import session_pb2

# What a page must show as it is: markup, a script, text that turns around, a word without an end.
HOSTILE_TITLE = '<img src=x onerror="alert(1)">"\'><script>alert(2)</script>'
HOSTILE_TEXT = (
    "</div><script>document.title='gone'</script> {{ 7 * 7 }} javascript:alert(3) "
    "\u202eright to left\u202c עברית العربية " + "pneumono" * 90
)
_MEMORIES = (
    ("tea", "user_preference", "Anna drinks tea", "anna", "drinks",
     "Anna prefers tea to coffee, and never after six."),
    ("oat", "user_preference", "Oat milk", "anna", "drinks,health",
     "Anna takes oat milk in her tea since the allergy test in March."),
    ("allergy", "fact", "Allergic to milk", "anna", "health",
     "The allergy test of 14 March shows that Anna reacts to cow's milk."),
    ("doctor", "interaction", "Visit to Dr. Weiss", "anna", "health",
     "Anna saw Dr. Weiss about the rash; she was told to avoid milk for six weeks."),
    ("milan", "episodic", "Weekend in Milan", "anna", "travel",
     "Anna and Ben spent the second weekend of May in Milan and missed the last train home."),
    ("train", "fact", "Last train from Milan", "", "travel",
     "The last train from Milan to Zurich leaves at 20:10 on Sundays."),
    ("train2", "fact", "Last train from Milan", "", "travel",
     "The last train from Milan to Zurich leaves at 21:10 on Sundays."),
    ("tickets", "task", "Book the train earlier", "ben", "travel",
     "Book the Sunday train to Zurich before noon; the cheap seats are gone by then."),
    ("bike", "fact", "Ben cycles to work", "ben", "commute",
     "Ben rides his bike to the office unless it snows."),
    ("office", "fact", "Ben's office", "ben", "commute,work",
     "Ben's office moved to Hardturmstrasse 11 in January."),
    ("heating", "procedural", "Turn the heating down", "", "home",
     "When both are out, set the living room to 17 degrees and the bath to 19."),
    ("window", "note", "The bathroom window sticks", "", "home",
     "Push the lower corner of the bathroom window before turning the handle."),
    ("plants", "procedural", "Watering the plants", "", "home",
     "The fern wants water every second day, the cactus once a month at most."),
    ("birthday", "fact", "Clara's birthday", "clara", "family",
     "Clara turns seven on 2 June and wants a cake with blueberries."),
    ("cake", "task", "Order the cake", "clara", "family,health",
     "Order the blueberry cake at Kellers' by the end of May; no milk in it."),
    ("school", "episodic", "First day of school", "clara", "family",
     "On her first day of school Clara refused to let go of the banister for ten minutes."),
    ("piano", "preference", "Piano on Thursdays", "clara", "family",
     "Clara has piano on Thursdays at four; Ben takes her."),
    ("budget", "decision", "No second car", "", "commute,money",
     "After the summer the family decided against a second car and for a cargo bike."),
    ("energy", "pattern", "Most power on Saturdays", "", "home,money",
     "The house uses most power on Saturdays between ten and two, when the oven runs."),
)  # fmt: skip
_LINKS = (
    ("allergy", "supports", "oat"), ("doctor", "supports", "allergy"), ("oat", "related", "tea"),
    ("allergy", "causes", "doctor"), ("train", "causes", "milan"), ("milan", "causes", "tickets"),
    ("tickets", "follow_up", "milan"), ("train", "supports", "tickets"), ("office", "related", "bike"),
    ("budget", "supports", "bike"), ("budget", "reference", "office"), ("energy", "supports", "heating"),
    ("birthday", "causes", "cake"), ("allergy", "supports", "cake"), ("school", "related", "birthday"),
    ("piano", "related", "school"), ("plants", "related", "window"), ("heating", "related", "window"),
    ("cake", "reference", "oat"), ("milan", "related", "budget"),
    ("train2", "contradicts", "train"),
)  # fmt: skip
_TALK = (
    (session_pb2.MESSAGE_ROLE_USER, "Anna", "What did the doctor say I should avoid again?"),
    (session_pb2.MESSAGE_ROLE_ASSISTANT, "", "Cow's milk, for six weeks. That is until the end of April."),
    (session_pb2.MESSAGE_ROLE_USER, "Anna", "Then put oat milk on the list, two cartons."),
    (session_pb2.MESSAGE_ROLE_TOOL, "shopping", "added: oat milk × 2"),
    (session_pb2.MESSAGE_ROLE_ASSISTANT, "", "Done. Shall I order Clara's cake without milk as well?"),
    (session_pb2.MESSAGE_ROLE_USER, "Anna", "Yes please, at Kellers', like last year."),
)


@dataclass(frozen=True)
class SeededData:
    """What a test may want to find again."""

    # By their short names: "tea", "allergy", ...
    memory_ids: dict[str, str]
    # Two facts that contradict each other.
    a_id: str
    b_id: str
    hostile_id: str


async def furnished(tenant: Stubs) -> SeededData:
    """Let a tenant remember a household."""
    memories = [
        memory_pb2.Memory(
            type=kind,
            title=title,
            content=text,
            subject_id=subject,
            tags=tags.split(","),
            source="kitchen assistant",
            confidence=0.95 if kind == "fact" else 0.7,
        )
        for _, kind, title, subject, tags, text in _MEMORIES
    ]
    data, hostile_data = Struct(), Struct()
    data.update({"allergen": "casein", "degree": 3, "tested": {"by": "Dr. Weiss", "on": "2026-03-14"}})
    hostile_data.update({"<b>key</b>": "</pre><script>alert(4)</script>", "word": "x" * 300})
    memories[2].data.CopyFrom(data)
    memories += [
        memory_pb2.Memory(
            type="fact",
            key=key,
            title="Where the Wi-Fi password is",
            content=f"The Wi-Fi password is on a note {where} in the hall.",
            source=source,
            confidence=0.95,
        )
        for key, where, source in (
            ("wifi password place", "behind the router", "ben"),
            ("Wifi Password  Place", "inside the fuse box", "anna"),
        )
    ]
    memories.append(
        memory_pb2.Memory(
            type="note", title=HOSTILE_TITLE, content=HOSTILE_TEXT, tags=["<i>", "x" * 200], data=hostile_data
        )
    )
    stored = await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    ids = [memory.memory_id for memory in stored.memories]
    named = {one[0]: memory_id for one, memory_id in zip(_MEMORIES, ids, strict=False)}
    links = [
        memory_pb2.Link(from_memory_id=named[start], relation=relation, to_memory_id=named[end])
        for start, relation, end in _LINKS
    ]
    links.append(memory_pb2.Link(from_memory_id=ids[-1], relation="related", to_memory_id=named["tea"]))
    talk = [session_pb2.Message(role=role, name=name, content=text, subject_id="anna") for role, name, text in _TALK]
    await asyncio.gather(
        tenant.links.BatchCreateLinks(memory_pb2.BatchCreateLinksRequest(links=links)),
        tenant.gateway.Remember(gateway_pb2.RememberRequest(session_id="kitchen-2026-04-02", messages=talk)),
        tenant.gateway.Remember(
            gateway_pb2.RememberRequest(
                session_id="hostile/<script>?&",
                messages=[session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=HOSTILE_TEXT)],
            )
        ),
    )
    changed = memory_pb2.Memory(
        memory_id=named["office"], content="Ben's office moved to Hardturmstrasse 17 in January."
    )
    request = memory_pb2.UpdateMemoryRequest(memory=changed)
    request.update_mask.paths.append("content")
    await tenant.memory.UpdateMemory(request)
    return SeededData(memory_ids=named, a_id=ids[-3], b_id=ids[-2], hostile_id=ids[-1])


async def certify(tenant: Stubs) -> None:
    """Let the tenant have a certificate of a person, and an incomplete one of an interrupted purge."""
    memories = [memory_pb2.Memory(content=f"Dora waters plant {n}.", subject_id="dora") for n in range(2)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    selection = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id="dora"))
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection, page_size=1))
    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="clara"))


async def attempt_deliveries(cluster: Cluster, tenant: Tenant, webhook_id: str) -> None:
    """Let the worker attempt the due deliveries of a tenant until a webhook has one."""
    request = webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id)
    identity = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("memory") as channel, asyncio.timeout(60):
        stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
        while True:
            await all_told(cluster.postgres)
            headers = (("authorization", f"Bearer {identity}"),)
            await stub.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(), metadata=headers)
            deliveries = (await tenant.history.ListWebhookDeliveries(request)).deliveries
            if any(one.attempt_count for one in deliveries):
                return


class BrowserSession:
    """A browser at the console: it says that it reads HTML, keeps cookies, and fills in forms as people do."""

    def __init__(self, client: httpx.AsyncClient, origin: str, tenant_id: str = "") -> None:
        self.client = client
        self.origin = origin
        self.tenant_id = tenant_id

    @classmethod
    @asynccontextmanager
    async def of(cls, address: str) -> AsyncIterator[BrowserSession]:
        origin = f"http://{address}"
        headers = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
        async with httpx.AsyncClient(
            base_url=origin, headers=headers, trust_env=False, verify=TLS, timeout=30
        ) as client:
            yield cls(client, origin)

    async def page(self, name: str = "", **query: str) -> httpx.Response:
        """Ask for a page of the tenant."""
        return await self.client.get(f"/console/{self.tenant_id}/{name}".rstrip("/"), params=query or None)

    async def submit(self, page: httpx.Response, step: str, **changed: str) -> httpx.Response:
        """Send the first form of a step, as the page has filled it in but for what is changed."""
        form = filled(page, step)
        return await self.send(urljoin(str(page.url), form.pop("")), {**form, **changed})

    async def send(self, url: str, form: dict[str, str], **headers: str) -> httpx.Response:
        """Send a form from a page of our own, unless the headers say otherwise."""
        headers_ = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(
            url, data=form, headers={"origin": self.origin, "sec-fetch-site": "same-origin", **headers_}
        )

    async def sign_in(self, email: str, password: str) -> httpx.Response:
        """Sign in, and follow to where that leads."""
        answer = await self.submit(await self.client.get("/"), "sign_in", email=email, password=password)
        assert answer.status_code == 303, answer.text
        return await self._led(answer)

    async def show_key(self, key: str) -> httpx.Response:
        """Sign in with a key, and follow to where that leads."""
        answer = await self.submit(await self.client.get("/"), "key", key=key)
        assert answer.status_code == 303, answer.text
        return await self._led(answer)

    async def _led(self, answer: httpx.Response) -> httpx.Response:
        while answer.is_redirect:
            answer = await self.client.get(answer.headers["location"])
        self.tenant_id = (str(answer.url).split("/console/")[-1]).split("/")[0].split("?")[0]
        return answer


class _Fields(HTMLParser):
    """Reads forms as a browser would send them; the address is under the empty name."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append({"": attributes.get("action", "")})
        elif not self.forms:
            return
        elif tag == "input" and attributes.get("type") == "checkbox":
            if "checked" in attributes:
                self.forms[-1][attributes["name"]] = attributes.get("value", "on")
        elif tag == "input" and "name" in attributes:
            self.forms[-1][attributes["name"]] = attributes.get("value", "")
        elif tag in {"select", "textarea"}:
            self._within = attributes["name"]
            self.forms[-1][self._within] = ""
        elif tag == "option" and "selected" in attributes:
            self.forms[-1][self._within] = attributes.get("value", "")

    def handle_data(self, data: str) -> None:
        if self._within and self.lasttag == "textarea":
            # The first line break after the tag is not part of the text.
            self.forms[-1][self._within] += data if self.forms[-1][self._within] else data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"select", "textarea"}:
            self._within = ""


def filled(page: httpx.Response, step: str) -> dict[str, str]:
    """Return what the first form of a step would send."""
    reader = _Fields()
    reader.feed(page.text)
    results = [form for form in reader.forms if form.get("step") == step]
    assert results, page.text
    return results[0]


@pytest.fixture
async def web(cluster: Cluster, tenant: Tenant) -> AsyncIterator[BrowserSession]:
    """A browser logged in with every permission."""
    async with BrowserSession.of(cluster.addresses["http"]) as browser:
        await browser.show_key(tenant.api_key)
        yield browser
