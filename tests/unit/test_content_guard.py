"""The detectors of the content guard, and which texts of a request they read."""

from __future__ import annotations

import json

import pytest
from fix_catalogue import over
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein_kit.content_guard import detectors
from skein_kit.content_guard.detectors import Category
from skein_kit.content_guard.endpoint import DetectorEndpoint
from skein_kit.content_guard.texts import replace_texts
from skein_kit.settings import SettingInvalid

ALL = frozenset(Category)
# Made up for these tests, in the form that their issuers document.
KEY_LINES = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7"
FOUND = [
    ("private_key", f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINES}\n-----END RSA PRIVATE KEY-----"),
    ("private_key", f"-----BEGIN ENCRYPTED PRIVATE KEY-----\\n{KEY_LINES}"),
    ("aws_access_key", "AKIA" + "Q7" * 8),
    ("github_token", "ghp_" + "a1B2" * 9),
    ("github_token", "github_pat_" + "a1B2c3" * 8),
    ("gitlab_token", "glpat-" + "x1Y2" * 5),
    ("slack_token", "xoxb-1234567890-abcDEF"),
    ("stripe_key", "sk_" + "live_" + "a1B2" * 6),
    ("openai_key", "sk-proj-" + "a1B2" * 6),
    ("google_api_key", "AIza" + "a1B2c" * 7),
    ("skein_key", "skein_" + "a2b7" * 32),
    ("json_web_token", "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0NTYifQ.c2lnbmF0dXJl"),
    ("payment_card", "4111 1111 1111 1111"),
    ("payment_card", "5500005555555559"),
    ("bank_account", "DE89 3704 0044 0532 0130 00"),
    ("bank_account", "GB82WEST12345698765432"),
    ("social_security_number", "123-45-6789"),
    ("email_address", "jane.doe+news@mail.example.com"),
    ("phone_number", "+49 (151) 2345-6789"),
]
KEPT = [
    "The user drinks green tea at 7:30 and walks 12,000 steps.",
    "Order 1234567890123456 came on 2026-11-27.",
    "4111 1111 1111 1112 fails the checksum, and so does DE88 3704 0044 0532 0130 00.",
    "0000 0000 0000 0000",
    "The password is easy to guess, and the secret key to success is work.",
    "Version 1.2.3.4, commit 3fbd2a1c9e7b4d6f8a0c1e2d3b4a5f6e7d8c9b0a",
    "See https://example.org/a:b@c and @mentions.",
    "It weighs +5 kg.",
    "01929f6e-7c3a-7b52-9d64-52f0a1b2c3d4",
    "password: [password]",
]


def kinds_of(text: str) -> list[tuple[str, str]]:
    return [(finding.kind, text[finding.start : finding.end]) for finding in detectors.find(text, ALL)]


@over(("kind", "value"), FOUND)
def test_a_value_is_found_whole_within_a_sentence(kind: str, value: str) -> None:
    assert kinds_of(f"Please note: {value}, thanks.") == [(kind, value)]


@over("text", KEPT)
def test_ordinary_text_has_no_findings(text: str) -> None:
    assert kinds_of(text) == []


@over(
    ("text", "value"),
    [
        ("password = hunter2secret!", "hunter2secret"),
        ("My password is hunter22.", "hunter22"),
        ("api_key: abcDEF123456", "abcDEF123456"),
        ('{"client_secret": "s3cr3t-value"}', "s3cr3t-value"),
    ],
)
def test_a_password_is_found_by_the_name_before_it(text: str, value: str) -> None:
    assert kinds_of(text) == [("password", value)]


def test_a_password_in_an_address_of_a_server_is_no_email_address() -> None:
    assert kinds_of("postgres://skein:pass123@db.example.com/x") == [("url_password", "pass123")]


def test_only_the_requested_categories_are_found() -> None:
    text = "jane@example.com uses ghp_" + "a1B2" * 9

    assert [finding.kind for finding in detectors.find(text, {Category.PERSONAL_DATA})] == ["email_address"]
    assert [finding.kind for finding in detectors.find(text, {Category.SECRET})] == ["github_token"]


def test_texts_of_contents_structures_and_json_are_read_and_names_are_not() -> None:
    message = session_pb2.Message(
        content="c", name="n", session_id="s", external_id="e", metadata_json='{"k":"v\\n","n":1.50,"l":["x"]}'
    )
    json_format.Parse('[{"text": "p", "deep": [{"t": "q"}]}]', message.parts)
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=[message])
    read: dict[str, list[tuple[str, str]]] = {}

    def note(text: str, *, path: str, name: str) -> str:
        read.setdefault(path, []).append((name, text))
        return text + "!"

    replace_texts(request, note)

    assert {path: sorted(texts) for path, texts in read.items()} == {
        "messages[0].content": [("", "c")],
        "messages[0].parts": [("t", "q"), ("text", "p")],
        "messages[0].metadata_json": [("", "x"), ("k", "v\n")],
    }
    (changed,) = request.messages
    assert (changed.content, changed.name, changed.external_id) == ("c!", "n", "e")
    assert changed.metadata_json == '{"k":"v\\n!","n":1.50,"l":["x!"]}'
    assert json.loads(json_format.MessageToJson(changed.parts)) == [{"text": "p!", "deep": [{"t": "q!"}]}]


def test_json_that_is_not_valid_stays_as_it_is() -> None:
    message = memory_pb2.Memory(metadata_json='{"a": "\\x", "b": "c"')

    replace_texts(message, lambda text, *, path, name: "changed" if path and not name else text)

    assert message.metadata_json.startswith('{"a": "\\x", ')


def test_the_variables_of_a_template_are_read() -> None:
    request = blocks_pb2.CreateBlockFromTemplateRequest(template_block_id="t", variables={"password": "abc123"})

    replace_texts(request, lambda text, *, path, name: f"{path} {name} {text}")

    assert dict(request.variables) == {"password": "variables.password password abc123"}


def test_a_text_named_as_a_secret_is_one() -> None:
    data = json_format.ParseDict({"service": "mail", "db_password": "plain words"}, Struct())
    memory = memory_pb2.Memory(data=data, metadata_json=json.dumps({"apiKey": "whatever"}))
    found: list[str] = []

    def note(text: str, *, path: str, name: str) -> str:
        found.extend(f"{path} {finding.kind}" for finding in detectors.find(text, ALL, name=name))
        return text

    replace_texts(memory, note)

    assert found == ["data password", "metadata_json password"]


def test_a_detector_without_time_to_answer_is_refused() -> None:
    environment = {"SKEIN_GUARD_URL": "http://127.0.0.1:9/find", "SKEIN_ADVANCED_GUARD_TIMEOUT_SECONDS": "0"}

    with pytest.raises(SettingInvalid, match="GUARD_TIMEOUT_SECONDS"):
        DetectorEndpoint.of(environment, service="memory")
