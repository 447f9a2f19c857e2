# `make help` lists what there is. Every path is relative: make itself cannot handle a space in a name.
# Tools run as `.venv/bin/python -m …`, so that a shebang line never has to hold the clone's path.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Compiled once, whatever the shell's own settings: the tests start many processes, each of which imports a lot.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode

PYTHON := .venv/bin/python
SKEIN := .venv/bin/skein
TESTS ?= tests
# Three keep two cores busy. More take as long, and on a slow machine deadlines pass that a test believes to be far off.
WORKERS ?= 3
# Tests of the system tier wait for processes most of the time.
SYSTEM_WORKERS := 4
# Each worker takes files that follow one another, so that what a file needs is started once, and helps the others at the end.
SHARED := --dist worksteal
# Each of these takes whole files: what a file of tests/edge builds is built once.
EDGE_WORKERS := 2
# What must hold for one process and for one process per service alike: whatever passes from one service to another. The
# rest is within a service, or starts what it needs itself, as most tests of the gateway alone do.
BOTH_FORMS_FAST := $(addprefix tests/service/test_,isolation.py repeated_requests.py)
BOTH_FORMS := tests/system/test_gateway_forwarding.py \
	$(addprefix tests/service/test_,auth_exchange.py auth_revocation.py gateway_grpc.py gateway_forget.py \
	gateway_framing.py gateway_http.py gateway_remember.py memory_create.py oauth_http.py pc2.py rate_limits.py \
	recall_cluster.py remember.py session_append.py sign_in.py tenancy_agents.py worker.py)
