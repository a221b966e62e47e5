# make demo    install into .venv and run the main job: task vectors on the packaged model
# make test    the same, then the whole test suite
# make check   formatting, lint, types, generated documentation, and the test suite
# make docs    write the generated documentation again
# make lists   check the word lists against dictionaries; names the Debian packages it misses
# make browser install Debian's Chromium, in which tests open pages (as root)
# make clean   remove .venv and everything built

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt
PACKAGING := pyproject.toml constraints.txt hatch_build.py $(wildcard startup/*)

.DEFAULT_GOAL := help
.PHONY: help demo test check docs docs-check lists browser clean

help:
	@sed -n 's/^# make/make/p' Makefile

demo: $(VENV)/.installed
	$(BIN)/lm_eval --model taskvec-hf --tasks bijection_upper

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) docs-check
	$(MAKE) test

docs: $(VENV)/.installed-dev
	$(BIN)/python -m harness_ext.docs --write

docs-check: $(VENV)/.installed-dev
	$(BIN)/python -m harness_ext.docs --check

lists: $(VENV)/.installed-dev
	$(INSTALL) --editable '.[dictionaries]'
	$(BIN)/python tests/dictionaries/check.py

browser:
	command -v chromium || { apt-get update && apt-get install --yes --no-install-recommends chromium; }

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .benchmarks

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The stamps spare a second run the installation; packaging files that change bring it back.
$(VENV)/.installed: $(PACKAGING) | $(VENV)/bin/python
	$(INSTALL) --editable .
	touch $@

$(VENV)/.installed-dev: $(PACKAGING) | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev]'
	touch $@ $(VENV)/.installed
