"""Rules, alerts, promises and dashboards fit together and fit the code."""

from __future__ import annotations

import json
import re

import fix_settings
import yaml
from fix_catalogue import over
from fix_watching import (
    ALERTS,
    DASHBOARD_FILES,
    METRIC,
    ROOT,
    RULES,
    SHOWN_FILES,
    panel_queries,
    panels,
    rule_queries,
    runbook_queries,
    runbooks,
)
from prometheus_client import REGISTRY

from skein_cluster import registry
from skein_kit.identity.permissions import ACCESS_RULES as ACCESS
from skein_kit.identity.permissions import PUBLIC_SERVICES

SHOWN = [
    each
    for file in SHOWN_FILES
    for test in yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)["tests"]
    for each in test["alert_rule_test"]
]


@over("name", ALERTS)
def test_an_alert_says_how_bad_it_is_what_is_wrong_and_where_its_runbook_is(name: str) -> None:
    alert = ALERTS[name]

    assert alert["labels"] in ({"severity": "page"}, {"severity": "ticket"})
    assert "for" in alert
    assert set(alert["annotations"]) == {"summary", "runbook"}
    assert alert["annotations"]["runbook"].startswith("deploy/runbooks/")
    heading = (ROOT / alert["annotations"]["runbook"]).read_text("utf-8").splitlines()[0]
    assert name in re.findall(r"Skein\w+", heading)


def test_each_alert_is_shown_firing_and_shown_quiet() -> None:
    assert {each["alertname"] for each in SHOWN if each["exp_alerts"]} == set(ALERTS)
    assert {each["alertname"] for each in SHOWN if not each["exp_alerts"]} == set(ALERTS)


def test_a_service_that_is_missing_altogether_raises_an_alert() -> None:
    noticed = {
        process
        for name in ("SkeinMissing", "SkeinWorkerMissing")
        for process in re.findall(r'absent\(up\{job="skein", process="(\w+)"\}\)', ALERTS[name]["expr"])
    }

    # pc2 runs only where there are voice assistants.
    assert noticed == set(registry.NAMES) - {"pc2"}


def test_every_metric_that_is_asked_for_is_made_by_the_code_or_a_rule() -> None:
    made = made_metrics()
    queries = [*rule_queries(), *panel_queries(), *runbook_queries()]
    requests = {(query.who, metric) for query in queries for metric in METRIC.findall(query.expr)}

    assert len(requests) > len(RULES)
    assert {pair for pair in requests if pair[1] not in made} == set()


def test_every_metric_of_ours_is_shown_or_watched() -> None:
    queries = [*rule_queries(), *panel_queries(), *runbook_queries()]
    requests = {metric for query in queries for metric in METRIC.findall(query.expr)}
    assert made_metrics()
    families = {
        str(metric._name)  # type: ignore[attr-defined]  # A collector of ours has it.
        for metric in set(REGISTRY._names_to_collectors.values())
        if str(getattr(metric, "_name", "")).startswith("skein_")
    }

    unseen = {family for family in families if not any(metric.startswith(family) for metric in requests)}
    assert unseen == set()


def test_every_recorded_series_is_used() -> None:
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    queries = [*rule_queries(), *panel_queries(), *runbook_queries()]

    assert recorded == {metric for query in queries for metric in METRIC.findall(query.expr) if metric in recorded}


# What was promised.


def test_each_objective_has_alerts() -> None:
    objectives = {rule["labels"]["slo"] for rule in RULES if rule.get("record") == "slo:skein_budget:ratio"}

    assert objectives
    for objective in objectives:
        assert any(f'slo="{objective}"' in alert["expr"] for alert in ALERTS.values()), objective


