# Two commands do all the set-up: `make train` and `make test`. `make train JAX=cuda13` installs JAX for a GPU.
PYTHON ?= python3
JAX ?=
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help train test quick soak test-slow lint format bench bench-gpu docs notebooks lab address clean

help:
	@echo "make train      install into $(VENV) and train IPPO on smax/3m (about a minute and a half)"
	@echo "                JAX=cuda13, cuda12 or tpu: with JAX for that accelerator"
	@echo "make test       install with the dev extra, then ruff, pyright and the test suite"
	@echo "make quick      lint, types and the heart of the suite (about a minute and a half)"
	@echo "make test-slow  learning and stress tests"
	@echo "make soak       half an hour of kills, full disks, readers and second writers"
	@echo "make format     let ruff rewrite the code"
	@echo "make bench      speed of smax/3m against jaxmarl"
	@echo "make bench-gpu  speed of this machine's accelerator, as tables to send in; JAX=cuda13 as for train"
	@echo "make docs       the documentation as a site in build/docs"
	@echo "make notebooks  run the notebooks (about seven minutes) into build/notebooks; KEEP=--keep: in place"
	@echo "make lab        open the notebooks in JupyterLab"
	@echo "make address    take the repository's address in pyproject.toml over into the notebooks"
	@echo "make clean      remove $(VENV) and build leftovers (runs/ stays)"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[viz]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[dev,peers]"
	@touch $@ $(VENV)/.installed

# The compilers that the extra `accelerators` names, beside the environment: see tests/conftest.py. Not every platform
# has them; without them their tests are skipped.
$(VENV)/.installed-accelerators: $(VENV)/.installed-dev
	@wanted=$$($(BIN)/python -c "from importlib.metadata import requires, version; v = version('jax'); \
	  print(f'jax-cuda13-plugin=={v}', f'jax-cuda13-pjrt=={v}', \
	  next(r.split(';')[0] for r in requires('jax') if r.startswith('libtpu')))"); \
	if $(BIN)/python -m pip install --quiet --no-deps --target $(VENV)/accelerators $$wanted; then touch $@; \
	else echo "No compilers for accelerators here: their tests are skipped."; fi

$(VENV)/.installed-jax-%: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet "jax[$*]"
	@touch $@

train: $(VENV)/.installed $(if $(JAX),$(VENV)/.installed-jax-$(JAX))
	@if [ -z "$(JAX)" ] && command -v nvidia-smi >/dev/null && ! $(BIN)/python -c "import jax_plugins" 2>/dev/null; then \
	  echo "This machine seems to have an NVIDIA GPU; 'make train JAX=cuda13' installs JAX for it."; fi
	$(BIN)/jaxrl train ippo --env smax/3m
	@echo "Next: source $(BIN)/activate, which puts the jaxrl command on your path."

test: $(VENV)/.installed-dev $(VENV)/.installed-accelerators lint
	$(BIN)/python -m pytest -n 2 --dist loadfile $(TEST_ARGS)

quick: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "quick and not slow" $(TEST_ARGS)

soak: $(VENV)/.installed-dev
	$(BIN)/python -m tests.soak --minutes 30 --faults 200

test-slow: $(VENV)/.installed-dev $(VENV)/.installed-accelerators
	$(BIN)/python -m pytest -m slow $(TEST_ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	$(BIN)/python baselines/speed/against.py smax/3m --against jaxmarl

bench-gpu: $(VENV)/.installed $(if $(JAX),$(VENV)/.installed-jax-$(JAX))
	$(BIN)/python baselines/speed/gpu.py

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

docs: $(VENV)/.installed-docs
	JAX_PLATFORMS=cpu $(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo "build/docs/index.html"

$(VENV)/.installed-notebooks: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[notebooks]"
	@touch $@

notebooks: $(VENV)/.installed-notebooks
	$(BIN)/python docs/notebooks/run.py $(KEEP)

lab: $(VENV)/.installed-notebooks
	$(BIN)/python -m pip install --quiet jupyterlab
	$(BIN)/jupyter lab docs/notebooks

address:
	$(PYTHON) docs/notebooks/run.py --address

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache
