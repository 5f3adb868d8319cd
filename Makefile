# make demo and make test each set up all they need: a virtual environment, the compiled core, the dependencies.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt $(wildcard src/bilsh/native/*)
# An editable install knows its modules by name: it is made anew when one is added, moved or removed.
MODULES := $(VENV)/.modules-$(shell find src -name '*.py' | LC_ALL=C sort | cksum | cut -d' ' -f1)

# Real data for the tests that want them; they skip without.
export BILSH_DATA ?= $(wildcard $(CURDIR)/../shared/data)

.PHONY: setup demo test lint types tests claims results choices test-slow torture stubs bench bench-quick clean

setup: $(VENV)/.built

$(VENV)/.deps: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.built: $(VENV)/.deps $(MODULES) $(NATIVE)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable .
	touch $@

$(MODULES): | $(VENV)/.deps
	rm -f $(VENV)/.modules-*
	touch $@

demo: setup
	$(BIN)/bilsh demo --output demo

test: lint types tests

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

tests: setup
	$(BIN)/python -m pytest --cov --cov-report=term

# Every number in README and docs that a command produces, produced again; minutes, with MNIST in BILSH_DATA.
claims: setup
	$(BIN)/python -m pytest tests/claims -m "slow or not slow"

# What the repository keeps of `bilsh reproduce ... --output results`: a table and a picture per figure, and their page.
results: setup
	$(BIN)/python -c "from bilsh.experiments import FIGURES, publish; publish('results', 'docs/results', FIGURES)"

# The table of docs/accuracy.md that judges which encoder is chosen; a quarter of an hour.
choices: setup
	$(BIN)/python tests/encoder_choice.py --write docs/accuracy.md

test-slow: setup
	$(BIN)/python -m pytest -m slow

# The store's promises at full counts: thousands of kills and commits, every byte flipped, every crash outcome.
torture: setup
	BILSH_TORTURE=1 $(BIN)/python -m pytest tests/store

# The types of the compiled module, written by nanobind; a test tells when they are behind.
stubs: setup
	$(BIN)/python -m nanobind.stubgen --quiet -m bilsh._native -o src/bilsh/_native.pyi
	sed -i '1i # Written by nanobind (make stubs).\n# ruff: noqa' src/bilsh/_native.pyi
	$(BIN)/ruff format --quiet src/bilsh/_native.pyi

# bench takes a quarter of an hour and writes the tables of the documentation; bench-quick three minutes.
bench: setup $(VENV)/.bench
	$(BIN)/bilsh bench $(if $(QUICK),--quick) --output benchmarks/results --tables docs/performance-tables.md

bench-quick: setup $(VENV)/.bench
	$(BIN)/bilsh bench --quick --output benchmarks/results

$(VENV)/.bench: $(VENV)/.deps
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

clean:
	rm -rf $(VENV) build
