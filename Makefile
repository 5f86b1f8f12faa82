PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUN_STAMP := $(VENV)/.runnable
UV := $(shell command -v uv 2>/dev/null)
KILLS ?= 30
WORKFLOWS ?= 1000
FUZZ_SECONDS ?= 600
# Where npm is missing, node comes from a Python package into $(VENV); `make NODE=` does without it.
NODE ?= package
NODE_STAMP := $(VENV)/.node
NODE_NEEDED := $(if $(shell command -v npm 2>/dev/null),,$(if $(NODE),$(NODE_STAMP)))

# uv only makes the set-up faster; `make UV=` takes the plain way on a machine that has it.
ifneq ($(UV),)
INSTALLER := $(BIN)/python
CREATE := $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
INSTALL := $(UV) pip install --quiet --python $(VENV)
else
INSTALLER := $(BIN)/pip
CREATE := $(PYTHON) -m venv --clear $(VENV)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

CHECK_PYTHON := $(PYTHON) -c 'import sys; sys.exit("assay needs Python 3.11 or newer: make PYTHON=python3.x" if sys.version_info < (3, 11) else 0)'

.DEFAULT_GOAL := help
.PHONY: help run test browser check bench chaos fuzz fmt setup lock dashboard screenshots types

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN_STAMP) dashboard ## run the demo: engine, worker, dashboard and nightly reports, until Ctrl-C
	@PYTHONPATH=src $(BIN)/python -m examples.server_demo

# What measures time or drives a browser runs alone; two cores are not enough to do so beside other tests.
test: check $(NODE_NEEDED) ## run the static checks, then every test
	@$(BIN)/python -m tests.browser.chromium
	$(BIN)/python -m pytest -n 2 -m "not browser and not quiet"
	$(BIN)/python -m pytest -m "(browser or quiet) and not thorough"

browser: setup $(NODE_NEEDED) ## run all browser tests: every theme, size and picture
	@$(BIN)/python -m tests.browser.chromium
	$(BIN)/python -m pytest -m browser

check: setup types ## run the static checks: format, lint, types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

# A requirement that is missed embedded does not keep the server from being measured.
bench: setup ## run the benchmarks: embedded, then as a server
	@missed=0; for part in "" --server; do $(BIN)/python -m benchmarks $$part || missed=1; done; exit $$missed

chaos: setup ## kill processes at random under load and prove that nothing is lost
	$(BIN)/python -m tests.chaos --store sqlite --kills $(KILLS) --workflows $(WORKFLOWS)
	$(BIN)/python -m tests.chaos --store postgres --kills $(KILLS) --workflows $(WORKFLOWS)
	$(BIN)/python -m tests.chaos.served engines --store sqlite --workflows $(WORKFLOWS)
	$(BIN)/python -m tests.chaos.served workers --store sqlite --workflows $(WORKFLOWS)
	$(BIN)/python -m tests.chaos.served workers --store postgres --workflows $(WORKFLOWS)
	$(BIN)/python -m tests.chaos.served zombies --store sqlite
	$(BIN)/python -m tests.chaos.served zombies --store postgres
	$(BIN)/python -m tests.chaos.served answers --store sqlite
	$(BIN)/python -m tests.chaos.served answers --store postgres

fuzz: setup ## send made-up requests for FUZZ_SECONDS per database and hold every answer to the API's description
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_STORES="sqlite postgres" $(BIN)/python -m pytest tests/fuzz

fmt: setup ## format the sources and apply safe fixes
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

setup: $(STAMP)

dashboard: $(NODE_NEEDED) ## build the dashboard and place the viewer of the API docs, where their sources have changed
	@test -x $(INSTALLER) || $(CREATE)
	@$(BIN)/python dashboard/build.py

screenshots: setup dashboard ## take the pictures of the docs anew
	$(BIN)/python -m tests.dashboard.screenshots docs/howto/pictures

types: dashboard ## check the types of the dashboard against the OpenAPI document
	@$(BIN)/python dashboard/build.py --check

lock: ## pin the dependencies again (needs uv; UPGRADE=1 takes newer versions)
	uv pip compile pyproject.toml requirements/dev.in --extra pydantic --universal --python-version 3.11 \
		--generate-hashes --no-header --quiet $(if $(UPGRADE),--upgrade) --output-file requirements/dev.txt
	uv pip compile pyproject.toml --constraint requirements/dev.txt --universal --python-version 3.11 \
		--generate-hashes --no-header --quiet --output-file requirements/run.txt
	uv pip compile requirements/node.in --universal --python-version 3.11 \
		--generate-hashes --no-header --quiet $(if $(UPGRADE),--upgrade) --output-file requirements/node.txt

# Only what running needs, and no build of the package: the sources are on the path.
$(RUN_STAMP): requirements/run.txt
	@$(CHECK_PYTHON)
	@test -x $(INSTALLER) || { echo "Creating $(VENV) ..." && $(CREATE); }
	@echo "Installing the packages that assay needs to run into $(VENV) ..."
	@$(INSTALL) --require-hashes --requirement requirements/run.txt
	@touch $@

$(STAMP): requirements/dev.txt pyproject.toml
	@$(CHECK_PYTHON)
	test -x $(INSTALLER) || $(CREATE)
	$(INSTALL) --require-hashes --requirement requirements/dev.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# Without node all else works: the page at /workflow/ then names the remedy.
$(NODE_STAMP): requirements/node.txt
	@test -x $(INSTALLER) || $(CREATE)
	@echo "npm is not here: installing node into $(VENV) (make NODE= does without it) ..."
	@$(INSTALL) --require-hashes --requirement requirements/node.txt && touch $@ || echo "node could not be installed"
