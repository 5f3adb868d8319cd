# make demo and make test each set up all they need: a virtual environment, the compiled core, the dependencies.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt $(wildcard src/bilsh/native/*)

.PHONY: setup demo test lint types tests test-slow clean

setup: $(VENV)/.built

$(VENV)/.deps: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.built: $(VENV)/.deps $(NATIVE)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable .
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

test-slow: setup
	$(BIN)/python -m pytest -m slow

clean:
	rm -rf $(VENV) build
