# One door to everything: `make help` lists it. Needs Python 3.11 or newer and make; a C compiler makes it fast.

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
VENV := .venv
RUN := env -u PYTHONPATH $(VENV)/bin/python
# What the tests and the demo need of the optional dependencies.
EXTRAS := all
# Processes a test run is spread over.
JOBS ?= 2
FAST := "not slow and not oracle and not peers and not spark and not browser"
# Passed on to the demo, bench and sim programs.
ARGS ?=

SOURCES := $(shell find src/jetspark -name '*.py' -o -name py.typed)
PYTHON_PATHS := src tests setup.py $(wildcard examples bench tools)

.PHONY: help install test browser check format lint types contracts fast-tests demo docs bench sim clean

help:
	@echo "make install   .venv with the project (compiled where possible): .venv/bin/jetspark"
	@echo "make test      every test on the installed build, and the plain build's tests"
	@echo "make check     format, lint, types, import contracts and the fast tests (two to three minutes)"
	@echo "make demo      server, producers, workers, a Spark pipeline, a crash in the middle, a verified result (ARGS=--keep)"
	@echo "make docs      the documentation as a site, in build/site"
	@echo "make bench     this server and nats-server, the same jobs in turn (ARGS=...)"
	@echo "make sim       the broker in the simulator (SECONDS=60 for as long as asked, SEED=17 for one seed again)"

# The virtual environment itself; pip 25.1 is the first that reads dependency groups.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Jetspark needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	@touch $@

# The dependencies. They come in through a plain build of the project, which takes a second.
$(VENV)/.dependencies: $(VENV)/.created pyproject.toml
	$(RUN) -m pip install --quiet --disable-pip-version-check --group dev
	JETSPARK_PURE=1 $(RUN) -m pip install --quiet --disable-pip-version-check --no-build-isolation '.[$(EXTRAS)]'
	@touch $@

# The project as a user would have it, rebuilt when its source changed.
$(VENV)/.installed: $(VENV)/.dependencies setup.py README.md $(SOURCES)
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall .
	@$(RUN) -c 'import jetspark._build as b; print("jetspark build:", b.NOTE)'
	@touch $@

install: $(VENV)/.installed
	@$(VENV)/bin/jetspark --version

# Every run always happens; the full one comes last, so that the output ends with its summary. Spark takes both cores by
# itself and gives its Python processes ten seconds to start, so nothing else runs beside its tests.
test: install browser
	@status=0; \
	echo "plain:"; JETSPARK_PURE=1 $(RUN) -m pytest -q -n $(JOBS) --dist loadfile -m $(FAST) || status=1; \
	$(VENV)/bin/jetspark --version; \
	echo "spark:"; $(RUN) -m pytest -q -n $(JOBS) --dist loadfile -m spark || status=1; \
	echo "everything else:"; $(RUN) -m pytest -q -n $(JOBS) --dist loadfile -m "not spark" || status=1; \
	exit $$status

# Before the tests, because two of their processes must not install a browser at the same time. Without one they say so.
browser: $(VENV)/.dependencies
	@$(RUN) tests/browser/chromium.py || true

check: format lint types contracts fast-tests

format: $(VENV)/.dependencies
	RUFF_OUTPUT_FORMAT=concise $(RUN) -m ruff format --check $(PYTHON_PATHS)

lint: $(VENV)/.dependencies
	RUFF_OUTPUT_FORMAT=concise $(RUN) -m ruff check $(PYTHON_PATHS)
	PYTHONPATH=src $(VENV)/bin/python tools/generate_sync.py --check
	PYTHONPATH=src $(VENV)/bin/python tools/generate_cli_docs.py --check
	$(RUN) tools/generate_compat.py --check
	PYTHONPATH=src $(VENV)/bin/python tools/generate_option_tables.py --check

types: $(VENV)/.dependencies
	$(RUN) -m mypy

contracts: $(VENV)/.dependencies
	PYTHONPATH=src $(VENV)/bin/lint-imports

# The source tree itself, uncompiled: no build between an edit and its test.
fast-tests: $(VENV)/.dependencies
	PYTHONPATH=src $(VENV)/bin/python -m pytest -q -n $(JOBS) --dist loadfile -m $(FAST)

demo: install
	$(RUN) -m examples.demo $(ARGS)

# The site, with every page's links checked; build/site/index.html is its front page.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet --site-dir build/site
	@echo "open build/site/index.html, or see it live: $(VENV)/bin/mkdocs serve"

bench: install
	$(RUN) -m bench $(ARGS)

sim: install
	$(RUN) -m jetspark.testing.sim $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

clean:
	rm -rf build dist $(VENV) src/jetspark.egg-info
