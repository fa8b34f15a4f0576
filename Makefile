# The two commands of a newcomer: `make demo` and `make test`. Everything else is cargo's.

NUMALENS := target/release/numalens
# Of make demo: compiled in a third of the time; see the profile in Cargo.toml.
QUICK := target/quick/numalens
DEMO := target/demo

help:
	@echo 'make setup   install what is missing (Debian packages), quick when nothing is'
	@echo 'make build   build numalens: $(NUMALENS)'
	@echo 'make demo    record a program with a planted fault and show what numalens says of it'
	@echo 'make check   what a developer runs before each commit: rules, format, lints, unit tests'
	@echo 'make test    everything that is checked: rules, format, lints, tests, the NUMA lab'
	@echo 'make corpus  some sixty programs under the exact engine: the same output, the same status; installs what it runs'
	@echo 'make truth   the first finding on programs whose fault is known, ten runs each; TRUTH_SOURCES=DIR: others too'
	@echo 'make bench   what recording costs: whole programs with and without it, into bench/runs/'
	@echo 'make python  only the tests of the Python package; make spark: with a Spark of its own'
	@echo 'make dist    the release archive: one program that runs on any x86-64 Linux, and its papers'
	@echo 'make lab     only the NUMA lab: Linux on emulated machines of several nodes'

setup:
	@./setup.sh

setup-build:
	@./setup.sh --build

build: setup-build
	cargo build --release -p numalens

targets: setup
	@$(MAKE) -s -C targets

demo: setup-build
	cargo build --profile quick -p numalens
	@$(MAKE) -s -C targets build/serial_init_omp
	@./scripts/demo.sh $(QUICK) $(DEMO)

check:
	@./scripts/check.sh

test: setup
	@./scripts/test.sh

corpus:
	@./setup.sh --corpus
	NUMALENS_CORPUS=all cargo test --release --workspace --test corpus -- --nocapture

truth: build targets
	cargo xtask truth

bench: build
	cargo xtask bench --numalens $(NUMALENS)

dist: setup
	@./scripts/dist.sh

SYNTHETIC := $(or $(CARGO_TARGET_DIR),target)/release/examples/synthetic

python spark: setup
	cargo build --release -q -p numalens-profile --example synthetic
	./scripts/python.sh $(SYNTHETIC) $(filter spark,$@)

lab: setup
	cargo run --release -p numalens-lab -- run

.PHONY: help setup setup-build build targets demo check test corpus truth bench dist python spark lab
