# `make help` lists what there is. Everything runs inside .venv, which this file makes; uv.lock pins what goes in.
SHELL := /bin/bash
.DEFAULT_GOAL := help

UV_VERSION := $(shell sed -n 's/^uv==\([^ ]*\).*/\1/p' toolchain/uv.txt)
VENV := .venv
UV := $(VENV)/bin/uv
RUN := $(VENV)/bin/
PYTHON ?= python3

# An interpreter that is already on the machine, never one that uv would download.
export UV_PYTHON_DOWNLOADS := never
export UV_PROJECT_ENVIRONMENT := $(VENV)

##@ Use it
.PHONY: demo up down
demo: setup ## See three tenants' deployments travel through the whole system, live
	@$(RUN)gitopsctl demo

up: setup ## Start the whole stack in the background; returns when it is ready
	@$(RUN)gitopsctl dev up --detach

down: ## Stop the stack
	@if [ -x $(RUN)gitopsctl ]; then $(RUN)gitopsctl dev down; fi

##@ Trust it
.PHONY: test long unit search years chaos failover drills bench packages containers node
# Three processes, as tests wait more than they compute; those that share a stack are in one of them (tests/conftest.py).
SIDE_BY_SIDE := --numprocesses 3 --no-loadscope-reorder
test: toolchain ## Run the tests: unit, component, the stack, end-to-end and with real Argo CD
	@$(RUN)python -m pytest $(SIDE_BY_SIDE) -m "not long"

long: toolchain ## Run what `make test` leaves out as it takes long: rarer losses, two engine clusters, two versions of Argo CD, hangs of a minute
	@$(RUN)python -m pytest $(SIDE_BY_SIDE) -m long
	@$(MAKE) --no-print-directory failover CHOSEN='-k frozen'

unit: setup ## Run the tests that need no other process (a minute or two)
	@$(RUN)python -m pytest tests/unit

PROPERTIES = $(shell grep -rl "import.*given\|RuleBasedStateMachine" tests/unit)
search: setup ## Look for examples that break a property (minutes); it prints the smallest
	@$(RUN)python -m pytest $(PROPERTIES) --hypothesis-profile=search

years: toolchain ## Have twenty simulated years pass, print the size of each table, and see that none grows with them
	@SIMULATED_YEARS=20 $(RUN)python -m pytest tests/component/planner/test_years.py

packages: setup ## Install the Debian packages that `make containers` and `make node` take (root; Debian or Ubuntu)
	@$(RUN)gitopsctl toolchain packages containers node

CHOSEN :=
ON_BOTH := tests/component
containers: setup ## Try the images with Compose, and PostgreSQL and Kafka as containers (root; installs Debian packages)
	@$(RUN)gitopsctl containers run $(RUN)python -m pytest --testcontainers tests/containers $(ON_BOTH) $(CHOSEN)

node: setup ## Run the tests on a real node: kubelet, containerd, our services and Argo CD as pods (root; Debian or Ubuntu; cgroups v1)
	@$(RUN)gitopsctl toolchain packages node
	@$(RUN)python -m pytest tests/node tests/node_argocd tests/node_upgrade $(CHOSEN)

bench: toolchain ## Measure latency and throughput against the API server's own floor
	@$(RUN)python -m bench

CHAOS = $(if $(PLAN),--plan $(PLAN)) --seed $(SEED) --operations $(OPERATIONS) --tenants $(TENANTS) --faults $(FAULTS) --longest $(LONGEST) --kinds "$(KINDS)" --shrink $(SHRINK) $(if $(RESYNC),--resync $(RESYNC)) $(if $(ARGOCD),--argocd)
SEED := 0
OPERATIONS := 1000
TENANTS := 20
FAULTS := 30
LONGEST := 8
RESYNC :=
KINDS :=
PLAN :=
ARGOCD :=
SHRINK := 0
chaos: toolchain ## Random changes and faults, then a proof that nothing was lost: make chaos SEED=7 OPERATIONS=10000 SHRINK=20
	@$(RUN)python -m chaos $(CHAOS)

