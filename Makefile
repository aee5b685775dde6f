# Commands on a fresh machine, `make demo` and `make test` first. Each makes its own virtual environment first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-long lint format docs page clean

demo: $(VENV)/.installed
	$(BIN)/cloze demo

test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not long"  # two processes, a thread each

test-long: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m long --timeout 1800

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

docs: $(VENV)/.installed-dev  # the site, in build/docs
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --nitpicky docs build/docs

page: page/node_modules  # the explorer page and the scripts of HTML files, built from page/ into src/cloze; needs node
	npm --prefix page run --silent check
	npm --prefix page run --silent build

clean:
	rm -rf $(VENV) build dist demo-run page/node_modules

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

page/node_modules: page/package-lock.json
	npm --prefix page ci --no-audit --no-fund
	touch $@
