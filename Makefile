# Everything from a bare machine: `make demo` shows R2CC at work, `make test` proves it. `make help` lists the rest.
# Only relative paths are used, so the checkout may lie in a folder with a space in its name.

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev built docs schemas demo false-positives many-faults soak record wheel packages image test test-cpp test-unit test-lab lab-together lab-timed lab-alone fuzz test-python model sanitize lint style-python lint-python lint-cpp check nightly clean

DEMO_ARMS ?= stock,migrate
STORE ?= runs
# Tests start `r2cc` and Python again and again: what is compiled once is kept, whatever the caller prefers.
export PYTHONDONTWRITEBYTECODE :=
PYTEST_ARGS ?=
# A choice of tests may lie wholly in one of the two runs.
USUAL = not slow and not network
NONE_IS_FINE = $(if $(PYTEST_ARGS),|| [ $$? = 5 ])

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

setup: ## Install what is missing: system packages (if possible without a password), .venv
	@bash scripts/setup.sh runtime

setup-dev: ## The same, with the tools of the tests and of lint
	@bash scripts/setup.sh dev

# Before tests whose own time it would count in: each has a limit, and a first build takes minutes.
built: setup-dev
	@.venv/bin/r2cc build net --quiet

docs: setup-dev ## Write the pages of docs/reference that follow from the code
	@.venv/bin/python scripts/docs.py

schemas: setup-dev ## Write harness/schemas from the models of what is read and printed
	@.venv/bin/python scripts/schemas.py

demo: setup ## Break a link under real traffic, with and without R2CC; prints the run's directory last
	@.venv/bin/r2cc build net
	@.venv/bin/r2cc chaos run experiments/nic_down.yaml --arms $(DEMO_ARMS) --void-ok

false-positives: setup ## What is slow, late or stopped must not be taken for broken; ARMS=balance for one arm alone
	@.venv/bin/r2cc build net
	@.venv/bin/r2cc chaos run experiments/false_positives $(if $(ARMS),--arms $(ARMS)) --void-ok

many-faults: setup ## Several NICs, hosts or a whole rail at once, and faults during failovers
	@.venv/bin/r2cc build net
	@.venv/bin/r2cc chaos run experiments/many_faults $(if $(ARMS),--arms $(ARMS)) --void-ok

soak: setup ## Random faults for MINUTES=n (10), printed SEED=s; a failure is shrunk to an experiment file
	@.venv/bin/r2cc build net
	@.venv/bin/r2cc chaos soak --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(ARMS),--arm $(ARMS)) $(if $(or $(TESTBED),$(BED)),--testbed $(or $(TESTBED),$(BED)))

record: setup-dev ## One short run in the lab into STORE=dir (runs), and its history judged: lasting changes fail
	@.venv/bin/r2cc build net --quiet
	@.venv/bin/r2cc chaos run experiments/ci/pull_request.yaml --arms migrate --out "$(STORE)" --void-ok --quiet
	@.venv/bin/r2cc ci gate --policy ci/policies/lab.yaml --history --store "$(STORE)"

test: test-cpp test-unit test-lab ## Build, then the C++ tests, the Python tests and the tests in the lab

test-cpp: setup-dev ## The C++ tests
	@.venv/bin/r2cc build net --then test

# Tests wait longer than they compute: more of them than there are cores.
UNITS ?= tests/unit tests/model tests/browser
test-unit: built ## The Python tests, the model's and the browser's
	@.venv/bin/python -m pytest -n 4 --dist worksteal $(UNITS) $(PYTEST_ARGS) $(NONE_IS_FINE)

test-lab: ## The tests in the lab and on emulated machines
	@$(MAKE) --no-print-directory -j1 lab-together lab-timed lab-alone

