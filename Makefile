# Two commands do everything on a fresh machine: `make try` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

# What the documentation site shows, or links to. Copied to build/pages, each in its place.
PAGES := $(wildcard *.md) CITATION.cff docs benchmarks deploy

.PHONY: try test slow journeys mutants soak processors lint types style format docs docs-check docs-serve reference pages labs performance pictures course notebook notebooks slides diagrams dist dist-check clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

try: .venv/installed          ## train on the built-in corpus, translate, draw
	$(BIN)/weft try

# One thread a worker: two workers that each want both cores are slower than either alone. Bytecode is kept, whatever the
# environment says: the tests start many processes, and each would compile weft again.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2

test: .venv/installed         ## the tests, without those marked slow or gpu
	$(PYTEST)

slow: .venv/installed         ## the tests marked slow
	$(PYTEST) -m slow --timeout 3600

journeys: .venv/installed     ## every recipe, task and automatic choice, from training to serving; the commands of the guides; weft without fast/
	$(PYTEST) -m journey --timeout 900 tests/contracts tests/journeys tests/documentation

# Breaks N lines, one at a time, and runs the tests that are likely to notice; see CONTRIBUTING.md.
N ?= 50
SEED ?= 1
mutants: .venv/installed      ## break N lines (seed SEED) and count those that tests notice: build/mutants.json
	PYTHONPATH=src:tools OMP_NUM_THREADS=1 nice $(BIN)/python tools/mutants.py -n $(N) --seed $(SEED) $(OPTIONS)

MINUTES ?= 20
soak: .venv/installed         ## kill, signal, starve and damage for MINUTES (seed SEED), and compare results: build/soak.json
	PYTHONPATH=src $(BIN)/python tools/soak.py --minutes $(MINUTES) --seed $(SEED)

processors: .venv/installed   ## run the tests as other processors would (seven times the suite): build/processors.json
	$(BIN)/python tools/processors.py $(OPTIONS)

lint: style types             ## style and types

style: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: reference pages         ## write the reference anew and build the site: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

docs-serve: docs              ## read the site at localhost:8000, search included
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site

docs-check: pages             ## the reference is current, the site builds without a warning and loads nothing from elsewhere
	$(BIN)/python tools/reference.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	! grep -rnoE '<(script|img|iframe|link)[^>]*(src|href)="?(https?:)?//[^>]*' build/site --include='*.html'
	! grep -rnoE '(@import|url\()[^;)]{0,9}(https?:)?//[^;)]*' build/site --include='*.css'

reference: .venv/installed
	$(BIN)/python tools/reference.py

pages: .venv/installed
	rm -rf build/pages build/site
	mkdir -p build/pages
	cp -r $(PAGES) build/pages/
	$(BIN)/python tools/notebook.py docs/tour.ipynb --page build/pages/docs/tour.md
	$(BIN)/python tools/course.py site build/pages/docs/course

labs: .venv/installed         ## run the labs that have no result in build/labs, and write docs/labs.md
	$(BIN)/python tools/labs.py

performance: .venv/installed  ## measure how cost grows on this CPU (three minutes), and write docs/performance.md
	mkdir -p build
	$(BIN)/weft bench scale tatoeba --device cpu --minutes 1.5 --json > build/cpu-transformer.json
	$(BIN)/weft bench scale multi30k-rnn --device cpu --minutes 0.9 --json > build/cpu-rnn.json
	$(BIN)/python tools/performance.py cpu-transformer=build/cpu-transformer.json cpu-rnn=build/cpu-rnn.json

pictures: .venv/installed     ## train `grammar` and draw the pictures of the README
	rm -rf build/pictures
	$(BIN)/weft train grammar --out build/pictures
	$(BIN)/weft attend build/pictures 'the old king does not see the white horse' --to docs/images/attention-map.png
	$(BIN)/weft trace build/pictures 'he hit me with a pie' --set search.size=3 --to docs/images/beam-tree.png
	$(BIN)/python tools/page_picture.py build/pictures 'a witch must open the bag of the male nurse' docs/images/page.png

notebook: .venv/installed     ## run docs/tour.ipynb and store its outputs
	$(BIN)/python tools/notebook.py docs/tour.ipynb

notebooks: .venv/installed    ## write the chapters of the course as notebooks: build/notebooks
	$(BIN)/python tools/course.py notebooks build/notebooks

slides: .venv/installed       ## write the chapters of the course as slides: build/slides
	$(BIN)/python tools/course.py slides build/slides

diagrams: .venv/installed     ## draw the diagrams of the course and the sheets of pictures: docs/images/diagrams, docs/images/pictures
	$(BIN)/python tools/diagrams.py
	$(BIN)/python tools/picture_sheets.py

course: .venv/installed       ## run the course: store what its code prints, and draw its pictures (it trains three models)
	$(BIN)/python tools/course.py run

dist: .venv/installed         ## build dist/*.tar.gz and dist/*.whl, and check their metadata
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

# Run from a folder of its own, so that only the installed package can be imported.
dist-check: dist              ## install the wheel in an empty environment; train, translate and run a notebook with it
	rm -rf build/wheel
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build/wheel && venv/bin/weft --help
	cd build/wheel && venv/bin/weft train grammar --set training.steps=10 --set training.device=cpu --out run
	cd build/wheel && echo 'he hit me with a pie' | venv/bin/weft translate run
	cd build/wheel && venv/bin/weft course start 1 && test -f sampling.py
	$(BIN)/python tools/course.py notebooks build/wheel/notebooks
	cd build/wheel && venv/bin/python ../../tools/notebook.py notebooks/07-scores.ipynb
	test -f build/wheel/venv/lib/python*/site-packages/weft/py.typed
	test -f build/wheel/venv/lib/python*/site-packages/weft/apps/serve/page/views/translate.js
	rm -rf build/wheel

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
