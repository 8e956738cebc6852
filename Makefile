# Two commands for a fresh machine with Python 3.11 or newer: make quickstart, make test.

PYTHON ?= python3
BIN := .venv/bin
STORAGE ?= sclsearch-storage
PYTEST_OPTIONS := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: quickstart test lint types imports pytest coverage docs docs-examples
.PHONY: browser test-cluster clean

quickstart: .venv/installed
	$(BIN)/sclsearch tune --method scl --task demo --train-size 160 --model minilm \
	    --configs 3 --seeds 3 --epochs 8 --storage $(STORAGE)

test: lint types imports pytest

lint: .venv/developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/developer
	$(BIN)/mypy

imports: .venv/developer
	$(BIN)/lint-imports

# Two processes, one torch thread each; a file's tests stay together, as their fixtures start Ray.
pytest: .venv/developer
	$(BIN)/pytest $(PYTEST_OPTIONS)

# The same, and which lines and branches no test reaches: it takes half as long again.
coverage: .venv/developer
	$(BIN)/pytest $(PYTEST_OPTIONS) --cov

docs: .venv/developer
	$(BIN)/mkdocs build --strict

# Run the commands of the tutorials and compare their output with the pages: a quarter of an hour.
docs-examples: .venv/developer
	$(BIN)/python tools/docs_examples.py README.md docs/tutorials/*.md

# With Chromium. The pages of a real study; the pictures lie in browser/.
browser: .venv/developer
	$(BIN)/pytest -p no:xdist -m browser tests/browser

# As root. Machines made of namespaces, which a cluster loses in every way: a quarter of an hour
# on two free cores.
test-cluster: .venv/developer
	$(BIN)/pytest -p no:xdist -m machines tests/machines

.venv/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; \
	    v >= (3, 11) or sys.exit("sclsearch needs Python 3.11 or newer, got %d.%d. Run: make PYTHON=python3.11" % v)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	touch $@

.venv/installed: .venv/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[demo]'
	touch $@

.venv/developer: .venv/installed
	$(BIN)/pip install --quiet --constraint constraints.txt --group dev
	touch $@

clean:
	rm -rf .venv site .coverage .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