FOR := 60
failover: toolchain ## Kill, stop and cut off each service for a minute, and see that it changes nothing any more: make failover FOR=20
	@FAILS_FOR_SECONDS=$(FOR) $(RUN)python -m pytest tests/chaos/test_failover.py $(CHOSEN)

DRILLS := tests/drills tests/engine_clusters/test_lost_cluster.py tests/argocd/test_lost_namespace.py tests/chaos/test_kept_orphans.py
drills: toolchain ## Lose whatever can be lost, follow its runbook, and print how long each takes: make drills CHOSEN='-k kafka'
	@$(RUN)python -m pytest $(DRILLS) $(CHOSEN)

##@ Change it
GENERATED := k8s/crds k8s/rbac/tenants.yaml k8s/rbac/watcher.yaml $(wildcard docs/users/*.md) docs/settings.md docs/metrics.md
.PHONY: setup lint format generate check-generated toolchain
setup: $(VENV)/.installed ## Make .venv as uv.lock says

$(VENV)/.installed: pyproject.toml uv.lock toolchain/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@$(RUN)python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@test "$$($(UV) --version 2>/dev/null | cut -d' ' -f2)" = "$(UV_VERSION)" || \
		$(RUN)python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement toolchain/uv.txt
	@$(UV) sync --locked --inexact --quiet
	@touch $@

lint: setup ## Check style, types, import direction and the lock file
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy
	$(RUN)lint-imports
	$(UV) lock --check

format: setup ## Mend what can be mended
	$(RUN)ruff check --fix .
	$(RUN)ruff format .

generate: setup ## Write what is derived from the code (CRDs, reference for users and operators)
	@$(RUN)gitopsctl generate manifests
	@$(RUN)gitopsctl generate docs

check-generated: generate ## Fail if generation leaves a difference
	@test -z "$$(git status --porcelain -- $(GENERATED))" || { git diff -- $(GENERATED); echo "$(GENERATED): stale, run 'make generate' and commit"; exit 1; }

toolchain: setup ## Download and build what the local stack runs (minutes, once)
	@$(RUN)gitopsctl toolchain install --argocd-version 3.1 --tls

##@ Release it
PACKAGES := dist
.PHONY: audit sbom image digest
audit: setup ## Look for known vulnerabilities in all that uv.lock pins (needs the network)
	@$(UV) export --locked --quiet --all-groups --no-emit-project --format requirements.txt --output-file $(VENV)/audited.txt
	@$(UV) tool run --quiet --from 'pip-audit==2.10.1' pip-audit --strict --require-hashes --disable-pip --requirement $(VENV)/audited.txt

sbom: setup ## Write dist/: the wheel, and CycloneDX of what it depends on and of all that uv.lock pins
	@$(UV) build --quiet --wheel --out-dir $(PACKAGES)
	@$(UV) export --locked --quiet --no-default-groups --preview-features sbom-export --format cyclonedx1.5 --output-file $(PACKAGES)/wheel.cdx.json
	@$(UV) export --locked --quiet --all-groups --preview-features sbom-export --format cyclonedx1.5 --output-file $(PACKAGES)/lock.cdx.json
	@ls $(PACKAGES)

image: setup ## Write dist/image.tar, the production image, with the Docker engine that there is, and print its digest
	@$(RUN)gitopsctl containers export $(PACKAGES)/image.tar

digest: ## Print an image's digest, to be named in manifests: make digest IMAGE=…
	@test -n "$(IMAGE)" || { echo "make digest IMAGE=registry/name:tag" >&2; exit 2; }
	@if command -v skopeo >/dev/null; then skopeo inspect --format '{{.Digest}}' docker://$(IMAGE); \
	elif command -v crane >/dev/null; then crane digest $(IMAGE); \
	elif command -v docker >/dev/null; then docker buildx imagetools inspect --format '{{.Manifest.Digest}}' $(IMAGE); \
	else echo "skopeo, crane or docker is needed to ask a registry" >&2; exit 69; fi

##@ Other
.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} \
		/^[a-zA-Z_-]+:.*##/ {printf "  \033[36mmake %-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)
