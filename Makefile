# Two commands do everything on a fresh machine: `make try` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: try test slow lint format docs docs-check clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

try: .venv/installed          ## train on the built-in corpus, translate, draw
	$(BIN)/weft try

# One thread a worker: two workers that each want both cores are slower than either alone.
test: .venv/installed         ## the tests, without those marked slow or gpu
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

slow: .venv/installed         ## the tests marked slow
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

lint: .venv/installed         ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/installed         ## write docs/commands.md and docs/settings.md anew
	$(BIN)/python tools/reference.py

docs-check: .venv/installed   ## the reference is up to date
	$(BIN)/python tools/reference.py --check

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
