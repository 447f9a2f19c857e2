"""The content guard of a service: applies a tenant's policy to the texts of a request before they are stored.

Nothing of what it finds is logged, counted by tenant or put into an error: only kinds and fields are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import Counter

from skein_kit.admission.processor_time import run_in_thread
from skein_kit.calls.call import caller as caller_of
from skein_kit.content_guard import detectors
from skein_kit.content_guard.detectors import Category
from skein_kit.content_guard.texts import replace_texts, texts_of
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import ContentRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from google.protobuf.message import Message

    from skein_kit.calls.call import Call
    from skein_kit.content_guard.detectors import Finding
    from skein_kit.content_guard.endpoint import DetectorEndpoint
    from skein_kit.database.transactions import Database
    from skein_kit.policies.store import Policy, PolicyCache

    Handler = Callable[[Any, Any], Awaitable[Any]]
    # Takes the kind and the text of a secret, and returns what is stored in its place.
    Seal = Callable[[str, str], str]

KEEP: Final = "keep"
_COUNT, _REDACT, _SEAL, _REFUSE = "count", "redact", "seal", "refuse"
# Larger requests are searched in a thread: a kilobyte takes about 1.5 ms.
_MAX_BYTES_ON_LOOP: Final = 4096

FINDINGS = Counter(
    "skein_guard_findings_total",
    "Secrets and personal data that callers wrote, by kind and by what was done.",
    ["service", "kind", "action"],
)


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardRules:
    """What a policy does with findings."""

    actions: Mapping[Category, str]
    ignored_kinds: frozenset[str]

    @classmethod
    def of(cls, policy: Policy) -> GuardRules:
        """Read a policy."""
        actions = {Category.SECRET: policy.guard_secrets, Category.PERSONAL_DATA: policy.guard_personal_data}
        return cls(
            actions={category: action for category, action in actions.items() if action != KEEP},
            ignored_kinds=frozenset(policy.guard_ignored_kinds),
        )

    def find(self, text: str, *, name: str, others: Iterable[Finding] = ()) -> list[Finding]:
        """Return the findings that the policy has an action for, of the built-in detectors and `others`."""
        found = detectors.find(text, self.actions.keys(), name=name, others=others)
        return [finding for finding in found if finding.kind not in self.ignored_kinds]


class ContentGuard:
    """Screens the requests of one service."""

    def __init__(self, database: Database, policies: PolicyCache, endpoint: DetectorEndpoint | None = None) -> None:
        """Read policies with the service's role; ask `endpoint` beside the built-in detectors."""
        self._database = database
        self._policies = policies
        self._endpoint = endpoint

    def wrap(self, handler: Handler) -> Handler:
        """Return a method's handler behind the guard, which redacts where the policy seals."""

        async def answer(request: Message, call: Call) -> Any:
            await self.apply(await self.rules(caller_of(call).require_tenant()), request)
            return await handler(request, call)

        return answer

    async def apply(
        self,
        rules: GuardRules,
        message: Message,
        *,
        path: str = "",
        seal: Seal | None = None,
        built_in_only: bool = False,
    ) -> None:
        """Apply rules to every text of a message, and change it where they say so; `path` precedes its fields' paths.

        Without `seal`, and for personal data, sealing is redaction. Raises ContentRefused, and then nothing is changed,
        and ContentGuardUnavailable. With `built_in_only` the endpoint is not asked: within a transaction nothing waits
        for it.
        """
        if not rules.actions:
            return
        endpoint_findings: Mapping[str, Sequence[Finding]] = {}
        if self._endpoint is not None and not built_in_only and (texts := texts_of(message)):
            endpoint_findings = await self._endpoint.find(texts)
        screening = _Screening(rules, seal, path, endpoint_findings)
        if message.ByteSize() <= _MAX_BYTES_ON_LOOP:
            screening.run(message)
        else:
            await run_in_thread(screening.run, message)
        for kind, action in screening.counts:
            FINDINGS.labels(self._database.service, kind, action).inc()
        if screening.refused:
            raise ContentRefused(violations=screening.refused)

    async def rules(self, tenant_id: UUID) -> GuardRules:
        """Return the rules of a tenant's policy, at most a second old."""
        policy = self._policies.get_cached(tenant_id)
        if policy is None:
            options = TxOptions(plan_once=True, skip_replica=True, read_only=True)
            async with self._database.transaction(tenant_id, options) as tx:
                policy = await self._policies.get(tx, tenant_id)
        return GuardRules.of(policy)


class _Screening:
    """The screening of one message."""

    def __init__(
        self, rules: GuardRules, seal: Seal | None, path: str, endpoint_findings: Mapping[str, Sequence[Finding]]
    ) -> None:
        self._rules = rules
        # By text.
        self._endpoint_findings = endpoint_findings
        self._seal = seal
        self._path = path
        # Kind and action of each finding.
        self.counts: list[tuple[str, str]] = []
        # Fields with what they hold.
        self.refused: Sequence[tuple[str, str]] = []

    def run(self, message: Message) -> None:
        """Find everything first, so that a refused message seals nothing."""
        kinds: dict[tuple[str, str], None] = {}

        def note(text: str, *, path: str, name: str) -> str:
            for finding in self._find(text, name):
                action = self._rules.actions[finding.category]
                self.counts.append((finding.kind, action))
                if action == _REFUSE:
                    kinds[path, finding.kind] = None
            return text

        replace_texts(message, note, self._path)
        self.refused = [(path, f"holds {kind}, which the tenant's policy refuses") for path, kind in kinds]
        if not self.refused and any(action in (_REDACT, _SEAL) for _, action in self.counts):
            replace_texts(message, self._replaced, self._path)

    def _find(self, text: str, name: str) -> list[Finding]:
        return self._rules.find(text, name=name, others=self._endpoint_findings.get(text, ()))

    def _replaced(self, text: str, *, path: str, name: str) -> str:
        parts, end = [], 0
        for finding in self._find(text, name):
            action = self._rules.actions[finding.category]
            if action == _COUNT:
                continue
            value, placeholder = text[finding.start : finding.end], f"[{finding.kind}]"
            if action == _SEAL and finding.category is Category.SECRET and self._seal is not None:
                placeholder = self._seal(finding.kind, value)
            parts += [text[end : finding.start], placeholder]
            end = finding.end
        return "".join([*parts, text[end:]])
