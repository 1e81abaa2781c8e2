# Each target is a few lines; the logic lives in tools/. Variables a person may set:
#   LAB_ARGS    goes to JupyterLab:  make lab LAB_ARGS=--no-browser
#   PYTHON      the Python to start from, 3.11 or newer
#   TORCH_ARGS  goes to pip for torch alone: the index that torch's install page shows for CPU-only wheels
#   TORCH       another torch than the pinned one:  make environment TORCH=2.11.0
#   WORKERS     how many notebooks or experiments run at the same time
#   LESSON      the one lesson that make test tries, or make ready, such as 03a
#   NOTEBOOKS   which ones make test-portable runs; without it, all tests as well
#   FAULTS      words of the faults that make test-faults plants; without it, all of them
#   SOLUTIONS   set to no, the copy that make lab makes has no solutions
#   NAME, FROM  what make deck begins, and the course decks from which it takes slides
#   FOLDER      the notebooks that make grade grades, each named after its student; where make release writes
#   GPU         set to 1, make bench measures the GPU;  RECORD is the file that it writes;  BENCH_ARGS are passed on

WORKERS ?= 2
export TORCH TORCH_ARGS SOLUTIONS LESSON

ifeq ($(OS),Windows_NT)
VENV_PYTHON := .venv/Scripts/python.exe
else
VENV_PYTHON := .venv/bin/python
endif
# .venv comes last: it serves when the Python that it was made from is not on the path.
CANDIDATES := $(if $(PYTHON),"$(PYTHON)",python3 python3.14 python3.13 python3.12 python3.11 python $(VENV_PYTHON))

PYTEST := $(VENV_PYTHON) -m pytest -p tools.faster_imports
# What takes seconds and seldom finds anything runs in make test-portable; pyproject.toml says what.
QUICK := -m "not slow and not selftest and not clock"
# One thread a worker: two workers with two threads each would wait for each other.
PARALLEL := -n $(WORKERS) --dist loadfile
STATIC_TESTS := tests/test_setup.py tests/test_readme.py tests/test_pages.py tests/test_links.py tests/test_named_things.py tests/test_made_pages.py tests/test_sources_page.py tests/test_course_map.py tests/test_questions.py tests/test_layering.py tests/test_faults.py tests/equations/test_equations.py tests/equations/test_lines.py tests/test_deck_formulas.py tests/notebooks/test_notebooks.py

.PHONY: lab ready release web lectures deck grade test lint check test-editions test-faults notebooks pages links experiments bench test-portable environment

lab: environment
	@$(VENV_PYTHON) -m tools.lab $(LAB_ARGS)

# Does this computer work in class, without a network? One line says so, or what is missing.
ready: environment
	@$(VENV_PYTHON) -m tools.ready

# What students download: the lessons without outputs and solutions, and what runs them.
release: environment
	@$(VENV_PYTHON) -m tools.release "$(FOLDER)"

# Pages for a browser, in build/web; npm fetches KaTeX once.
web: environment
	@$(VENV_PYTHON) -m tools.web

# The decks, with the pages that they link to, and as PDFs; those need Chromium.
lectures: environment
	@$(VENV_PYTHON) -m tools.lectures

# A deck of one's own in my/lectures:  make deck NAME=monday FROM="02_layer_norm 05_dyt"
deck: environment
	@$(VENV_PYTHON) -m tools.deck "$(NAME)" $(FROM)

# A class's notebooks, with fresh checks; it runs strangers' code: lectures/README.md.
grade: environment
	@$(VENV_PYTHON) -m tools.grade "$(FOLDER)"

test: lint
	OMP_NUM_THREADS=1 $(PYTEST) -p tests.notebooks.nbstrict $(PARALLEL) $(QUICK) $(if $(LESSON),-p tests.one_lesson --lesson $(LESSON),tests notebooks)

lint: environment
	$(VENV_PYTHON) -m ruff format --check .
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m mypy

# What runs no notebook: half a minute.
check: lint
	$(VENV_PYTHON) -m tools.density
	$(PYTEST) -q $(QUICK) $(STATIC_TESTS)

# Stored outputs, and what is made of them.
notebooks: environment
	$(VENV_PYTHON) -m tools.notebooks
	$(VENV_PYTHON) -m tools.pages

# What is made of the lessons or of data: claims, sources, bibliography, glossary, contents, map, derivations, the README's picture.
pages: environment
	$(VENV_PYTHON) -m tools.pages

# Is what the course links to still there? The one check that needs a network; five minutes.
links: environment
	$(VENV_PYTHON) -m tools.links

experiments: environment
	OMP_NUM_THREADS=1 $(VENV_PYTHON) -m tools.experiments --workers $(WORKERS)

bench: environment
	$(VENV_PYTHON) -m tools.bench $(if $(GPU),--gpu) $(if $(RECORD),--record $(RECORD)) $(BENCH_ARGS)

# Both editions in headless Chromium; not a part of `make test`.
test-editions: web
	OMP_NUM_THREADS=1 $(PYTEST) -q $(PARALLEL) tests/editions

# Plants each fault of tests/faults.py in a copy: does a test see it? Those with a word: make test-faults FAULTS=surgery
test-faults: environment
	$(VENV_PYTHON) -m tests.try_faults --workers $(WORKERS) $(FAULTS)

# All tests, also as on the other maker's CPU, then four more passes over all notebooks; over one:
# make test-portable NOTEBOOKS=notebooks/03_rms_norm.ipynb
test-portable: environment
	$(VENV_PYTHON) -m tools.portable --workers $(WORKERS) $(NOTEBOOKS)

# A candidate has to run, not only to exist: a pyenv shim or the Windows Store's stub may stand in for a Python that is not there.
environment:
	@for python in $(CANDIDATES); do \
	  if "$$python" -c "import sys; sys.exit(sys.version_info < (3, 11))" >/dev/null 2>&1; then \
	    exec "$$python" -m tools.environment; \
	  fi; \
	done; \
	echo "No Python 3.11 or newer among" $(CANDIDATES)": install one from python.org," \
	  "or name one with PYTHON=/path/to/python." >&2; exit 1
