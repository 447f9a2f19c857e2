"""Labels of metrics have few values, and never identify a person or their data."""

from __future__ import annotations

import re
from collections.abc import Iterator

import fix_settings
from fix_catalogue import over
from prometheus_client import REGISTRY

# A label with one of these words in its name has as many values as there are tenants, people or things.
COUNTLESS = re.compile(
    r"tenant|organization|principal|account|user|subject|caller|client|agent|session|memory|message|item|document|"
    r"address|peer|host|email|request|trace|span|key|token|credential|uuid|text|content|title|error$|(^|_)ids?($|_)"
)
# What values each label may have: all of them few, and known before a call comes in.
LABELS = {
    "action": "what a policy does with a finding",
    "branch": "search branches of a recall",
    "channel": "a stream or a webhook",
    "code": "gRPC's status codes",
    "decision": "decisions of the rate limits",
    "form": "forms of codes in the vector cache",
    "job_name": "jobs of the worker",
    "kind": "limits by their names, findings of the content guard, kinds of jobs",
    "machine": "machines of a Citus cluster",
    "measurement": "what the worker measures",
    "method": "RPCs",
    "model": "registered embedding models",
    "operation": "hashing a password or verifying one",
    "outcome": "how something ended",
    "path": "ways of searching vectors",
    "port": "ports of the voice assistants",
    "query": "named queries",
    "reason": "documented reasons of refusals",
    "replica": "replicas of the database by the operator's names",
    "schema": "schemas, or the one version of them",
    "service": "services",
    "state": "states of a search branch or a connection",
    "status": "states of a job or an answer",
    "table": "tables, without their partitions",
    "tool": "tools of MCP",
    "use": "what a certificate is for",
    "version": "the one version that runs",
}


def labels() -> Iterator[tuple[str, str]]:
    """Yield every metric of ours with each of its labels; all modules that make metrics are imported."""
    assert fix_settings.FIELDS
    for metric in set(REGISTRY._names_to_collectors.values()):
        name = str(getattr(metric, "_name", ""))
        if name.startswith("skein_"):
            yield from ((name, label) for label in getattr(metric, "_labelnames", ()))


def test_no_metric_has_a_label_for_a_tenant_a_principal_or_anything_s_id() -> None:
    results = list(labels())

    assert len(results) > 30
    assert [pair for pair in results if COUNTLESS.search(pair[1])] == []


def test_every_label_has_few_values_and_it_is_known_which() -> None:
    assert {label for _, label in labels()} - set(LABELS) == set()


@over("label", ["tenant", "tenant_id", "principal", "memory_id", "id", "api_key", "subject", "error"])
def test_a_label_that_would_tell_is_noticed(label: str) -> None:
    assert COUNTLESS.search(label)
