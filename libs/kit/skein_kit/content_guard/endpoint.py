"""An operator's own detector of secrets and personal data behind an HTTP endpoint, beside the built-in ones.

The endpoint gets `{"texts": ["…", …]}` and returns, for each text, the parts that it found, by characters:
`{"findings": [[{"kind": "person_name", "category": "personal_data", "start": 0, "end": 4}], …]}`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client import Counter

from skein_kit.content_guard.detectors import Category, Finding
from skein_kit.errors import ContentGuardUnavailable
from skein_kit.outbound.fetch import OutboundError, SafeHttpClient
from skein_kit.settings import SettingInvalid, Settings, advanced
from skein_kit.telemetry import logs

_KIND: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
# Kinds are labels of a metric, so a process knows only so many; others are "other".
_MAX_KINDS, _OTHER_KIND = 100, "other"
_MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
_REFUSE, _PASS = "refuse", "pass"

FAILURES = Counter(
    "skein_guard_endpoint_failures_total",
    "Requests whose texts the endpoint of the content guard could not search.",
    ["service"],
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GuardSettings(Settings):
    """Settings of a detector of secrets and personal data beside the built-in ones."""

    # URL of a detector, e.g. http://127.0.0.1:7000/find. It receives the texts that callers write, of tenants whose
    # policy has a guard. It may have a private address. Empty: the built-in detectors alone.
    guard_url: str = ""
    # Sent to SKEIN_GUARD_URL as a bearer token, if it needs one.
    guard_key: str = dataclasses.field(default="", repr=False)
    # What a failure of SKEIN_GUARD_URL does: "refuse" ends the write with CONTENT_GUARD_UNAVAILABLE, "pass" lets it
    # through with what the built-in detectors find.
    guard_failure: str = _REFUSE
    # Seconds that a write waits for SKEIN_GUARD_URL. More, for a detector that is a language model.
    guard_timeout_seconds: float = advanced(2.0)


class DetectorEndpoint:
    """Asks one endpoint, which may lie in a private network, because only the operator can configure it."""

    def __init__(self, settings: GuardSettings, *, service: str) -> None:
        """Raise SettingInvalid for a URL or a word that is not allowed."""
        parts = urlsplit(settings.guard_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
            message = "SKEIN_GUARD_URL should be the URL of a detector, such as http://127.0.0.1:7000/find."
            raise SettingInvalid(message)
        if settings.guard_failure not in {_REFUSE, _PASS}:
            message = 'SKEIN_GUARD_FAILURE should be "refuse" or "pass".'
            raise SettingInvalid(message)
        if settings.guard_timeout_seconds <= 0:
            message = "SKEIN_ADVANCED_GUARD_TIMEOUT_SECONDS should be above 0."
            raise SettingInvalid(message)
        self._url = settings.guard_url
        self._outbound = SafeHttpClient(allow=(f"{parts.scheme}://{parts.netloc}",))
        self._headers = {"Authorization": f"Bearer {settings.guard_key}"} if settings.guard_key else {}
        self._timeout = settings.guard_timeout_seconds
        self._refuses = settings.guard_failure == _REFUSE
        self._service = service
        self._kinds: set[str] = set()

    @classmethod
    def of(cls, environment: Mapping[str, str], *, service: str) -> DetectorEndpoint | None:
        """Return the configured endpoint; None without one. Raises SettingInvalid."""
        settings = GuardSettings.read(environment)
        return cls(settings, service=service) if settings.guard_url else None

    async def find(self, texts: Sequence[str]) -> dict[str, list[Finding]]:
        """Return what the endpoint finds, by text. Raises ContentGuardUnavailable if its failure refuses writes."""
        try:
            response = await self._outbound.post_json(
                self._url,
                {"texts": list(texts)},
                limit_bytes=_MAX_RESPONSE_BYTES,
                timeout=self._timeout,
                headers=self._headers,
            )
            return self._read(texts, response.document)
        except (OutboundError, ValueError, TypeError, KeyError) as error:
            FAILURES.labels(self._service).inc()
            why = error.why if isinstance(error, OutboundError) else "content"
            logs.get(self._service).warning("content_guard_failed", reason=why)
            if self._refuses:
                raise ContentGuardUnavailable from None
            return {}

    def _read(self, texts: Sequence[str], document: Mapping[str, Any]) -> dict[str, list[Finding]]:
        """Read a response. Raises ValueError, TypeError or KeyError when it is not as the head of this module says."""
        return {
            text: [self._finding(text, item) for item in items]
            for text, items in zip(texts, document["findings"], strict=True)
        }

    def _finding(self, text: str, item: Mapping[str, Any]) -> Finding:
        kind, start, end = str(item["kind"]), int(item["start"]), int(item["end"])
        if not (_KIND.fullmatch(kind) and 0 <= start < end <= len(text)):
            raise ValueError
        if kind not in self._kinds:
            if len(self._kinds) < _MAX_KINDS:
                self._kinds.add(kind)
            else:
                kind = _OTHER_KIND
        return Finding(kind, Category(item["category"]), start, end)
