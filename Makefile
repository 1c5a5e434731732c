# Everything happens in a local .venv, made on first use.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-lowest lint house docs dist notebooks browser clean

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

demo: .venv/ready
	$(BIN)/invariance train --name demo

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# How the source is kept, in numbers; its rules are tests as well.
house: .venv/ready
	$(BIN)/python tools/house.py --slow

# The pages as a site in build/site, offline; a warning is an error.
docs: .venv/ready
	$(BIN)/sphinx-build -q -W --keep-going -b html -c docs . build/site
	@echo "site: build/site/docs/index.html"

# The notebooks, run in place, so that they open with figures; ten minutes on two cores.
notebooks: .venv/ready
	$(BIN)/python tools/notebooks.py

# A wheel and an sdist in dist.
dist: .venv/ready
	$(BIN)/python -m build --outdir dist

# The shape checks that the first run switches on cannot be compiled, hence the second.
# The third interprets the GPU kernels on the CPU, which must be said before they load.
# A process whose tests are done takes over some of the other's, so fixtures of a file
# are mostly made once.
test:
	$(MAKE) --jobs 2 lint browser
	$(BIN)/pytest -n 2 --dist worksteal
	$(BIN)/pytest -n 2 -o addopts="--import-mode=importlib -q" tests/compiled
	TRITON_INTERPRET=1 $(BIN)/pytest -n 2 -o addopts="--import-mode=importlib -q" tests/fused

# The oldest versions that pyproject.toml allows, in an environment of their own. What
# is left out runs on top of what is here, needs a browser, or is about this repository.
# Shape checks are left out too: in folders with a conftest they need a later jaxtyping.
# uv finds versions that go together in seconds, where pip gives up after minutes.
LOWEST := .venv-lowest
.venv-lowest/ready: pyproject.toml tools/lowest.py
	$(PYTHON) -m venv $(LOWEST)
	$(PYTHON) tools/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python \
	  --constraint $(LOWEST)/constraints.txt --editable ".[test]"
	touch $@

test-lowest: .venv-lowest/ready
	$(LOWEST)/bin/pytest -n 2 --dist worksteal -o addopts="--import-mode=importlib -q" \
	  --ignore=tests/report/test_in_the_browser.py \
	  $(addprefix tests/,partition objectives contracts negatives views folder data \
	    encoders methods diagnostics critics estimators evaluation training runs \
	    report cli)

# Reports are opened in a real browser. Root on a Debian machine gets one; where none can
# be had the tests that need it are left out, except under CI=true.
browser:
	@for name in chromium chromium-browser google-chrome; do \
	  command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends chromium && exit 0; fi; \
	if [ "$$CI" = true ]; then \
	  echo "The report's tests need Chromium, and under CI=true they are not left out:" \
	    "apt-get install -y chromium"; exit 1; fi; \
	echo "There is no Chromium here, so the tests that open reports in a browser are" \
	  "left out (apt-get install -y chromium brings them back)."

clean:
	rm -rf .venv .venv-lowest runs build dist
