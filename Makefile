# Every target sets itself up: the first call makes .venv and installs the pinned versions, later calls reuse it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test test-fast test-times test-long fuzz lint bench results clean

help:
	@echo "make demo     robust losses against squared error on embedded data, under two minutes; ends with a report"
	@echo "make test-fast  tests that take seconds, after every change; under two minutes"
	@echo "make test     lint, types and all tests, under twelve minutes; Hypothesis tries the same examples every time"
	@echo "make test-long  the same with examples at random"
	@echo "make fuzz     mutated files and odd arguments for MINUTES=30: an answer or one of our errors"
	@echo "make test-times  which tests are slow, measured anew for test-fast"
	@echo "make lint     format check, lint, types"
	@echo "make bench    the figures behind the claims, as tables with ratios"
	@echo "make results  the tables and pictures of docs/results, about half an hour on two cores;"
	@echo "              goes on where it stopped; SECONDS=30 for each training run, ROWS=1000 for a first look"
	@echo "make docs     these pages as a site in build/site, links checked; make gallery runs the examples for it"
	@echo "make release  wheel and sdist in dist/, tried in a clean environment"
	@echo "make test-floors  the fast tests with the oldest versions that pyproject.toml allows (Python 3.11)"
	@echo "make clean    remove the virtual environment and caches"

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the pinned versions into $(VENV) (a few minutes the first time)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt "torch==2.13.0"
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[test,bench,docs]"
	@touch $(READY)

demo: $(READY)
	@$(BIN)/proxlin demo

lint: $(READY)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

# One worker for each core, each on one thread: threads that wait for each other cost more than they bring.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist worksteal

test: lint
	@$(PYTEST)

test-fast: $(READY)
	@$(PYTEST) -m "not (processes or browser or statistics or slow)"

MINUTES ?= 30
fuzz: $(READY)
	@$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

# Anew which tests are slow; on a quiet machine.
test-times: $(READY)
	@$(PYTEST) --write-times --durations 60

test-long: lint
	@$(PYTEST) --hypothesis-profile random

bench: $(READY)
	@$(BIN)/python -m benchmarks

# A first look on fewer rows stays out of docs/results.
SECONDS ?= 30
ROWS ?=
RESULTS ?= $(if $(ROWS),out/first-look,docs/results)
results: $(READY)
	@$(BIN)/python -m benchmarks.show --seconds $(SECONDS) --to $(RESULTS) $(if $(ROWS),--rows $(ROWS))

# Formulas, search and pictures are part of the site: it needs no network, neither to be built nor to be read.
.PHONY: docs docs-serve gallery
docs: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir build/site
	@OMP_NUM_THREADS=1 $(BIN)/pytest --quiet tests/docs/test_site.py
	@echo "built: build/site/index.html (make docs-serve shows it with its search)"

docs-serve: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

EXAMPLES ?=
gallery: $(READY)
	@$(BIN)/python docs/_site/gallery.py $(EXAMPLES)

.PHONY: release test-floors
release: $(READY)
	@rm -rf dist && $(BIN)/python -m hatchling build
	@OMP_NUM_THREADS=1 $(BIN)/pytest --quiet tests/release

# Old versions warn of what later ones took away; that is no error here. FLOOR_TORCH=2.13.0 where an older torch is not to be had.
FLOORS := .venv-floors
FLOOR_TORCH ?= $(shell sed -n 's/.*"torch>=\(.*\)",/\1/p' pyproject.toml)
test-floors:
	@test -x $(FLOORS)/bin/python || $(PYTHON) -m venv $(FLOORS)
	@$(FLOORS)/bin/python tests/release/floors.py test | sed 's/^torch==.*/torch==$(FLOOR_TORCH)/' > $(FLOORS)/floors.txt
	@$(FLOORS)/bin/pip install --quiet --disable-pip-version-check --requirement $(FLOORS)/floors.txt
	@$(FLOORS)/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@$(FLOORS)/bin/pip check
	@OMP_NUM_THREADS=1 $(FLOORS)/bin/pytest --numprocesses auto --override-ini filterwarnings=default \
		-m "not (processes or browser or statistics or slow)"

clean:
	rm -rf $(VENV) $(FLOORS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
