# Everything from a bare machine: `make demo` shows R2CC at work, `make test` proves it. `make help` lists the rest.
# Only relative paths are used, so the checkout may lie in a folder with a space in its name.

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo test test-python sanitize lint lint-python lint-cpp check nightly clean

DEMO_ARMS ?= stock,migrate
PYTEST_ARGS ?=

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

setup: ## Install what is missing: system packages (if possible without a password), .venv
	@bash scripts/setup.sh runtime

setup-dev: ## The same, with the tools of the tests and of lint
	@bash scripts/setup.sh dev

demo: setup ## Break a link under real traffic, with and without R2CC; prints the run's directory last
	@.venv/bin/r2cc build net
	@.venv/bin/r2cc chaos run experiments/nic_down.yaml --arms $(DEMO_ARMS) --void-ok

test: setup-dev ## Build, then the C++ tests, the Python tests and the tests in the lab
	@.venv/bin/r2cc build net --then test
	@.venv/bin/python -m pytest $(PYTEST_ARGS)

test-python: setup-dev ## The Python unit tests alone
	@.venv/bin/python -m pytest tests/unit -m "not build and not slow" $(PYTEST_ARGS)

sanitize: setup-dev ## The C++ tests under ASan + UBSan and under TSan
	@.venv/bin/r2cc build net --then test-asan --then test-tsan

lint: lint-python lint-cpp ## Style, types, layers; clang-format and clang-tidy

lint-python: setup-dev ## ruff, mypy --strict, import-linter
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

lint-cpp: setup-dev ## clang-format and clang-tidy on our C++
	@.venv/bin/r2cc build net --quiet
	@bash scripts/lint-cpp.sh

check: lint test sanitize ## What must hold before a change goes in

nightly: check ## Everything, with the long tests and those that need the network or a browser
	@.venv/bin/python -m pytest -m "slow or network or browser" $(PYTEST_ARGS)

clean: ## Remove what was built and installed; keeps runs/ and an edited nccl_fork/tree
	rm -rf build .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache r2cc.egg-info
	find harness chaos reports ci tests -name __pycache__ -type d -prune -exec rm -rf {} +
