# The two commands a newcomer needs: `make demo` and `make test`. Both make their own environment in .venv and may be run again.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo reproduce test test-data test-oldest lint types format size docs dist clean

# From a table with texts and missing cells to a model, a page about it and a comparison.
demo: .venv/demo
	mkdir -p build/demo
	$(BIN)/kernelpursuit fit examples/penguins.csv --target species --out build/demo/penguins.model
	$(BIN)/kernelpursuit report build/demo/penguins.model --out build/demo/report.html
	$(BIN)/kernelpursuit compare examples/penguins.csv --target species --max-rows 200 --repeats 2
	@echo "Open the page: $(CURDIR)/build/demo/report.html"

# A table or figure of the papers: NAME=s2-ida, or all, or list; QUICK=1, DATA=folder, JOBS=number, OUT=folder.
# Set here, so that variables of the same names in a shell mean nothing; those on the command line of make count.
NAME = list
QUICK =
DATA =
JOBS =
OUT =
reproduce: .venv/papers
	$(BIN)/python -m papers $(NAME) $(if $(QUICK),--quick) $(if $(DATA),--data "$(DATA)") $(if $(JOBS),--jobs $(JOBS)) $(if $(OUT),--out "$(OUT)")

# COVERAGE=1 also counts the lines that are run, as continuous integration does: before Python 3.12 that takes half as long again.
COVERAGE =
test: lint types
	SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal $(if $(COVERAGE),--cov --cov-fail-under=95)

# What needs the real data sets, in the folder that KERNELPURSUIT_DATA names.
test-data: .venv/test
	SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m data

# The suite with the oldest libraries allowed, in an environment of its own; OLDEST=tests/estimators/test_estimators.py runs a part.
test-oldest: .venv-oldest/test
	SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -q -n 2 $(OLDEST)

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/test
	$(BIN)/mypy

format: .venv/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The ledger: code lines by room, names with two meanings, how far a call travels. tests/test_size.py holds it as an alarm.
size: .venv/test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.ledger

# The site, in docs/_build/html. Warnings are errors; nothing is fetched while it is built.
docs: .venv-docs/docs
	cd docs && SCIPY_ARRAY_API=1 ../.venv-docs/bin/python -m sphinx -W --keep-going -q -b html . _build/html
	@echo "docs/_build/html/index.html"

# Wheel and sdist, in dist/, and a look into them.
dist: .venv/test
	$(PYTHON) -m pip --python $(BIN)/python install --quiet 'build>=1.2'
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m pytest -q -n 0 tests/test_distribution.py

# pip works on the new environment from outside, so a system without ensurepip (Debian's bare python3) will do.
.venv/bin/python:
	$(PYTHON) -m venv --without-pip .venv

.venv/demo: .venv/bin/python pyproject.toml
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --editable '.[cli]'
	touch $@

.venv/papers: .venv/bin/python pyproject.toml
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --editable '.[plot]'
	touch $@

.venv/test: .venv/bin/python pyproject.toml
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --editable '.[test]'
	touch $@ .venv/demo .venv/papers

.venv-oldest/test: pyproject.toml
	$(PYTHON) -m venv --without-pip .venv-oldest
	$(PYTHON) -m pip --python .venv-oldest/bin/python install --quiet --editable '.[oldest]'
	touch $@

.venv-docs/docs: pyproject.toml
	$(PYTHON) -m venv --without-pip .venv-docs
	$(PYTHON) -m pip --python .venv-docs/bin/python install --quiet --editable '.[docs]'
	touch $@

clean:
	rm -rf .venv .venv-oldest .venv-docs docs/_build docs/gallery