# What `make test` leaves to other tiers, or runs against a process for each service alone.
FAST := --ignore=tests/edge --ignore=tests/system $(if $(filter tests,$(TESTS)),$(addprefix --ignore=,$(BOTH_FORMS_FAST)))
# `make test-system SAMPLE=1` and `make test-edge SAMPLE=1` run one test of each area, as a landing does.
SAMPLED := $(if $(SAMPLE),and essential)
# The files with tests of the system tier, or of its sample: each worker would take seconds to read all others.
OUTSIDE_EDGE := $(filter-out tests/edge/%,$(wildcard tests/*/test_*.py))
SYSTEM_TESTS = $(if $(SAMPLE),,tests/system) \
	$(shell grep -l 'mark\.$(if $(SAMPLE),essential,system)' $(if $(SAMPLE),$(OUTSIDE_EDGE),$(filter-out tests/system/%,$(OUTSIDE_EDGE))))

# An environment that was made for another path (a moved or copied clone) is made again.
ifneq ($(shell test "$$(cat .venv/ready 2>/dev/null)" = "$$(pwd)" && echo yes),yes)
.PHONY: .venv/ready
endif

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: .venv/ready ## Start a cluster, import the sample conversation, ask it, show a trace, stop
	@$(SKEIN) demo

.PHONY: up
up: .venv/ready ## Keep the whole cluster up in one process until Ctrl-C
	@$(SKEIN) up

.PHONY: cluster
cluster: .venv/ready ## Keep the whole cluster up, one process per service, until Ctrl-C (REPLICAS="memory=2 recall=2")
	@$(SKEIN) cluster $(addprefix --replicas ,$(REPLICAS))

.PHONY: test
test: .venv/ready ## Run the fast tests (TESTS=tests/unit runs a part, WORKERS=1 one at a time)
	@$(PYTHON) -m pytest -n $(WORKERS) $(SHARED) -m "not system" $(FAST) $(TESTS)
ifeq ($(TESTS),tests)
# One worker, whose eight processes keep both cores busy: a second one would start eight more for a few tests.
	@echo "Isolation and repeated requests against a process for each service:"
	@SKEIN_TEST_FORM=many $(PYTHON) -m pytest -n 1 -m "not system" $(BOTH_FORMS_FAST)
endif

.PHONY: test-system
test-system: .venv/ready ## Run the tests that start, kill, flood or restore processes, and the long ones (SAMPLE=1: one of each area)
	@$(PYTHON) -m pytest -n $(SYSTEM_WORKERS) $(SHARED) -m "system $(SAMPLED)" $(SYSTEM_TESTS)
ifndef SAMPLE
	@$(PYTHON) -m pytest -n 2 $(SHARED) $(BOTH_FORMS_FAST)
	@echo "What passes between services against a process for each:"
	@SKEIN_TEST_FORM=many $(PYTHON) -m pytest -n $(WORKERS) $(SHARED) $(BOTH_FORMS)
endif

.PHONY: test-edge
test-edge: .venv/ready .edge/site/ready .edge/typescript/ready $(if $(SAMPLE),,.edge/schemathesis/ready .edge/frameworks/ready .edge/crewai/ready .edge/tokenizers/ready .edge/go/ready) ## Fetch promtool and the like into .edge and run the tests that need them (SAMPLE=1: the essentials)
	@deploy/edge-tools.sh
	@PATH="$$(pwd)/.edge/usr/bin:$$PATH" $(PYTHON) -m pytest -n $(EDGE_WORKERS) --dist loadfile --no-loadscope-reorder -m "edge $(SAMPLED)" tests/edge

.PHONY: test-all
test-all: export SKEIN_TEST_EXAMPLES := 200
test-all: test test-system test-edge ## Run every test: what a change must pass before its issue is closed

.PHONY: test-changed
test-changed: .venv/ready ## Run the fast tests that the difference from main touches (BASE=COMMIT, TIER=system|edge|all)
	@$(PYTHON) tests/tools/changed.py $(if $(BASE),--base $(BASE)) $(if $(TIER),--tier $(TIER)) -- -n $(WORKERS) $(SHARED)

.PHONY: defects
defects: .venv/ready ## Plant each seeded defect in a copy and say which tier of the tests finds it (takes an hour)
	@$(PYTHON) tests/tools/defects.py

.PHONY: check
check: .venv/ready ## Lint, types, layers, contract, drift of stubs and reference; changes nothing
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m ruff format --check
	@$(PYTHON) -m mypy
	@$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"
	@.venv/bin/buf lint
	@$(PYTHON) libs/protos/tools/contract.py check
	@$(PYTHON) libs/protos/tools/stubs.py check
	@$(PYTHON) libs/client/tools/sync_client.py check
	@$(PYTHON) docs/tools/reference.py check

.PHONY: protos
protos: .venv/ready ## Generate libs/protos from protos
	@$(PYTHON) libs/protos/tools/stubs.py write

.PHONY: protos-check
protos-check: .venv/ready ## Compare libs/protos with what protos give
	@$(PYTHON) libs/protos/tools/stubs.py check

.PHONY: client
client: .venv/ready ## Generate the synchronous client from the asynchronous one
	@$(PYTHON) libs/client/tools/sync_client.py write

.PHONY: reference
reference: .venv/ready ## Generate docs/reference from the code
	@$(PYTHON) docs/tools/reference.py write

.PHONY: size
size: .venv/ready ## Print how large the product is: lines, files, RPCs, settings, what three calls enter
	@$(PYTHON) docs/tools/size.py

.PHONY: docs
docs: .venv/ready .edge/site/ready ## Build the site of docs/ into .edge/docs; a dead link fails
	@$(PYTHON) docs/tools/pages.py .edge/pages
	@NO_MKDOCS_2_WARNING=1 .edge/site/bin/python -m mkdocs build --strict --clean --config-file .edge/pages/mkdocs.yml --site-dir ../docs

.PHONY: pictures
pictures: .venv/ready ## Take the pictures of docs/guides/console.md anew, with the browser of the edge tests
	@CONSOLE_TOUR=docs/guides/console $(PYTHON) -m pytest -q tests/edge/test_console.py -k tour

.PHONY: fmt
fmt: .venv/ready ## Format everything
	@$(PYTHON) -m ruff check --fix --exit-zero --quiet
	@$(PYTHON) -m ruff format
	@.venv/bin/buf format --write protos

.PHONY: bench
bench: .venv/ready ## Print how fast it is, and what callers can make it spend
	@$(PYTHON) tests/bench
	@$(PYTHON) tests/bench/budgets.py

.PHONY: bench-peers
bench-peers: .venv/ready ## Compare with plain pgvector, Chroma, LangGraph's store, mem0 and Hindsight, which it fetches into .edge
	@$(PYTHON) tests/bench/peers.py

.PHONY: soak
soak: .venv/ready .edge/schemathesis/ready ## Load every port for ten minutes and fail when something grows (SECONDS=60: shorter), kill each process in turn, repeat histories, replay 10,000 answers, forget a person, then attack it (LOCOMO=FILE: with falsehoods from its questions too)
	@$(PYTHON) tests/bench/soak.py
	@$(PYTHON) tests/bench/outages.py
	@$(PYTHON) tests/bench/histories.py
	@$(PYTHON) tests/bench/replays.py
	@$(PYTHON) tests/bench/canaries.py
	@SKEIN_ATTACKS=full $(PYTHON) -m pytest -n 1 --timeout 1800 tests/attacks tests/edge/test_openapi_fuzzed.py
	@$(if $(LOCOMO),$(PYTHON) tests/bench/falsehoods.py $(LOCOMO))

.PHONY: env
env: .venv/ready ## Make .venv from requirements.lock

.venv/ready: requirements.lock requirements.in $(wildcard libs/*/pyproject.toml services/*/pyproject.toml)
	@deploy/env.sh

# The image takes deploy/requirements.lock: the same versions without the tools.
.PHONY: lock
lock: .venv/ready ## Pin what the pyproject.toml files ask for (deploy/lock.sh --upgrade: the newest)
	@deploy/lock.sh

# In environments of their own, beside the product's lock.
.edge/schemathesis/ready: tests/edge/schemathesis.lock | .venv/ready
	@$(PYTHON) -m uv venv --quiet --clear --python $(PYTHON) .edge/schemathesis
	@$(PYTHON) -m uv pip install --quiet --python .edge/schemathesis/bin/python --no-deps --no-build --require-hashes \
		-r tests/edge/schemathesis.lock
	@touch $@

.edge/frameworks/ready .edge/crewai/ready: .edge/%/ready: tests/edge/%.lock | .venv/ready
	@$(PYTHON) -m uv venv --quiet --clear --python $(PYTHON) .edge/$*
	@$(PYTHON) -m uv pip install --quiet --python .edge/$*/bin/python --no-deps --no-build --require-hashes \
		-r tests/edge/$*.lock
	@touch $@

.edge/tokenizers/ready: tests/edge/tokenizers.lock | .venv/ready
	@$(PYTHON) -m uv venv --quiet --clear --python $(PYTHON) .edge/tokenizers
	@$(PYTHON) -m uv pip install --quiet --python .edge/tokenizers/bin/python --no-deps --no-build --require-hashes \
		-r tests/edge/tokenizers.lock
	@touch $@

.edge/go/ready: tests/edge/go.lock tests/edge/go-tools.sh | .venv/ready
	@tests/edge/go-tools.sh
	@touch $@

.edge/site/ready: docs/tools/site.lock | .venv/ready
	@$(PYTHON) -m uv venv --quiet --clear --python $(PYTHON) .edge/site
	@$(PYTHON) -m uv pip install --quiet --python .edge/site/bin/python --no-deps --no-build --require-hashes \
		-r docs/tools/site.lock
	@touch $@

.edge/audit/ready: deploy/audit.lock | .venv/ready
	@$(PYTHON) -m uv venv --quiet --clear --python $(PYTHON) .edge/audit
	@$(PYTHON) -m uv pip install --quiet --python .edge/audit/bin/python --no-deps --require-hashes -r deploy/audit.lock
	@touch $@

.PHONY: audit
audit: .venv/ready .edge/audit/ready ## Look for known vulnerabilities in what is pinned; fails when it cannot ask for them (ADVISORIES: pypi or osv)
	@.edge/audit/bin/python -m pip_audit --strict --disable-pip --no-deps --progress-spinner off \
		--vulnerability-service $(or $(ADVISORIES),pypi) \
		-r requirements.lock -r deploy/requirements.lock -r deploy/build.lock -r deploy/audit.lock -r deploy/dist.lock \
		&& npm --prefix libs/typescript audit --package-lock-only --omit dev \
		|| { echo "NOT PASSED: the lines above name a vulnerability, or the advisories did not answer." >&2; exit 1; }

.PHONY: sbom
sbom: .venv/ready .edge/audit/ready ## Write deploy/sbom.cdx.json and deploy/licences.md
	@$(PYTHON) -m uv venv --quiet --clear --python $(PYTHON) .edge/shipped
	@$(PYTHON) -m uv pip install --quiet --python .edge/shipped/bin/python --no-deps --require-hashes -r deploy/requirements.lock
	@$(PYTHON) deploy/sbom.py .edge/audit/bin/python .edge/shipped/bin/python

.edge/dist/ready: deploy/dist.lock | .venv/ready
	@$(PYTHON) -m uv venv --quiet --clear --python $(PYTHON) .edge/dist
	@$(PYTHON) -m uv pip install --quiet --python .edge/dist/bin/python --no-deps --no-build --require-hashes -r deploy/dist.lock
	@touch $@

.PHONY: dist
dist: .venv/ready .edge/dist/ready .edge/audit/ready ## Build the packages of a release into dist/ and check them (PROJECT_URL: the address of the repository)
	@$(PYTHON) deploy/dist.py dist $(PROJECT_URL)
	@.edge/dist/bin/python -m twine check --strict dist/*.whl dist/*.tar.gz
	@$(PYTHON) deploy/release.py describe dist .edge/audit/bin/python

.PHONY: freeze
freeze: .venv/ready ## Write what later versions keep of this one into deploy/released: migrations, contract, data; commit it
	@$(PYTHON) deploy/release.py freeze
	@SKEIN_TEST_FREEZE=deploy/released $(PYTHON) -m pytest -q tests/system/test_released_data.py -k present

.PHONY: release
release: .venv/ready .edge/dist/ready .edge/audit/ready .edge/typescript/ready .edge/go/ready ## Make all files of VERSION from the commit into dist/, twice with equal bytes (PROJECT_URL; SIGNING_KEY signs the checksums)
	@test -n "$(VERSION)" || { echo "make release needs VERSION, such as VERSION=0.1.0" >&2; exit 2; }
	@PATH="$$(pwd)/.edge/go/usr/bin:$$PATH" $(PYTHON) deploy/release.py build dist v$(VERSION) .edge/audit/bin/python $(PROJECT_URL)
	@.edge/dist/bin/python -m twine check --strict dist/*.whl dist/*.tar.gz
	@$(if $(SIGNING_KEY),$(MAKE) sign)

.PHONY: sign
sign: .venv/ready ## Sign dist/SHA256SUMS with a private key of OpenSSH (SIGNING_KEY)
	@test -n "$(SIGNING_KEY)" || { echo "make sign needs SIGNING_KEY, the file of a private key" >&2; exit 2; }
	@$(PYTHON) deploy/release.py sign dist "$(SIGNING_KEY)"

# What libs/typescript is built with, checked against the lock's checksums.
.edge/typescript/ready: libs/typescript/package-lock.json | .venv/ready
	@mkdir -p .edge/typescript
	@cp libs/typescript/.npmrc libs/typescript/package.json libs/typescript/package-lock.json .edge/typescript/
	@cd .edge/typescript && npm ci --silent
	@touch $@

.PHONY: typescript
typescript: .venv/ready .edge/typescript/ready ## Build the TypeScript client into dist/npm, which needs Node (PROJECT_URL: as for dist)
	@$(PYTHON) libs/typescript/tools/build.py dist/npm $(PROJECT_URL)

.PHONY: go
go: .venv/ready ## Build the Go module of the contract into dist/go, which needs protoc-gen-go and protoc-gen-go-grpc (PROJECT_URL: as for dist)
	@$(PYTHON) libs/go/tools/go_module.py dist/go $(PROJECT_URL)

.PHONY: manifests
manifests: .venv/ready ## Write what deploy/ has from the code: rules for Kubernetes, tables for Citus and for moving in
	@$(PYTHON) deploy/kubernetes/rules.py
	@$(PYTHON) deploy/citus/distribute.py
	@$(PYTHON) deploy/migrating.py

.PHONY: clean
clean: ## Remove all that make and the tools made, .venv included
	@rm -rf .venv .edge dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
