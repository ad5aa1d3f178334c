# Every target installs what it needs, from a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := build/oldest
SPARK := build/spark
# The first of these that runs. Newer Pythons have no wheels of the oldest dependencies.
OLDEST_PYTHON ?= $(shell for python in python3.10 "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.10.*/bin/python python3.11; do \
	"$$python" -c "" 2> /dev/null && echo "$$python" && break; done)
# Tests that use other libraries.
OLDEST_TESTS ?= tests/integrations tests/models tests/features tests/persistence/test_model_file.py tests/cli tests/test_plots.py tests/regret/test_comparator.py
NOT_COMPILED := tests|cvxpy|databricks|fontTools|mlflow|onnxruntime|pip|pygments|schemathesis|setuptools
# Three workers keep two cores busy: many tests wait for servers, signals and locks.
PYTEST := -m pytest -n 3 --dist worksteal
# Needs root.
INSTALL_POSTGRES := { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; }
INSTALL_CHROMIUM := { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; }
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python may write bytecode: the tests start dozens of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-serve demo-steps demo-step reproduce test test-nojit test-unlinked test-oldest test-spark test-postgres test-browser test-release check bench bench-serving bench-spark campaign docs clean

demo: $(VENV)/.demo  ## a table with text, dates and missing values, from a file to a model, its evaluation and a page about it
	$(BIN)/fiol demo build/demo --force
	$(BIN)/fiol train build/demo/tickets.csv --target escalated -o build/demo/tickets.fiol --force
	$(BIN)/fiol evaluate build/demo/tickets.fiol build/demo/later.csv --report build/demo/tickets.html --force

demo-serve: $(VENV)/.serve  ## a server that learns from tickets whose labels come later; DEMO_SECONDS=30 ends it by itself
	test -f build/demo/tickets.fiol || $(MAKE) demo
	$(BIN)/python examples/serve_tickets.py build/demo $(if $(DEMO_SECONDS),--seconds $(DEMO_SECONDS))

demo-steps: $(VENV)/.demo  ## all presets with all step sizes on badly scaled data: which of them diverge
	$(BIN)/python examples/who_survives.py

demo-step: $(VENV)/.demo  ## one step by every solver, printed, and a figure of its equation
	$(BIN)/python examples/one_step.py

reproduce: $(VENV)/.reproduce  ## the paper's experiments: tables, figures and a page in reproduction/; OPTIONS=--quick takes minutes
	$(BIN)/fiol reproduce all $(OPTIONS)

test: $(VENV)/.test  ## all tests, compiled code included
	$(BIN)/python $(PYTEST)

test-nojit: $(VENV)/.test  ## all tests in the interpreter, without numba; TESTS="tests/engine ..." runs a part
	NUMBA_DISABLE_JIT=1 $(BIN)/python $(PYTEST) $(TESTS)

test-unlinked: $(VENV)/.test  ## tests of compiled code by public means of numba alone, without `fiol.compiler.linking`
	FIOL_LINKING=0 $(BIN)/python $(PYTEST) tests/compiler tests/engine tests/test_events.py

test-oldest: $(OLDEST)/.ready  ## tests that use other libraries, with the oldest versions that pyproject.toml allows
	$(OLDEST)/bin/python $(PYTEST) -W default $(OLDEST_TESTS)

test-spark: $(SPARK)/.ready  ## fiol.spark on a cluster of two processes of this machine; needs Java 17 or newer
	@test -n "$$JAVA_HOME" || command -v java > /dev/null || { echo "test-spark needs Java 17 or newer: install it, or set JAVA_HOME" >&2; exit 1; }
	FIOL_SPARK=1 $(SPARK)/bin/python -m pytest -q -W default tests/spark

test-postgres: $(VENV)/.test  ## exported SQL on a PostgreSQL server that the tests start; installs Debian's package if there is none
	@test -n "$$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null)" || command -v initdb > /dev/null || $(INSTALL_POSTGRES)
	FIOL_POSTGRES=1 $(BIN)/python -m pytest -q tests/exports -k postgresql

test-release: $(VENV)/.release  ## build wheel and sdist, check them, install them into empty environments of all installed Pythons, and run a smoke test
	rm -rf dist
	$(BIN)/python -m build -q --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python tests/release/environments.py dist $(OPTIONS)

test-browser: $(VENV)/.browser  ## the dashboard in Chromium; installs Debian's package if there is none
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || $(INSTALL_CHROMIUM)
	FIOL_BROWSER=1 $(BIN)/python $(PYTEST) tests/browser

check: $(VENV)/.check  ## formatting, lints, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench  ## all benchmarks and their page in build/bench; DATA=folder of public data sets; OPTIONS=--quick takes two minutes
	$(BIN)/python -m benchmarks.story --folder build/bench $(if $(DATA),--data "$(DATA)") $(OPTIONS)

bench-serving: $(VENV)/.bench  ## requests per second and latencies of fiol serve, River and Vowpal Wabbit
	$(BIN)/python -m pip install -q -e ".[serve]"
	$(BIN)/python -m benchmarks.serving --json build/serving.json

bench-spark: $(SPARK)/.ready  ## rows per second of one and two Spark workers, and a cost model; needs Java 17 or newer
	$(SPARK)/bin/python -m benchmarks.spark --json build/spark.json

campaign: $(VENV)/.test  ## short campaigns, with figures in build/campaigns.json; OPTIONS=--full takes hours
	$(BIN)/python tests/campaigns/run_all.py --json build/campaigns.json $(OPTIONS)

docs: $(VENV)/.docs  ## the documentation in build/docs: strict, all examples executed, links inside the repository checked; no network
	$(BIN)/python -m sphinx -E -W --keep-going -q docs build/docs  # -E: without it, unchanged pages lose their index entries
	@echo "Open build/docs/index.html, or: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/docs"

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.base:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	touch $@

$(VENV)/.demo: $(VENV)/.base pyproject.toml
	$(BIN)/python -m pip install -q -e ".[files,plots]"
	touch $@

$(VENV)/.serve: $(VENV)/.demo
	$(BIN)/python -m pip install -q -e ".[serve]"
	touch $@

$(VENV)/.reproduce: $(VENV)/.demo
	$(BIN)/python -m pip install -q -e ".[reproduce]"
	touch $@

# In one call: each takes seconds to find out what is there already. pip compiles modules in one process, `compileall` in
# one process for each core, without the tests of libraries and without libraries of which tests import little or nothing:
# Python compiles those files when it imports them. Files that do not compile are not imported by any test.
$(VENV)/.test: $(VENV)/.base pyproject.toml
	$(BIN)/python -m pip install -q --no-compile -e ".[files,plots,reproduce]" --group test --group schemas
	-@$(BIN)/python -m compileall -q -j 0 -x '/($(NOT_COMPILED))/' $(VENV)/lib > /dev/null
	touch $@

$(VENV)/.release: $(VENV)/.base pyproject.toml
	$(BIN)/python -m pip install -q --group release
	touch $@

$(VENV)/.docs: $(VENV)/.test
	$(BIN)/python -m pip install -q --group docs
	touch $@

$(VENV)/.bench: $(VENV)/.reproduce
	$(BIN)/python -m pip install -q --group bench
	touch $@

$(VENV)/.browser: $(VENV)/.test
	$(BIN)/python -m pip install -q --group browser
	touch $@

$(VENV)/.check: $(VENV)/.test
	$(BIN)/python -m pip install -q --group check
	touch $@

$(OLDEST)/.ready: pyproject.toml
	$(if $(OLDEST_PYTHON),,$(error test-oldest needs Python 3.10 or 3.11; name one: make test-oldest OLDEST_PYTHON=path/to/python3.10))
	$(OLDEST_PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install -q --upgrade "pip>=25.1"
	grep -oE '"[a-z-]+>=[0-9.]+' pyproject.toml | tr -d '"' | sed 's/>=\(.*\)/==\1.*/' > $(OLDEST)/constraints.txt  # numpy==1.24.*
	$(OLDEST)/bin/python -m pip install -q -c $(OLDEST)/constraints.txt -e ".[sklearn,river,onnx,reproduce]" --group test
	touch $@

$(SPARK)/.ready: pyproject.toml
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install -q --upgrade "pip>=25.1"
	$(SPARK)/bin/python -m pip install -q -e ".[spark]" pytest hypothesis dask ray
	touch $@