# Most tests of the lab wait. Those that see what a fault does to time go two at a time; those that measure rates and
# milliseconds themselves have the machine to themselves.
lab-together: built
	@.venv/bin/python -m pytest -n 4 --dist loadfile tests/lab -m "not alone and not timed and $(USUAL)" $(PYTEST_ARGS) $(NONE_IS_FINE)
lab-timed: built
	@.venv/bin/python -m pytest -n 2 --dist loadfile tests/lab -m "timed and $(USUAL)" $(PYTEST_ARGS) $(NONE_IS_FINE)
lab-alone: built
	@.venv/bin/python -m pytest tests/lab tests/vm -m "(alone or vm) and $(USUAL)" $(PYTEST_ARGS) $(NONE_IS_FINE)

wheel: setup-dev ## Build the wheel into dist/: command line, libraries, experiments; ARCH=aarch64 for other hosts
	@.venv/bin/r2cc build net --quiet $(ARCH:%=--cpu %) --then release
	@.venv/bin/python scripts/packages/wheel.py $(ARCH)

packages: wheel ## The wheel, and .deb, .rpm (where rpmbuild is) and symbols of the net plugin, into dist/; ARCH as for wheel
	@bash scripts/packages/system.sh $(ARCH)

image: packages ## An image for init containers, agents and metrics of pods, by buildah, podman or docker; ARCH as for wheel
	@bash scripts/packages/image.sh $(ARCH)

fuzz: setup-dev ## Fuzz the wire formats and a live engine: `make fuzz SECONDS=60` a target (needs clang)
	@FUZZ_SECONDS=$(or $(SECONDS),60) .venv/bin/r2cc build net --then fuzz

test-python: setup-dev ## The Python unit tests alone
	@.venv/bin/python -m pytest -n 2 tests/unit -m "not build and not slow" $(PYTEST_ARGS)

model: setup-dev ## Spin searches the protocol's model, and must find every deliberate mistake
	@.venv/bin/python -m pytest tests/model $(PYTEST_ARGS)

sanitize: setup-dev ## The C++ tests under ASan + UBSan and under TSan
	@.venv/bin/r2cc build net --then test-tsan --then test-asan

lint: lint-python lint-cpp ## Style, types, layers; clang-format and clang-tidy

style-python: setup-dev ## ruff
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

lint-python: style-python ## ruff, mypy --strict, import-linter
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@! git grep -nE '^(<<<<<<<|>>>>>>>) ' || { echo "a merge was left half done" >&2; false; }

lint-cpp: setup-dev ## clang-format and clang-tidy on our C++; FILES=changed for what changed alone
	@.venv/bin/r2cc build net --quiet
	@bash scripts/lint-cpp.sh $(FILES)

check: lint test sanitize ## What must hold before a change goes in

nightly: export R2CC_TESTS := whole
nightly: check ## Everything, with the long tests whole under sanitizers, too, 10 minutes of fuzzing, and what needs the network
	@bash scripts/lint-cpp.sh all
	@FUZZ_SECONDS=300 .venv/bin/r2cc build net --then fuzz-if-possible
	@for version in $(filter-out 2.29.7,$(patsubst nccl_fork/pins/%.toml,%,$(wildcard nccl_fork/pins/*.toml))); do \
	  .venv/bin/r2cc build net --nccl $$version --then test || exit 1; \
	done
	@.venv/bin/python -m pytest -m "slow or network or browser" $(PYTEST_ARGS)
	@R2CC_TEST_ENGINE=uml .venv/bin/python -m pytest tests/vm -m vm $(PYTEST_ARGS)
	@.venv/bin/r2cc chaos run experiments/false_positives --void-ok
	@.venv/bin/r2cc chaos run experiments/false_positives/nightly --void-ok
	@.venv/bin/r2cc chaos soak --minutes 10

clean: ## Remove what was built and installed; keeps runs/ and an edited nccl_fork/tree
	rm -rf build .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache r2cc.egg-info
	find r2cc harness chaos reports ci tests -name __pycache__ -type d -prune -exec rm -rf {} +
