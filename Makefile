# Commands on a fresh machine, `make demo` and `make test` first. Each makes its own virtual environment first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# Two processes with a thread each, and whole files in one process where they can be, whose fixtures are then made once
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal
PIP := $(BIN)/python -m pip install --quiet
UV := UV_SYSTEM_CERTS=1 $(BIN)/python -m uv pip install --quiet --python $(BIN)/python
TARGET := server
TORCH := torch==2.13.0
UV_VERSION := uv==0.13.9
EXTRAS := excel,mlflow,onnx,plots,ray,serve,stores,tasks,tensorboard,tensorflow,wandb
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu

.PHONY: demo test check research clients test-exhaustive lint format docs check-docs image page clean

demo: $(VENV)/.installed
	$(BIN)/cloze demo

test: $(VENV)/.installed-dev
	$(PYTEST) -m "not slow and not exhaustive"

check: lint  # what .ci/run runs
	$(PYTEST) -m "not exhaustive"

research: $(VENV)/.installed-dev  # weekly: benchmarks and experiments
	$(PYTEST) research/tests

clients:  # the server's clients, which need an older huggingface_hub, in an environment of their own
	$(MAKE) VENV=build/clients build/clients/.installed-clients
	OMP_NUM_THREADS=1 build/clients/bin/python -m pytest tests/serving/test_clients.py tests/serving/test_rerankers.py \
		tests/serving/test_deploy.py

test-exhaustive: $(VENV)/.installed-dev
	$(PYTEST) -m exhaustive --timeout 1800 tests research/tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	git ls-files -z '*.py' '*.md' '*.ipynb' '*.ts' '*.tsx' '*.mjs' | xargs -0 $(BIN)/codespell
	$(BIN)/python .ci/names.py
	$(BIN)/mypy
	PYTHONPATH=research $(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff

format: $(VENV)/.installed-dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

SPHINX = $(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --nitpicky

docs: $(VENV)/.installed-dev  # the site, in build/docs
	$(SPHINX) docs build/docs

check-docs: $(VENV)/.installed-dev  # all pages and references, without writing the site: half the time
	$(SPHINX) --builder dummy docs build/check-docs

image:  # the image of the Dockerfile's TARGET, server or graphs; needs docker
	docker build --target $(TARGET) --tag cloze-$(TARGET) .
	docker run --rm --entrypoint cloze cloze-$(TARGET) --version --verbose

page: page/node_modules  # the explorer page and the scripts of HTML files, built from page/ into src/cloze; needs node
	npm --prefix page run --silent check
	npm --prefix page run --silent build

clean:
	rm -rf $(VENV) build dist demo-run page/node_modules

$(VENV)/.torch: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	command -v nvidia-smi > /dev/null \
		|| $(PIP) --retries 0 --timeout 10 $(TORCH) --index-url $(TORCH_CPU_INDEX) 2> /dev/null \
		|| echo "$(TORCH_CPU_INDEX) cannot be reached: installing torch's default build, which may be large" >&2
	$(PIP) $(TORCH)
	touch $@

$(VENV)/.installed: $(VENV)/.torch
	$(PIP) --editable '.[serve,onnx,tasks]'  # the extras of the README's commands
	touch $@

install = $(UV) $(1) || $(PIP) $(1)  # uv is faster; pip has the index, the proxy and the certificates of this machine

$(VENV)/.installed-dev: $(VENV)/.torch .ci/requirements.txt
	$(PIP) $(UV_VERSION)
	$(call install,--require-hashes --no-deps --requirement .ci/requirements.txt)
	$(call install,--no-deps --no-build-isolation --editable .)
	touch $@ $(VENV)/.installed

$(VENV)/.installed-clients: $(VENV)/.torch
	$(PIP) $(UV_VERSION) 'pip>=25.1'  # --group
	$(call install,--editable '.[$(EXTRAS)]' --group clients)
	touch $@

page/node_modules: page/package-lock.json
	npm --prefix page ci --no-audit --no-fund
	touch $@
