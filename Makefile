# One door to everything: `make help` lists it. Needs Python 3.11 or newer and make; a C compiler makes it fast.

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
VENV := .venv
# Bytecode is kept, whatever the machine says: every process of the tests would compile its modules anew.
RUN := env -u PYTHONPATH -u PYTHONDONTWRITEBYTECODE $(VENV)/bin/python
PIP := $(RUN) -m pip --quiet --disable-pip-version-check
# Packages from the index: with uv, which is several times as fast, or with pip where uv does not work.
install_packages = { test -x $(VENV)/bin/uv && $(VENV)/bin/uv pip install --quiet --compile-bytecode --python $(VENV)/bin/python $(1); } \
    || $(PIP) install $(1)
# What the tests and the demo need of the optional dependencies.
EXTRAS := all
DEMO_EXTRAS := server,spark,java
# Processes a test run is spread over: most tests wait more than they work, those of Spark do not.
JOBS ?= 4
SPARK_JOBS ?= 2
PYTEST := -m pytest -q --dist loadfile
OWN_ONLY := not slow and not oracle and not peers and not spark and not browser
# What `make check` looks at; `make check ROOM=broker` looks at one room.
ROOM ?=
CHECKED_TESTS := $(if $(ROOM),tests/$(ROOM),tests)
# The rooms that mypyc compiles, and what uses them from end to end: all that differs between the two builds.
PLAIN_TESTS := tests/protocol tests/store tests/broker tests/sim tests/client tests/server
# Passed on to the demo, bench and sim programs.
ARGS ?=

SOURCES := $(shell find src/jetspark -name '*.py' -o -name py.typed)
PYTHON_PATHS := src tests setup.py $(wildcard examples bench tools)

.PHONY: help install test soak browser record check format lint types contracts fast-tests demo docs bench sim clean

help:
	@echo "make install   .venv with the project (compiled where possible): .venv/bin/jetspark"
	@echo "make test      every test on the installed build, and the plain build's tests"
	@echo "make check     format, lint, types, import contracts and the fast tests (a minute; ROOM=broker for one room)"
	@echo "make soak      the long forms of tests (an hour)"
	@echo "make demo      server, producers, workers, a Spark pipeline, a crash in the middle, a verified result (ARGS=--keep)"
	@echo "make record    what nats-server says, once more, for the tests that compare with it"
	@echo "make browser   a Chromium for the tests of the dashboard; without one they are skipped and say so"
	@echo "make docs      the documentation as a site, in build/site"
	@echo "make bench     this server and nats-server, the same jobs in turn (ARGS=...)"
	@echo "make sim       the broker in the simulator (SECONDS=60 for as long as asked, SEED=17 for one seed again)"

# The virtual environment itself; pip 25.1 is the first that reads dependency groups.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Jetspark needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install 'pip>=25.1'
	@$(PIP) install uv || echo "uv cannot be installed here: pip does its work, more slowly"
	@touch $@

# The dependencies. They come in through a plain build of the project, which takes a second.
$(VENV)/.dependencies: $(VENV)/.created pyproject.toml
	@echo "installing the dependencies of the project and of its tests into $(VENV) (about 1.7 GB) …"
	@$(call install_packages,--group dev)
	@JETSPARK_PURE=1; export JETSPARK_PURE; $(call install_packages,--no-build-isolation '.[$(EXTRAS)]')
	@touch $@

# What the demo alone needs, for whoever begins with it.
$(VENV)/.demo-dependencies: $(VENV)/.created pyproject.toml
	@echo "installing what the demo needs into $(VENV): the server, Spark and a Java (about 1 GB) …"
	@$(call install_packages,--group plain)
	@JETSPARK_PURE=1; export JETSPARK_PURE; $(call install_packages,--no-build-isolation '.[$(DEMO_EXTRAS)]')
	@touch $@

# The project as a user would have it, rebuilt when its source changed.
$(VENV)/.installed: $(VENV)/.dependencies setup.py README.md $(SOURCES)
	@echo "compiling the project …"
	@$(PIP) install --no-build-isolation --no-deps --force-reinstall .
	@$(RUN) -c 'import jetspark._build as b; print("jetspark build:", b.NOTE)'
	@touch $@

