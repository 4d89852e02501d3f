# Everything a fresh machine with Python 3.11-3.13 and make needs. `make help` lists the targets.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The first Python that fits; PYTHON=… names another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && { echo $$p; break; }; done)

.PHONY: run test test-slow bench check format install help
.DEFAULT_GOAL := help

run: $(READY)  ## train MIFA on scikit-learn's digits
	@$(BIN)/python src/train.py $(ARGS)

test: $(READY)  ## run the tests (about 6 minutes)
	@$(BIN)/python -m pytest $(ARGS)

test-slow: $(READY)  ## run the tests that take minutes each
	@$(BIN)/python -m pytest -m slow $(ARGS)

bench: $(READY)  ## time the engines and whole rounds, as ratios within one run
	@$(BIN)/python benchmarks/engines.py
	@$(BIN)/python benchmarks/rounds.py

check: $(READY)  ## format, lint, type check and known bad releases, changing nothing
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python .ci/advisories.py

format: $(READY)  ## format and fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

install: $(READY)  ## make .venv from the pinned set

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 found; install one, or run: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
	@touch $@

help:  ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14
