from __future__ import annotations

import io
import json
from dataclasses import dataclass

import pytest
from fix_catalogue import over

from skein_gateway.http_api.cors import origins_of
from skein_gateway.identity.trusted_proxies import UNTRUSTED, WARNING_SECONDS, TrustedProxies, UntrustedForwardingAlert
from skein_kit.settings import SettingInvalid

OURS = TrustedProxies.of("10.0.0.0/8, 2001:db8::/32,192.0.2.1")


@over(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.7", [], "203.0.113.7"),
        ("203.0.113.7", ["198.51.100.1"], "203.0.113.7"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", ["203.0.113.7"], "203.0.113.7"),
        ("10.1.2.3", ["1.1.1.1, 203.0.113.7, 10.9.9.9"], "203.0.113.7"),
        ("10.1.2.3", ["1.1.1.1", "203.0.113.7"], "203.0.113.7"),
        ("10.1.2.3", ["10.4.4.4, 10.5.5.5"], "10.4.4.4"),
        ("10.1.2.3", ["203.0.113.7, nonsense, 10.5.5.5"], "10.5.5.5"),
        ("10.1.2.3", ["unknown"], "10.1.2.3"),
        ("192.0.2.1", ["203.0.113.7:4711"], "203.0.113.7"),
        ("192.0.2.1", ["[2001:db9::1]:4711"], "2001:db9::1"),
        ("2001:db8::5", ["2001:db9::1"], "2001:db9::1"),
        ("::ffff:10.1.2.3", ["203.0.113.7"], "203.0.113.7"),
        ("", ["203.0.113.7"], ""),
    ],
)
def test_the_last_address_that_no_proxy_of_ours_has_counts(peer: str, forwarded: list[str], expected: str) -> None:
    assert OURS.client(peer, forwarded) == expected


def test_without_a_setting_no_proxy_is_trusted() -> None:
    assert TrustedProxies.of("").client("127.0.0.1", ["203.0.113.7"]) == "127.0.0.1"


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def lines(log: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_a_peer_that_forwards_and_is_not_trusted_is_logged_once_in_ten_minutes(log: io.StringIO) -> None:
    clock = Clock()
    proxies = TrustedProxies(untrusted_alert=UntrustedForwardingAlert(clock))
    before = UNTRUSTED._value.get()  # What the metric counts is what was seen.

    for _ in range(3):
        assert proxies.client("192.0.2.1", ["203.0.113.7"]) == "192.0.2.1"
    clock.seconds = WARNING_SECONDS
    assert proxies.client("192.0.2.2", [], has_forwarded=True) == "192.0.2.2"

    assert UNTRUSTED._value.get() == before + 4
    assert [(line["event"], line["level"], line["peer"]) for line in lines(log)] == [
        ("forwarding_untrusted", "warning", "192.0.2.1"),
        ("forwarding_untrusted", "warning", "192.0.2.2"),
    ]
    assert "SKEIN_TRUSTED_PROXIES" in str(lines(log)[0]["hint"])


def test_a_trusted_proxy_and_a_caller_that_forwards_nothing_are_not_logged(log: io.StringIO) -> None:
    OURS.client("10.1.2.3", ["203.0.113.7"])
    OURS.client("203.0.113.7", [])

    assert lines(log) == []


@over("text", ["10.0.0.0/33", "proxy.example", "10.0.0.1/8"])
def test_an_invalid_network_is_named_with_its_setting(text: str) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_TRUSTED_PROXIES"):
        TrustedProxies.of(text)


def test_origins_are_exact() -> None:
    assert origins_of(" https://a.example,http://localhost:3000/ ") == ("https://a.example", "http://localhost:3000")


@over("text", ["*", "https://*.example", "a.example", "https://a.example/path", "null"])
def test_an_invalid_origin_is_named_with_its_setting(text: str) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_CORS_ORIGINS"):
        origins_of(text)
