"""Words as people write them: what joins two of them, and other forms of the same text, hides none."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from fix_cluster import Tenant
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2

# What is remembered, and queries of which each alone finds it.
JOINS = {
    # Slashes.
    "Dinner with Peter/Maria on Friday": ("Maria", "peter", "Peter/Maria"),
    "The router speaks TCP/IP only": ("IP", "TCP", "TCP/IP", "tcpip"),
    "Pick him/her up after school": ("school", "pick"),
    "We offer breakfast/lunch/supper": ("lunch", "supper"),
    "The ratio is width/height here": ("height",),
    "A/B test of the landing page": ("A/B",),
    "Shared with the sales|marketing channels": ("marketing",),
    "Prices in USD/EUR and km/h": ("EUR", "km/h"),
    # Files and paths.
    "See budget.xlsx before noon": ("budget", "xlsx", "budget.xlsx"),
    "The diagram is in architecture_overview.drawio.png": ("overview", "architecture", "drawio"),
    "Edit /etc/nginx/nginx.conf as root": ("nginx", "etc", "nginx.conf", "/etc/nginx/nginx.conf"),
    r"It was saved to C:\Users\anna\Invoices": ("Invoices", "anna"),
    "Look at src/billing/InvoiceListView.tsx": ("billing", "InvoiceListView", "invoice", "src/billing"),
    "The key lies in ~/.ssh/id_ed25519": ("ssh", "id_ed25519"),
    "Copy .env.example first": (".env", "env", "example"),
    "Logs are in /var": ("var", "/var"),
    "report-2025.01.pdf was sent": ("report", "2025.01", "pdf"),
    # Addresses.
    "Mail peter.smith@post.example.com": ("smith", "peter smith", "peter.smith@post.example.com", "example.com"),
    "Read https://wiki.example.org/guide/onboarding.html?lang=de#laptop": (
        "onboarding",
        "laptop",
        "wiki",
        "wiki.example.org",
        "https://wiki.example.org/guide/onboarding.html",
    ),
    "Deploy to staging-eu.internal:8443": ("8443", "staging", "internal"),
    "The printer has 192.168.17.10": ("192.168.17.10", "192.168.17"),
    "git@code.example.net:platform/orders.git is the origin": ("orders", "platform"),
    "Ask @marlene about #garden-party": ("marlene", "garden", "garden-party"),
    # Sentences without a space.
    "She waits at the station.Bring the keys": ("bring", "station"),
    "It rained,so we stayed;reading": ("stayed", "reading"),
    "Done!Next is the attic": ("next", "attic"),
    "wait--what a surprise...really": ("surprise", "really", "what a surprise"),
    # Programs.
    "We moved from Next.js to Nuxt": ("next", "js", "Next.js", "nextjs"),
    "List<Shipment> is empty": ("shipment", "list"),
    "<TODO: call the plumber>": ("plumber", "call", "todo"),
    "<b>Garage</b> code is new": ("garage",),
    "Call getUserProfile() twice": ("profile", "getUserProfile", "user profile"),
    "Set max_retry_count=7": ("retry", "max_retry_count", "count"),
    "std::vector<float> grows": ("vector", "float"),
    "The team knows C++ and C#": ("C++", "C#"),
    "Ported to .NET last year": (".NET",),
    "orders->customer_id is null": ("customer", "customer_id"),
    "Upgrade to v3.12.1 tonight": ("3.12", "v3.12.1", "3.12.1", "v3"),
    "numpy==2.1.0 is pinned": ("numpy", "2.1"),
    "Fixed in ADR-016 already": ("ADR 016", "ADR-016", "adr016"),
    "JIRA-4711 blocks the release": ("4711", "JIRA"),
    "[WIP]rename the table": ("rename", "wip"),
    "`kubectl rollout` needs --timeout": ("timeout", "kubectl"),
    "key:value pairs like colour:teal": ("teal", "colour"),
    # Numbers.
    "He flies the 737-800": ("800", "737", "737-800"),
    "The bridge is 12km long": ("12 km", "12km"),
    "The parcel weighs 3.5kg": ("3.5", "3.5 kg"),
    "Call 555-0134-22": ("555-0134-22", "555"),
    "We owe 1,250,000 crowns": ("1250000", "1,250,000"),
    "It is -18 outside": ("18",),
    "Ring +49 after nine": ("49",),
    "The lease ends 2031-07-15": ("2031", "2031-07-15"),
    "The lease began 15.07.2019": ("2019", "15.07.2019"),
    "The train leaves at 17:42": ("17:42",),
    # Marks of writing.
    "A well-known wi-fi trick": ("known", "well-known", "wifi", "wi-fi"),
    "The e-mail bounced": ("email", "e-mail"),
    "AT&T raised prices": ("AT&T",),
    "The R&D budget grew": ("R&D",),
    "He lives in the U.S.A. now": ("USA", "U.S.A."),
    "Seats 14A+14B are ours": ("14B",),
    "Peter's sister's boat": ("sister", "peter"),
    "L\u2019école ouvre à huit heures": ("école",),
    '"Quoted"words follow': ("quoted", "follow"),
    "(optional)step of the recipe": ("step", "optional"),
    "tea*milk*sugar": ("milk",),
    "Straße\u2013Ecke Bäckerei": ("ecke",),
    "🎉 for the new kitchen": ("🎉",),
    "She answered 👍🏽": ("👍", "👍🏽"),
    "Holiday in 🇵🇹": ("🇵🇹",),
    "Brainstorm:menu…wine": ("menu", "wine"),
    "PeterX250/MariaX250": ("MariaX250",),
    # Scripts without spaces.
    "พรุ่งนี้ฉันจะไปกรุงเทพกับแม่": ("กรุงเทพ", "แม่"),
    "ຂ້ອຍມັກກິນເຂົ້າໜຽວ": ("ເຂົ້າໜຽວ",),
    "ខ្ញុំចូលចិត្តកាហ្វេ": ("កាហ្វេ",),
    "မနက်ဖြန်ရန်ကုန်ကိုသွားမယ်": ("ရန်ကုန်",),
    "我用Python写了脚本": ("Python", "脚本"),
}

# One text as it is typed, and how else it may reach a store.
FORMS = {
    "Wohnung in Zürich": unicodedata.normalize("NFD", "Zürich"),
    "Office in Tokyo": "\uff34\uff4f\uff4b\uff59\uff4f",
    "the \ufb01nance \ufb02oor": "finance",
    "Don\u00adau\u00addampf\u00adschiff": "Donaudampfschiff",
    "pass\u200bphrase of the safe": "passphrase",
    "\ufeffmarkdown notes": "markdown",
    "\uff76\uff8c\uff6aで会う": "カフェ",
    "nine m² of tiles": "m2",
    "non\u2011breaking hyphens": "non-breaking",
    "Acme™ tools": "Acme",
    "قهوة ﻋﺮﺑﻴﺔ": "عربية",
}


async def _remember(tenant: Tenant, contents: list[str]) -> None:
    memories = [memory_pb2.Memory(external_id=str(number), content=text) for number, text in enumerate(contents)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))


async def _finds(tenant: Tenant, query: str, content: str) -> bool:
    request = pb.RecallRequest(query=query, limit=20, mode=recall_pb2.SEARCH_MODE_KEYWORD, show_superseded=True)
    return content in {hit.memory.content for hit in (await tenant.gateway.Recall(request)).hits}


@pytest.mark.system
async def test_each_word_of_what_is_joined_finds_it(tenant: Tenant) -> None:
    await _remember(tenant, list(JOINS))

    missed = [
        (query, text) for text, queries in JOINS.items() for query in queries if not await _finds(tenant, query, text)
    ]

    assert missed == []


async def test_a_joined_word_that_no_memory_has_asks_for_its_parts_alone(tenant: Tenant) -> None:
    await _remember(tenant, ["Rosa met Bernd at the lake", "The lake is frozen"])

    joined, apart = [
        await tenant.gateway.Recall(pb.RecallRequest(query=query, mode=recall_pb2.SEARCH_MODE_KEYWORD))
        for query in ("Rosa/Bernd", "Rosa Bernd")
    ]

    assert [(hit.memory.content, hit.score) for hit in joined.hits] == [
        (hit.memory.content, hit.score) for hit in apart.hits
    ]
    assert joined.query_expansions == apart.query_expansions == []


@pytest.mark.system
async def test_every_unicode_form_of_a_text_finds_the_others(tenant: Tenant) -> None:
    await _remember(tenant, list(FORMS))

    missed = [query for text, query in FORMS.items() if not await _finds(tenant, query, text)]
    inverse = [text for text, query in FORMS.items() if not await _finds(tenant, text, text)]

    assert missed == inverse == []


async def test_texts_of_another_case_are_two_hits(tenant: Tenant) -> None:
    contents = ["Sunshine sings in the choir of Basel", "sunshine sings in the choir of Basel"]
    await _remember(tenant, contents)

    response = await tenant.gateway.Recall(pb.RecallRequest(query="Who sings in the choir of Basel?"))

    assert sorted(hit.memory.content for hit in response.hits) == sorted(contents)


@pytest.mark.system
async def test_a_day_that_a_question_names_in_its_language_is_found_first(tenant: Tenant) -> None:
    today = datetime.now(UTC)
    memories = [
        memory_pb2.Memory(content=f"Suppe gekocht, Variante {days}", create_time=_timestamp(today - timedelta(days)))
        for days in (0, 1, 2, 3, 21, 60)
    ]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories, keep_times=True))
    questions = {
        "What soup was cooked yesterday?": 1,
        "Welche Suppe wurde vorgestern gekocht?": 2,
        "Welche Suppe wurde vor drei Wochen gekocht?": 21,
        "¿Qué sopa (Suppe) se cocinó ayer?": 1,
        "三个星期前做了什么 Suppe?": 21,
        f"Welche Suppe gab es am {today - timedelta(60):%d.%m.%Y}?": 60,
    }

    found = {
        question: (await tenant.gateway.Recall(pb.RecallRequest(query=question, min_relevance=0)))
        .hits[0]
        .memory.content
        for question in questions
    }

    assert found == {question: f"Suppe gekocht, Variante {days}" for question, days in questions.items()}


def _timestamp(at: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(at)
    return timestamp
