# `make demo` and `make test` do all the set-up themselves, from a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := build/oldest
SPARK := build/spark
# The first of these that runs: newer ones have no wheels of such old libraries.
OLDEST_PYTHON ?= $(shell for python in python3.10 "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.10.*/bin/python python3.11; do \
	"$$python" -c "" 2> /dev/null && echo "$$python" && break; done)
DOORS := tests/integrations tests/models tests/features tests/persistence/test_model_file.py tests/cli tests/test_plots.py tests/regret/test_comparator.py
# As root; others ask their administrator.
INSTALL_POSTGRES := { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; }
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python keeps what it has compiled of files: the tests start dozens of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-steps demo-step reproduce test test-nojit test-oldest test-spark test-postgres test-release check bench bench-stream bench-estimators bench-step-sizes bench-tuning bench-sensitivity bench-sparsity bench-files bench-ensembles bench-spark docs clean

demo: $(VENV)/.demo  ## a table with text, dates and missing values, from a file to a model, its evaluation and a page about it
	$(BIN)/fiol demo build/demo --force
	$(BIN)/fiol train build/demo/tickets.csv --target escalated -o build/demo/tickets.fiol --force
	$(BIN)/fiol evaluate build/demo/tickets.fiol build/demo/later.csv --report build/demo/tickets.html --force

demo-steps: $(VENV)/.demo  ## every preset over all step sizes on badly scaled data: who survives
	$(BIN)/python examples/who_survives.py

demo-step: $(VENV)/.demo  ## solve one step by every solver, print it and draw the equation behind it
	$(BIN)/python examples/one_step.py

reproduce: $(VENV)/.reproduce  ## the paper's experiments: tables, figures and a page in reproduction/; OPTIONS=--quick takes minutes
	$(BIN)/fiol reproduce all $(OPTIONS)

test: $(VENV)/.test  ## all tests, compiled code included
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-nojit: $(VENV)/.test  ## the same tests with everything in the interpreter
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-oldest: $(OLDEST)/.ready  ## the doors to other libraries, with the oldest versions of all of them that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest -n 2 --dist worksteal -W default $(DOORS)

test-spark: $(SPARK)/.ready  ## fiol.spark on a cluster of two processes of this machine; needs Java 17 or newer
	@test -n "$$JAVA_HOME" || command -v java > /dev/null || { echo "test-spark needs Java 17 or newer: install it, or let JAVA_HOME say where it is" >&2; exit 1; }
	FIOL_SPARK=1 $(SPARK)/bin/python -m pytest -q -W default tests/spark

test-postgres: $(VENV)/.test  ## exported SQL on a PostgreSQL server that the tests start; installs Debian's package if there is none
	@test -n "$$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null)" || command -v initdb > /dev/null || $(INSTALL_POSTGRES)
	FIOL_POSTGRES=1 $(BIN)/python -m pytest -q tests/exports -k postgresql

test-release: $(VENV)/.release  ## build wheel and sdist, check them, install them into empty environments of all Pythons at hand, and try them
	rm -rf dist
	$(BIN)/python -m build -q --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python tests/release/environments.py dist $(OPTIONS)

check: $(VENV)/.check  ## formatting, lints, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.demo  ## time per step of every solver, with a scaling plot
	$(BIN)/python -m benchmarks.step --json build/step.json --plot build/step.png

bench-stream: $(VENV)/.bench  ## time per row of a learner beside scikit-learn and River; DATA=folder adds public data sets
	$(BIN)/python -m benchmarks.stream --json build/stream.json $(if $(DATA),--data "$(DATA)")

bench-estimators: $(VENV)/.bench  ## estimators beside scikit-learn's SGD; DATA=folder of public data sets, else made-up rows
	$(BIN)/python -m benchmarks.estimators --json build/estimators.json $(if $(DATA),--data "$(DATA)",--quick)

bench-step-sizes: $(VENV)/.demo  ## explicit against exact steps of the same sizes; DATA=folder of public data sets, else made-up rows
	$(BIN)/python -m benchmarks.step_sizes --json build/step_sizes.json --plot build/step_sizes.svg $(if $(DATA),--data "$(DATA)")

bench-tuning: $(VENV)/.bench  ## nothing tuned against others' best in hindsight; DATA=folder of public data sets, else made-up rows
	$(BIN)/python -m benchmarks.tuning --json build/tuning.json $(if $(DATA),--data "$(DATA)")

bench-ensembles: $(VENV)/.bench  ## what the default ensemble costs beside single learners and others; DATA=folder of public data sets
	$(BIN)/python -m benchmarks.ensembles --json build/ensembles.json $(if $(DATA),--data "$(DATA)")

bench-files: $(VENV)/.bench  ## text to trained model beside Vowpal Wabbit, parsing beside others; DATA=folder adds public data sets
	$(BIN)/python -m benchmarks.files --json build/files.json $(if $(DATA),--data "$(DATA)")

bench-sensitivity: $(VENV)/.bench  ## everybody's loss against step size; DATA=folder of public data sets, else made-up rows
	$(BIN)/python -m benchmarks.sensitivity --json build/sensitivity.json --plot build/sensitivity.svg $(if $(DATA),--data "$(DATA)")

bench-sparsity: $(VENV)/.bench  ## loss against non-zeros beside others' l1; DATA=folder of public data sets, else made-up rows
	$(BIN)/python -m benchmarks.sparsity --json build/sparsity.json --plot build/sparsity.svg $(if $(DATA),--data "$(DATA)")

bench-spark: $(SPARK)/.ready  ## rows per second of two Spark workers beside one, and a model of cost; needs Java 17 or newer
	$(SPARK)/bin/python -m benchmarks.spark --json build/spark.json

docs: $(VENV)/.docs  ## the documentation in build/docs: strict, all examples executed, links inside the repository checked; no network
	$(BIN)/python -m sphinx -W --keep-going -q docs build/docs
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

$(VENV)/.reproduce: $(VENV)/.demo
	$(BIN)/python -m pip install -q -e ".[reproduce]"
	touch $@

$(VENV)/.test: $(VENV)/.reproduce
	$(BIN)/python -m pip install -q --group test
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
