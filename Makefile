# A fresh clone needs python3 and make, nothing else. Another interpreter: make test PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help show demo test browser lint style format bench docs clean

help:  ## List the targets.
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

show: $(VENV)/.show  ## A humanoid on the ground, live in the browser.
	$(BIN)/kinetree view examples/robots/humanoid.xml --live

demo: $(VENV)/.demo  ## Show what kinetree does. Leaves no file behind but its environment.
	$(BIN)/kinetree demo

test: style browser  ## Lint, check types, run the tests, in random order. ARGS go to pytest.
	$(BIN)/pyright & types=$$!; $(BIN)/pytest -n 2 --dist worksteal $(ARGS); tests=$$?; wait $$types && exit $$tests

browser: $(VENV)/.test  ## Bring the browser that the tests of the viewer need, unless one is installed.
	$(BIN)/python -m tests.view.chromium

lint: style  ## Lint and check types.
	$(BIN)/pyright

style: $(VENV)/.test  ## Lint.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.test  ## Rewrite the sources in the common style.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test  ## Run the benchmarks. ARGS go to them.
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/.docs  ## Build the documentation into site/.
	$(BIN)/mkdocs build --strict

clean:  ## Remove the environment and everything built.
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp for each set of extras: pip runs again only when pyproject.toml changes.
$(VENV)/.show: EXTRAS := cli,io,view
$(VENV)/.demo: EXTRAS := cli,plot
$(VENV)/.test: EXTRAS := test
$(VENV)/.docs: EXTRAS := docs
$(VENV)/.show $(VENV)/.demo $(VENV)/.test $(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
