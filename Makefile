# One line per target in `make help`. Everything a target needs beyond cargo and python3 lives in .venv.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

CARGO ?= cargo
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
DEV := $(abspath $(TARGET_DIR))/debug
WHEELS := $(abspath $(TARGET_DIR))/wheels
# The dev profile optimises what the simulator runs; see Cargo.toml.
SIM := $(CARGO) run --quiet -p quorate-sim
ORDERINGS := paxos libpaxos libpaxos+ fast_paxos ring_paxos s_paxos
# Tests run the sources of this tree with the native half and the programs of the dev build, not what `make build` installed.
TREE := PYTHONPATH=$(CURDIR)/python QUORATE_PROGRAM=$(DEV)/quorate QUORATE_HISTORY=$(DEV)/history
# Seeds of `make test`: about 150 CPU-seconds, shared by the cores. FIXED_SEEDS from 0 are the same for every commit: what they find is
# the doing of the change, and they are held to the quotas of faults. DRAWN_SEEDS begin at FROM, so each commit looks where none has
# looked; they are too few for quotas, which chance would miss now and then.
FIXED_SEEDS ?= 2250
DRAWN_SEEDS ?= 250
# Seeds of `make test-fast`, from 0: about 15 CPU-seconds.
FAST_SEEDS ?= 250
# Integration tests that start no process and open no socket.
FAST_TESTS := every_ordering_conforms scripts late_messages replica session wire files log lives group_commit pledge repository
# Python tests that run many classes, one after the other; with the examples they take as long as all others.
CLASS_TESTS := python/tests/test_check.py python/tests/test_simulate.py
# The commit's first seven digits as a number, or the number after the largest of those where no commit is known.
COMMIT := $(shell git rev-parse HEAD 2>/dev/null | cut -c1-7)
FROM ?= $(shell printf '%d' 0x$(or $(COMMIT),10000000))

# Scripts of lab/bench that have full type hints.
TYPED_BENCHES := $(addprefix ../lab/bench/,etcd_puts.py fast.py link_delay.py ordering_rows.py orderings.py rivals.py speculation.py staying.py test_ordering_rows.py)

# Empty until the Python package stands; then it is installed and its types are checked.
PACKAGE := $(wildcard python/pyproject.toml)

# One interpreter for every cargo call, so that pyo3 is built once and not once per caller.
export PYO3_PYTHON ?= $(BIN)/python
# User site packages and the caller's environment stay out of the virtual environment.
export PYTHONNOUSERSITE := 1

.PHONY: help build wheel wheel-test guide demo test test-fast check fix bench bench-orderings bench-fast bench-speculation link-delay lab locks shapes takeovers rivals many parked sim sim-ci hours zoo nemesis outage memory catchup campaign-views calm foreign suites fuzz night docs
.PHONY: venv cargo-present compile release fast-steps
.PHONY: test-rust test-python test-python-groups test-python-classes test-sim check-rust check-tidy check-python check-shell

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

# ---- what others need ----

cargo-present:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install it with https://rustup.rs, then run make again" >&2; exit 1; }

venv: $(VENV)/.ready ## make .venv with the pinned development tools

