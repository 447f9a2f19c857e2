"""Validates Kubernetes' own kinds, read from standard input as a JSON list: strictly, for each version that is named.

Run with .edge/python on the path; prints a JSON list of what is wrong.
"""

from __future__ import annotations

import functools
import json
import sys

import kubernetes_validate  # type: ignore[import-not-found]  # Lies in .edge/python.
from kubernetes_validate import utils


def main() -> None:
    """Read, validate, print."""
    # All kinds share the definitions, which are large.
    utils.schema_contents = functools.cache(utils.schema_contents)
    problems = []
    for each in json.load(sys.stdin):
        for version in sys.argv[1:]:
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except (utils.ValidationError, utils.SchemaNotFoundError) as error:
                problems.append(f"{version}: {each['kind']} {each['metadata']['name']}: {error.message}")
    sys.stdout.write(json.dumps(problems))


if __name__ == "__main__":
    main()
