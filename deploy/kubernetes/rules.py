"""`python deploy/kubernetes/rules.py`: hands the rules and the dashboards on to Kubernetes.

The rules of deploy/prometheus become a PrometheusRule of prometheus-operator, and each dashboard a ConfigMap. `--check`
compares instead, and ends with 1 when a file says something else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
RULES = HERE / "components/monitoring/rules.yaml"
DASHBOARDS = HERE.parent / "grafana/dashboards/kustomization.yaml"
_HEAD = "# Made by deploy/kubernetes/rules.py; do not edit.\n"


class _Plain(yaml.SafeDumper):
    """Writes long expressions as blocks, so that a change reads as one."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Plain.add_representer(str, _text)


def sources() -> list[Path]:
    """Return the files of rules that Prometheus reads, in order."""
    folder = HERE.parent / "prometheus"
    return [path for path in (folder / "rules.yml", *sorted((folder / "rules").glob("*.yml"))) if path.exists()]


def rendered() -> dict[Path, str]:
    """Return the text of each file."""
    groups: list[dict[str, Any]] = []
    for source in sources():
        groups += yaml.safe_load(source.read_text("utf-8"))["groups"]
    rules = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "skein"},
        "spec": {"groups": groups},
    }
    # One for each, because a ConfigMap has its limits. Grafana's sidecar finds them by the label.
    dashboards = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "configMapGenerator": [
            {
                "name": f"dashboard-{path.stem}",
                "namespace": "skein",
                "files": [path.name],
                "options": {"labels": {"grafana_dashboard": "1"}},
            }
            for path in sorted(DASHBOARDS.parent.glob("*.json"))
        ],
    }
    return {RULES: _yaml(rules), DASHBOARDS: _yaml(dashboards)}


def _yaml(document: dict[str, Any]) -> str:
    return _HEAD + yaml.dump(document, Dumper=_Plain, sort_keys=False, width=118, allow_unicode=True)


def main() -> None:
    """Write the files, or compare them."""
    texts = rendered()
    if "--check" not in sys.argv[1:]:
        for path, text in texts.items():
            path.write_text(text, "utf-8")
        return
    stale = [path.name for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    if stale:
        sys.exit(f"{', '.join(stale)} is not what it is made from: run `make manifests`")


if __name__ == "__main__":
    main()