install: $(VENV)/.installed
	@$(VENV)/bin/jetspark --version

# Every run always happens; the full one comes last, so that the output ends with its summary. Spark takes both cores by
# itself and gives its Python processes ten seconds to start, so nothing else runs beside its tests.
test: install $(VENV)/.class-archive
	@status=0; \
	echo "plain:"; JETSPARK_PURE=1 $(RUN) $(PYTEST) -n $(JOBS) -m "$(OWN_ONLY)" $(PLAIN_TESTS) || status=1; \
	$(VENV)/bin/jetspark --version; \
	echo "spark:"; $(RUN) $(PYTEST) --no-loadscope-reorder -n $(SPARK_JOBS) -m spark || status=1; \
	echo "everything else:"; $(RUN) $(PYTEST) -n $(JOBS) -m "not spark" || status=1; \
	exit $$status

# Each Java of the tests starts in half the time with it, and without it all the same.
$(VENV)/.class-archive: $(VENV)/.dependencies | $(VENV)/.installed
	@echo "writing down the classes of Spark …"
	@$(RUN) -m tests.spark.class_archive $(VENV)/spark-classes.jsa >/dev/null 2>&1 || echo "not written: Spark starts slowly"
	@touch $@

# The long forms: more seeds, and with Spark the other server too.
soak: install $(VENV)/.class-archive
	$(RUN) $(PYTEST) -n $(SPARK_JOBS) -m "soak and spark"
	$(RUN) $(PYTEST) -n $(JOBS) -m "soak and not spark"
	JETSPARK_CHAOS_SEEDS=40 $(RUN) $(PYTEST) -n $(JOBS) tests/client/test_chaos.py tests/client/test_chaos_sync.py
	JETSPARK_SEQUENCE_SEEDS=100:400 $(RUN) $(PYTEST) -n 1 tests/conformance/test_random_sequences.py
	$(RUN) -m jetspark.testing.sim --seconds 600

# The tests of the dashboard take a Chromium that is there. This installs one, and says first what and where.
browser: $(VENV)/.dependencies
	@$(RUN) tests/browser/chromium.py

# After another version of nats-server, or another scenario; nothing else changes what is recorded.
record: $(VENV)/.dependencies
	PYTHONPATH=src $(VENV)/bin/python -m tests.conformance --record

check: format lint types contracts fast-tests

format: $(VENV)/.dependencies
	RUFF_OUTPUT_FORMAT=concise $(RUN) -m ruff format --check $(PYTHON_PATHS)

lint: $(VENV)/.dependencies
	RUFF_OUTPUT_FORMAT=concise $(RUN) -m ruff check $(PYTHON_PATHS)
	PYTHONPATH=src $(VENV)/bin/python tools/generate_sync.py --check
	PYTHONPATH=src $(VENV)/bin/python tools/generate_cli_docs.py --check
	$(RUN) tools/generate_compat.py --check
	$(RUN) tools/check_tree.py
	PYTHONPATH=src $(VENV)/bin/python tools/generate_option_tables.py --check

types: $(VENV)/.dependencies
	$(RUN) -m mypy

contracts: $(VENV)/.dependencies
	PYTHONPATH=src $(VENV)/bin/lint-imports

# The source tree itself, uncompiled: no build between an edit and its test.
fast-tests: $(VENV)/.dependencies
	@test -d $(CHECKED_TESTS) || { echo "ROOM=$(ROOM): there is no folder $(CHECKED_TESTS)" >&2; exit 1; }
	PYTHONPATH=src $(VENV)/bin/python $(PYTEST) -n 2 -m "not long and $(OWN_ONLY)" $(CHECKED_TESTS)

# Compiled if that build is there already, else plain from the source tree: a first result needs no compiler.
DEMO_IS_COMPILED := $(wildcard $(VENV)/.installed)
demo: $(if $(DEMO_IS_COMPILED),install,$(VENV)/.demo-dependencies)
	@$(if $(DEMO_IS_COMPILED),$(RUN),PYTHONPATH=src $(VENV)/bin/python) -m examples.demo $(ARGS)

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
