#!/bin/sh
# Compiles fifteen locks: requirements.lock (services and tools), deploy/requirements.lock (services alone, for the image),
# deploy/build.lock (what builds our distributions there), deploy/audit.lock (what looks at the others),
# deploy/dist.lock (what checks the packages of a release), tests/edge/python.lock (what the tests at the edge need beside),
# tests/edge/schemathesis.lock (what fuzzes HTTP), tests/edge/frameworks.lock (what libs/adapters adapt, and what tests
# them), tests/edge/crewai.lock (the same for CrewAI), tests/edge/tokenizers.lock (vocabularies of models),
# tests/edge/go.lock (a Go toolchain), docs/tools/site.lock (what builds the site of docs/), tests/bench/peers.lock,
# tests/bench/mem0.lock and tests/bench/hindsight.lock (what tests/bench/peers.py compares with).
# Pins stay unless a pyproject.toml rules them out; `deploy/lock.sh --upgrade` looks for newer versions of everything.
set -eu

compile() {
    .venv/bin/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header "$@"
}

ours() {
    # shellcheck disable=SC2046 # a list of options
    compile --excludes excludes.txt $(sed -n 's|^name = "\(.*\)"|--no-emit-package \1|p' libs/*/pyproject.toml services/*/pyproject.toml) \
        "$@" requirements.in
}

ours --group dev --output-file requirements.lock "$@"
# In a container Postgres is a server of its own, so the one that comes in a wheel stays out.
ours --excludes deploy/excludes.txt --constraints requirements.lock --output-file deploy/requirements.lock
compile --constraints requirements.lock --output-file deploy/build.lock deploy/build.in
compile --output-file deploy/audit.lock "$@" deploy/audit.in
compile --output-file deploy/dist.lock "$@" deploy/dist.in
compile --constraints requirements.lock --output-file tests/edge/python.lock tests/edge/python.in
compile --output-file tests/edge/schemathesis.lock "$@" tests/edge/schemathesis.in
compile --output-file tests/edge/frameworks.lock "$@" tests/edge/frameworks.in
compile --output-file tests/edge/crewai.lock "$@" tests/edge/crewai.in
compile --no-deps --output-file tests/edge/tokenizers.lock "$@" tests/edge/tokenizers.in
compile --no-deps --output-file tests/edge/go.lock "$@" tests/edge/go.in
compile --output-file docs/tools/site.lock "$@" docs/tools/site.in
# The embedded model runs with the product's versions.
compile --excludes excludes.txt --constraints requirements.lock --output-file tests/bench/peers.lock "$@" tests/bench/peers.in
compile --output-file tests/bench/mem0.lock "$@" tests/bench/mem0.in
compile --output-file tests/bench/hindsight.lock "$@" tests/bench/hindsight.in
