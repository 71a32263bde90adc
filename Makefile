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
# Optimised like a release, but a panic of the code under test does not end the run.
SIM := $(CARGO) run --quiet --profile lab -p quorate-sim
# Seeds of `make test`: about 120 CPU-seconds.
TEST_SEEDS ?= 2500

# Empty until the Python package stands; then it is installed and its types are checked.
PACKAGE := $(wildcard python/pyproject.toml)

# One interpreter for every cargo call, so that pyo3 is built once and not once per caller.
export PYO3_PYTHON := $(BIN)/python
# User site packages and the caller's environment stay out of the virtual environment.
export PYTHONNOUSERSITE := 1

.PHONY: help build demo test check fix bench sim sim-ci zoo nemesis outage memory calm fuzz docs
.PHONY: venv cargo-present binary package
.PHONY: test-rust test-python test-sim check-rust check-tidy check-python check-shell

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{ printf "  %-10s %s\n", $$1, $$2 }'

# ---- what others need ----

cargo-present:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install it with https://rustup.rs, then run make again" >&2; exit 1; }

venv: $(VENV)/.ready ## make .venv with the pinned development tools

$(VENV)/.ready: python/requirements-dev.txt
	@command -v $(PYTHON) >/dev/null || { echo "python3 is missing: install Python 3.11 or later (apt install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "python3 is older than 3.11: set PYTHON=python3.11 or later" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "python's venv module is missing: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement python/requirements-dev.txt
	@touch $@

binary: cargo-present venv
	$(CARGO) build --release -p quorate
	install -m 755 $(TARGET_DIR)/release/quorate $(BIN)/quorate

package: cargo-present venv
	$(if $(PACKAGE),cd python && VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --quiet,@echo "python/pyproject.toml is absent: no package to install")

# ---- what users run ----

build: package binary ## build everything into .venv: `quorate` on its bin, the Python package importable

demo: build ## replicate examples/bank.py on three processes, kill its leader twice, show what clients saw
	$(BIN)/quorate demo

bench: build ## measure the figures of the README
	lab/bench/figures.sh $(BIN)/quorate

# ---- what holds the code ----

test: test-rust test-python test-sim ## unit, scenario, property, Python, README and short simulator tests

test-rust: package
	$(CARGO) test --workspace

test-python: build
	$(BIN)/pytest -c python/pyproject.toml python/tests python/quorate examples
	$(BIN)/pytest lab/nemesis

test-sim: cargo-present venv
	$(SIM) --bin sim -- --seeds $(TEST_SEEDS)

check: check-rust check-tidy check-python check-shell ## formatting, lints, types and the repository's own rules; changes nothing

check-rust: cargo-present venv
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

check-tidy: cargo-present
	$(CARGO) test --quiet -p quorate-tidy

check-python: venv
	git ls-files '*.py' '*.pyi' | xargs -r $(BIN)/ruff format --check
	git ls-files '*.py' '*.pyi' | xargs -r $(BIN)/ruff check
	$(if $(PACKAGE),cd python && $(BIN)/mypy --strict . ../lab/nemesis,@echo "python/pyproject.toml is absent: no types to check")

check-shell:
	for script in .ci/run $$(git ls-files '*.sh'); do bash -n "$$script"; done

fix: cargo-present venv ## format, and apply the lints that can mend themselves
	$(CARGO) fmt --all
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	git ls-files '*.py' '*.pyi' | xargs -r $(BIN)/ruff check --fix
	git ls-files '*.py' '*.pyi' | xargs -r $(BIN)/ruff format

# ---- what proves ----

sim: cargo-present venv ## simulate: SEED=n replays one, SEEDS=n runs many, MINUTES=n runs for a time
	$(SIM) --bin sim -- $(if $(SEED),--seed $(SEED),$(if $(SEEDS),--seeds $(SEEDS),--minutes $(or $(MINUTES),20)))

sim-ci: cargo-present venv ## simulate 5,000 seeds
	$(SIM) --bin sim -- --seeds 5000

zoo: cargo-present venv ## plant every known bug, one at a time; each must be found
	$(SIM) --features zoo --bin zoo

nemesis: build ## kill, stop, cut off and starve real processes under load; judge what clients saw: MINUTES=n goes on
	$(BIN)/python lab/nemesis/run.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

outage: build ## how long clients wait when the leader is killed, stopped or silently cut off
	$(BIN)/python lab/nemesis/outage.py

memory: build ## memory of two nodes while the third is dead and the load goes on: MINUTES=n
	$(BIN)/python lab/nemesis/memory.py --minutes $(or $(MINUTES),10)

calm: build ## a loaded group without faults elects nobody: MINUTES=n
	$(BIN)/python lab/nemesis/calm.py --minutes $(or $(MINUTES),20)

fuzz: cargo-present ## fuzz the readers of bytes: TARGET=name, MINUTES=n
	@command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is missing: cargo install cargo-fuzz" >&2; exit 1; }
	@[ -n "$(TARGET)" ] || { echo "which reader? make fuzz TARGET=name, one of:" >&2; cargo fuzz list >&2; exit 2; }
	cargo +nightly fuzz run $(TARGET) -- -max_total_time=$$(( $(or $(MINUTES),5) * 60 ))

docs: cargo-present venv ## API documentation in target/doc
	$(CARGO) doc --workspace --no-deps
