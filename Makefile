# Every recipe of this repository; .ci/run calls the same ones. `make` alone lists them.
#
# Needs python3 >= 3.11 and make; Java 17 or 21 for what runs Spark or a broker.
# All that is installed goes into .venv; PYTHON=… chooses another interpreter.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?=
BIN := .venv/bin
INSTALLED := .venv/installed
TOOLS := .venv/ship
SHIPPING := $(TOOLS)/installed
LOCKS := requirements/bootstrap.lock requirements/build.lock requirements/all.lock
SUITES := $(BIN)/python tests/suites.py
# `--upgrade`, or `--upgrade-package NAME`; without it `make lock` keeps the versions it finds.
LOCK_OPTIONS ?=
# How long `make mutants` and `make fuzz` try and `make storm` blows, from which seed, and where
# `make soak-sim` keeps what it has played, with how many processes and for how many minutes.
MINUTES ?= 10
SEED ?= 1
SOAKED ?= docs/design/spec/results/soak.txt
PROCESSES ?= 2
SITTING ?= inf
COMPILE := $(BIN)/uv pip compile --quiet --system-certs --universal --generate-hashes \
	--python-version 3.11 --no-annotate --no-header $(LOCK_OPTIONS)

.PHONY: help
help: ## list the recipes
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: install
install: $(INSTALLED) ## install everything into .venv, from the locks

$(INSTALLED): pyproject.toml $(LOCKS) .ci/install
	@PYTHON="$(PYTHON)" .ci/install

.PHONY: demo
demo: $(INSTALLED) ## the whole story: broker, real data, pipeline, a kill in the middle, audit
	@$(BIN)/penstock demo

.PHONY: test
test: $(INSTALLED) ## all suites in order, with the time each took against its budget
	@$(SUITES)

.PHONY: check
check: $(INSTALLED) ## lint, types, layers, unit and properties: quick, before each commit
	@$(SUITES) lint types layers unit properties

.PHONY: lint
lint: $(INSTALLED) ## ruff: rules and format
	@$(SUITES) lint

.PHONY: types
types: $(INSTALLED) ## mypy, strict: sources and benchmarks
	@$(SUITES) types

.PHONY: layers
layers: $(INSTALLED) ## import rules, sizes, names, docs in step
	@$(SUITES) layers

.PHONY: unit
unit: $(INSTALLED) ## one room at a time, no sockets
	@$(SUITES) unit

.PHONY: properties
properties: $(INSTALLED) ## laws under generated input
	@$(SUITES) properties

.PHONY: simulation
simulation: $(INSTALLED) ## the coordinator's stories on verified fakes
	@$(SUITES) simulation

.PHONY: histories
histories: $(INSTALLED) ## three thousand random histories, each exact in the end
	@$(SUITES) histories

.PHONY: proof
proof: $(INSTALLED) ## the specification, in small; checkers shown planted faults
	@$(SUITES) proof

.PHONY: soak-sim
soak-sim: $(INSTALLED) ## a million random histories, going on where it was stopped; takes hours
	@$(BIN)/python -m tests.simulation.histories 1000000 --keep $(SOAKED) \
		--processes $(PROCESSES) --minutes $(SITTING)

.PHONY: page
page: $(INSTALLED) ## the page in a real browser, and who may look at it
	@$(SUITES) page

.PHONY: contracts
contracts: $(INSTALLED) ## one suite per port against every implementation
	@$(SUITES) contracts

.PHONY: integration
integration: $(INSTALLED) ## real broker, real catalogs, real Spark
	@$(SUITES) integration

.PHONY: kills
kills: $(INSTALLED) ## blows at crash points and rounds of kill -9, each compared with Kafka row by row
	@$(SUITES) kills

.PHONY: storm-short
storm-short: $(INSTALLED) ## a minute of faults over real pipelines; planted faults turn its report red
	@$(SUITES) storm-short

.PHONY: crash
crash: $(INSTALLED) ## every crash point, struck in every way, and a hundred kills; takes an hour
	@PENSTOCK_CRASH_KEPT=docs/design/spec/results/crash.txt \
		$(BIN)/python -m pytest tests/crash tests/integration/landing tests/integration/spark -m slow --timeout=0 -s

.PHONY: storm
storm: $(INSTALLED) ## faults of all kinds over real pipelines, for MINUTES=n from SEED=s; keeps its report
	@$(BIN)/python tests/storm/storm.py $(MINUTES) $(SEED) docs/design/spec/results

.PHONY: prove
prove: $(INSTALLED) ## the specification: small models whole, and every defence taken away
	@$(BIN)/python tests/proof/prove.py

.PHONY: mutants
mutants: $(INSTALLED) ## mutation testing of core/ and commit/ for MINUTES=n, going on where it ended
	@$(BIN)/python tests/proof/mutants.py $(MINUTES)

.PHONY: fuzz
fuzz: $(INSTALLED) ## fuzzing of all that reads what others wrote, for MINUTES=n
	@$(BIN)/uv pip install --quiet --system-certs --require-hashes -r requirements/fuzz.lock
	@$(BIN)/python tests/proof/fuzz.py $(MINUTES)

.PHONY: prove-large
prove-large: $(INSTALLED) ## the specification: the large models; takes long
	@$(BIN)/python tests/proof/prove.py large

.PHONY: bench
bench: $(INSTALLED) ## throughput, freshness, commit and recovery times on this machine
	@$(BIN)/python -m benchmarks

.PHONY: bench-quick
bench-quick: $(INSTALLED) ## which ratios of the benchmarks got worse since they were kept, in three minutes
	@$(BIN)/python -m benchmarks --quick

.PHONY: dist
dist: $(SHIPPING) ## a release in dist/: wheel, sources, lock, list of components, chart; same bytes each time
	@$(BIN)/python deploy/dist.py dist $(TOOLS)

.PHONY: chart
chart: $(SHIPPING) ## render the chart again, into deploy/kubernetes/pipeline.yaml
	@$(TOOLS)/bin/python deploy/helm/render.py

$(SHIPPING): $(INSTALLED) requirements/ship.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(TOOLS)
	@$(BIN)/uv pip install --quiet --system-certs --python $(TOOLS)/bin/python --require-hashes \
		-r requirements/ship.lock
	@: > $(SHIPPING)

.PHONY: docs
docs: $(INSTALLED) ## write the generated reference pages again
	@$(BIN)/python tests/tidy/reference_pages.py

.PHONY: pictures
pictures: $(INSTALLED) ## draw the pictures of terminals again, and take those of the page
	@$(BIN)/python docs/images/pictures.py
	@PYTHONPATH=. $(BIN)/python docs/images/page_pictures.py

.PHONY: lock
lock: $(INSTALLED) ## resolve the locks again (LOCK_OPTIONS=--upgrade for newer versions)
	@$(COMPILE) --extra demo --extra msk --extra page --extra protobuf --extra spark --group dev --group build pyproject.toml -o requirements/all.lock
	@$(COMPILE) --extra page --extra protobuf --extra spark --constraint requirements/all.lock pyproject.toml \
		-o requirements/runtime.lock
	@$(COMPILE) --group build --constraint requirements/all.lock -o requirements/build.lock
	@$(COMPILE) --group fuzz -o requirements/fuzz.lock
	@$(COMPILE) --group ship -o requirements/ship.lock
	@$(COMPILE) requirements/bootstrap.in -o requirements/bootstrap.lock

.PHONY: clean
clean: ## remove .venv, caches and what the demo left
	rm -rf .venv .penstock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