def test_a_promise_is_paged_for_and_ticketed_as_the_workbook_says() -> None:
    burning = [alert for alert in ALERTS.values() if "slo:skein_burn:ratio" in alert["expr"]]

    assert {alert["labels"]["severity"] for alert in burning} == {"page", "ticket"}
    for alert in burning:
        burns = re.findall(r'window="(\w+)"} > ([\d.]+)', alert["expr"])
        guarded = re.findall(r'slo:skein_bad:count\{slo="\w+", window="(\w+)"\} >= 10', alert["expr"])

        if alert["labels"]["severity"] == "page":
            assert burns == [("1h", "14.4"), ("5m", "14.4"), ("6h", "6"), ("30m", "6")]
            assert guarded == ["1h", "6h"]
        else:
            assert burns == [("1d", "3"), ("2h", "3"), ("3d", "1"), ("6h", "1")]
            assert guarded == ["1d", "3d"]


def test_the_calls_that_are_counted_as_recalls_and_writes_exist_and_are_such() -> None:
    recalls, writes = (counted(f"{kind}_availability") for kind in ("recall", "write"))

    assert recalls == {
        "/skein.gateway.v1.GatewayService/Recall",
        "/skein.gateway.v1.GatewayService/BuildContext",
        "/skein.recall.v1.RecallService/Recall",
    }
    # The gateway's own do several things at once, and ask for what each of them needs.
    assert {path for path in writes if ACCESS[path].permission not in {"memory.write", "session.write"}} == {
        "/skein.gateway.v1.GatewayService/Remember",
        "/skein.gateway.v1.GatewayService/Forget",
    }
    assert {
        "/skein.memory.v1.MemoryService/CreateMemory",
        "/skein.memory.v1.MemoryService/BatchCreateMemories",
        "/skein.session.v1.SessionService/AppendMessages",
    } <= writes
    assert recalls == counted("recall_latency")
    assert writes == counted("write_latency")


# Dashboards.


def test_panels_have_a_name_an_id_a_place_and_a_unit_of_their_own() -> None:
    for file in DASHBOARD_FILES:
        result = json.loads(file.read_text("utf-8"))["panels"]
        cells = [
            (x, y)
            for panel in result
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        ]
        assert len(cells) == len(set(cells)), file.name
        assert len({panel["id"] for panel in result}) == len(result)
        assert all(panel["description"] for panel in result)
        assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in result)
    titles = [panel["title"] for _, panel in panels()]
    assert len(set(titles)) == len(titles)


def test_dashboards_have_a_name_and_an_address_of_their_own_and_lead_to_each_other() -> None:
    payloads = [json.loads(file.read_text("utf-8")) for file in DASHBOARD_FILES]

    assert [each["uid"] for each in payloads] == [file.stem for file in DASHBOARD_FILES]
    assert len({each["title"] for each in payloads}) == len(payloads)
    for each in payloads:
        assert each["links"] == [{"type": "dashboards", "tags": ["skein"], "asDropdown": False, "title": "Skein"}]
        assert "skein" in each["tags"]


def test_panels_that_runbooks_name_exist() -> None:
    titles = {panel["title"] for _, panel in panels()}
    named = {
        (name, title)
        for name, text in runbooks().items()
        for match in re.findall(r"[Pp]anels? ((?:\*[^*\n]+\*(?:, | and )?)+)", text)
        for title in re.findall(r"\*([^*\n]+)\*", match)
    }

    assert named
    assert {pair for pair in named if pair[1] not in titles} == set()


def made_metrics() -> set[str]:
    """Return every series that the code, the client library and the rules make."""
    # Read, and so imported, and with it every module that makes a metric.
    assert fix_settings.FIELDS
    return set(REGISTRY._names_to_collectors) | {rule["record"] for rule in RULES if "record" in rule}


def counted(slo: str) -> set[str]:
    """Return the public methods whose calls a promise counts."""
    (rule,) = (
        rule for rule in RULES if rule.get("record") == "slo:skein_calls:rate2m" and rule["labels"] == {"slo": slo}
    )
    service, method = (re.search(rf'{label}=~"(.+?)"', rule["expr"])[1] for label in ("service", "method"))  # type: ignore[index]  # Each has both.
    public = {*PUBLIC_SERVICES, "skein.gateway.v1.GatewayService"}
    paths = (path for path in ACCESS if path.split("/")[1] in public)
    return {
        path for path in paths if re.fullmatch(service, path.split("/")[1]) and re.fullmatch(method, path.split("/")[2])
    }