$(VENV)/.ready: python/requirements-dev.txt python/requirements-foreign.txt
	@command -v $(PYTHON) >/dev/null || { echo "python3 is missing: install Python 3.11 or later (apt install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "python3 is older than 3.11: set PYTHON=python3.11 or later" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "python's venv module is missing: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement python/requirements-dev.txt --requirement python/requirements-foreign.txt
	@touch $@

# One selection of packages and targets for everything that tests run: another selection has other features, and cargo
# compiles dependencies again for it.
compile: cargo-present venv
	$(CARGO) build --workspace --all-targets
	@cmp --silent $(DEV)/lib_native.so python/quorate/_native.abi3.so || install -m 755 $(DEV)/lib_native.so python/quorate/_native.abi3.so

# Runs $(2) seeds from $(1) on; says how to run them again when one fails.
define seeds
	@echo "$(2) seeds from $(1)"
	@$(DEV)/sim --from $(1) --seeds $(2) || { echo "$(3)" >&2; exit 1; }
endef

# ---- what users run ----

build: cargo-present venv ## build for release into .venv: `quorate` on its bin, the Python package importable
	@echo "building for release: about 4 minutes of CPU the first time, two after a small change"
	@$(MAKE) --no-print-directory release && echo "built in $$SECONDS s: $(VENV)/bin/quorate, and the package quorate in $(VENV)"

release: cargo-present venv
	$(BIN)/python python/packaging/quorate_build.py --profile release --out $(WHEELS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps --no-index $(WHEELS)/*.whl

wheel: cargo-present venv ## what people install, in target/wheels: the wheel with the program in it, and the sources
	$(BIN)/python python/packaging/quorate_build.py --profile release --sdist --out $(WHEELS)

wheel-test: compile ## install a wheel of the dev build into an empty environment without cargo, and run the README's example there
	$(BIN)/python python/packaging/quorate_build.py --profile dev --program $(DEV)/quorate --sdist --out $(WHEELS)
	QUORATE_WHEELS=$(WHEELS) $(BIN)/pytest -c python/pyproject.toml python/packaging

demo: build ## replicate examples/audited_bank.py on three processes, kill its leader twice, show what clients saw
	$(BIN)/quorate demo

bench: build ## measure the figures of the README
	lab/bench/figures.sh $(BIN)/quorate

lab: build ## measure figures of the papers, draw them, and say whether their shape holds: about 5 minutes
	$(BIN)/quorate lab run --all

locks: build ## measure what waiting for a lock costs: ROUNDS=n (2000)
	$(BIN)/python lab/bench/locks.py --rounds $(or $(ROUNDS),2000)

shapes: build ## measure calls with large values, many keys and many clients against their bars: RUNS=n (3), SHORT=1 one short run of each
	$(BIN)/python lab/bench/shapes.py $(if $(SHORT),--runs 1 --seconds 2,--runs $(or $(RUNS),3))

bench-orderings: build ## measure what each ordering costs, beside what its messages predict, and etcd where it is installed: RUNS=n (3), LIBPAXOS=folder with the programs of LibPaxos3, SHORT=1 one short run of each
	$(BIN)/python lab/bench/orderings.py --quorate $(BIN)/quorate $(if $(SHORT),--short,--runs $(or $(RUNS),3)) $(if $(LIBPAXOS),--libpaxos $(LIBPAXOS))

bench-fast: build ## measure Fast Paxos beside Multi-Paxos over links of 10 ms, and where they cross; needs root: ROUNDS=n (3), SHORT=1 one short round
	$(BIN)/python lab/bench/fast.py --quorate $(BIN)/quorate $(if $(SHORT),--quick,--rounds $(or $(ROUNDS),3))

bench-speculation: build ## measure what execution ahead of decisions saves, over links of 10 ms too; needs root: ROUNDS=n (3), SHORT=1 one short round
	$(BIN)/python lab/bench/speculation.py --quorate $(BIN)/quorate $(if $(SHORT),--quick,--rounds $(or $(ROUNDS),3))

link-delay: venv ## how exact the lab's links of 10 ms are, and how many packets a second they stand; needs root
	$(BIN)/python lab/bench/link_delay.py

takeovers: build ## measure how long a lock is nobody's after its holder was killed, also while leaders are: ROUNDS=n (10)
	$(BIN)/python lab/bench/takeovers.py --rounds $(or $(ROUNDS),10)

rivals: build ## measure locks beside those of etcd, ZooKeeper and PySyncObj, where they are installed: ROUNDS=n (1000)
	$(BIN)/python lab/bench/rival_locks.py --rounds $(or $(ROUNDS),1000)

many: build ## measure what many objects cost: OBJECTS=n (9900)
	$(BIN)/python lab/bench/many.py --objects $(or $(OBJECTS),9900)

parked: build ## let one call wait beside load: MINUTES=n (60)
	$(BIN)/python lab/bench/parked.py --minutes $(or $(MINUTES),60)

# ---- what holds the code ----

test: test-rust test-python test-sim ## unit, scenario, property, Python, README and short simulator tests

test-rust: compile
	$(TREE) $(CARGO) test --workspace

# Two halves at a time: most of these tests wait for processes that they have started.
test-python: compile
	@echo "the Python tests run in two halves, each of which is shown when it has ended: about four minutes on two cores"
	+$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-python-groups test-python-classes

test-python-groups:
	$(TREE) $(BIN)/pytest -c python/pyproject.toml python/tests $(addprefix --ignore=,$(CLASS_TESTS))

test-python-classes:
	$(TREE) $(BIN)/pytest -c python/pyproject.toml $(CLASS_TESTS) python/quorate examples
	$(TREE) $(BIN)/pytest lab/nemesis lab/runner lab/bench

test-sim: compile
	$(call seeds,0,$(FIXED_SEEDS),the same seeds again: make test-sim)
	@echo "the next seeds come from $(if $(COMMIT),commit $(COMMIT),a constant: no commit is known); make test-sim FROM=$(FROM) runs the same again"
	$(call seeds,$(FROM),$(DRAWN_SEEDS),the same seeds again: make test-sim FROM=$(FROM))

test-fast: cargo-present venv ## after a small change: unit and scenario tests, tidy, 250 simulator seeds; the Python tests are left out
	@$(MAKE) --no-print-directory fast-steps && echo "test-fast: passed in $$SECONDS s"

fast-steps:
	$(CARGO) build --quiet --workspace --all-targets
	$(CARGO) test --quiet --workspace --lib $(addprefix --test ,$(FAST_TESTS))
	$(call seeds,0,$(FAST_SEEDS),the same seeds again: make test-fast)

check: check-rust check-tidy check-python check-shell ## formatting, lints, types and the repository's own rules; changes nothing

check-rust: cargo-present venv
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

check-tidy: cargo-present
	$(CARGO) test --quiet -p quorate-tidy

check-python: venv
	git ls-files '*.py' '*.pyi' | xargs -r $(BIN)/ruff format --check
	git ls-files '*.py' '*.pyi' | xargs -r $(BIN)/ruff check
	$(if $(PACKAGE),cd python && $(BIN)/mypy --strict . ../lab/nemesis ../lab/runner ../lab/experiments $(TYPED_BENCHES) ../lab/night.py ../examples/*.py,@echo "python/pyproject.toml is absent: no types to check")

check-shell:
	for script in .ci/run $$(git ls-files '*.sh'); do bash -n "$$script"; done

fix: cargo-present venv ## format, and apply the lints that can mend themselves
	$(CARGO) fmt --all
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	git ls-files '*.py' '*.pyi' | xargs -r $(BIN)/ruff check --fix
	git ls-files '*.py' '*.pyi' | xargs -r $(BIN)/ruff format

# ---- what proves ----

sim: cargo-present venv ## simulate: SEED=n replays one, SEEDS=n runs many, MINUTES=n runs for a time, ORDERING=name begins groups so
	$(SIM) --bin sim -- $(if $(SEED),--seed $(SEED),$(if $(SEEDS),--seeds $(SEEDS),--minutes $(or $(MINUTES),20))) $(if $(ORDERING),--ordering $(ORDERING))

sim-ci: cargo-present venv ## simulate 8,000 seeds, and 3,000 of each ordering
	$(SIM) --bin sim -- --seeds 8000
	for ordering in $(ORDERINGS); do $(SIM) --bin sim -- --from 100000 --seeds 3000 --ordering $$ordering || exit 1; done

hours: cargo-present venv ## simulate a day of light load under faults: log, disk and tables stay bounded: HOURS=n (24), SEED=n; about 4 minutes
	$(SIM) --bin sim -- --hours $(or $(HOURS),24) --from $(or $(SEED),0)

zoo: cargo-present venv ## plant every known bug, two at a time; each must be found within its seeds: QUICK=1 only a dozen of them
	$(SIM) --features zoo --bin zoo -- $(if $(QUICK),--quick)
	$(CARGO) test --quiet -p quorate-sim --features zoo --test overlapping_views --test hours planted

nemesis: build ## kill, stop, cut off and starve real processes under load; judge what clients saw: MINUTES=n goes on, LONG=1 adds faults of minutes, ORDERING=name orders so on NODES=n (5)
	$(BIN)/python lab/nemesis/run.py $(if $(ORDERING),--ordering $(ORDERING) --nodes $(or $(NODES),5)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(LONG),--long)

outage: build ## how long writes and reads wait when the leader is killed (KILLS=n, INSTALLS=n), stopped or cut off
	$(BIN)/python lab/nemesis/outage.py --reads --kills $(or $(KILLS),60) --during-install $(or $(INSTALLS),20)

memory: build ## memory of two nodes while the third is dead and the load goes on: MINUTES=n
	$(BIN)/python lab/nemesis/memory.py --minutes $(or $(MINUTES),10)

catchup: build ## how long a node that missed 20 MB takes over a link of 30 Mbit/s; needs network namespaces: LONG=1 takes 8 and 100 Mbit/s as well
	$(BIN)/python lab/nemesis/catchup.py $(if $(LONG),--long)

foreign: compile ## random calls on classes of other packages, in host processes and in groups: CALLS=n, SEED=n
	$(TREE) FOREIGN_CALLS=$(or $(CALLS),2000) FOREIGN_SEED=$(or $(SEED),1) $(BIN)/pytest -c python/pyproject.toml examples/foreign

suites: compile ## CPython's own tests of locks and queues on replicated ones, while the leader is killed every few seconds: MINUTES=n
	$(TREE) QUORATE_SUITES_SECONDS=$$(( $(or $(MINUTES),10) * 60 )) $(BIN)/pytest -c python/pyproject.toml --capture=no python/tests/test_objects_cpython.py

campaign-views: build ## replace every machine of a group under load, kill and cut off its leader, draw it: SHORT=1 three machines
	$(BIN)/python lab/nemesis/views.py $(if $(SHORT),--short) $(if $(SEED),--seed $(SEED)) $(if $(OBJECT),--object $(OBJECT))

calm: build ## a loaded group without faults elects nobody: MINUTES=n
	$(BIN)/python lab/nemesis/calm.py --minutes $(or $(MINUTES),20)

fuzz: cargo-present ## fuzz the readers of bytes: TARGET=name, MINUTES=n
	@command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is missing: cargo install cargo-fuzz" >&2; exit 1; }
	@[ -n "$(TARGET)" ] || { echo "which reader? make fuzz TARGET=name, one of:" >&2; cargo fuzz list >&2; exit 2; }
	cargo +nightly fuzz run $(TARGET) -- -max_total_time=$$(( $(or $(MINUTES),5) * 60 ))

night: compile ## fresh seeds for sim, zoo, nemesis and fuzz; keeps what fails in out/night: MINUTES=n (480)
	$(SIM) --features zoo --bin zoo -- --list > /dev/null
	$(TREE) $(BIN)/python lab/night.py --minutes $(or $(MINUTES),480) --programs $(DEV) $(if $(SEED),--seed $(SEED))

docs: cargo-present venv ## API documentation in target/doc
	$(CARGO) doc --workspace --no-deps

guide: docs/guide/requirements.txt ## the user's guide in target/guide, with tools of its own from docs/guide/requirements.txt
	$(PYTHON) -m venv $(TARGET_DIR)/guide-tools
	$(TARGET_DIR)/guide-tools/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	$(TARGET_DIR)/guide-tools/bin/sphinx-build -q -W -b html docs/guide $(TARGET_DIR)/guide
	@echo "open $(TARGET_DIR)/guide/index.html"
