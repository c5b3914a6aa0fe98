# setup, run, page, test, lint, docs, bench: the words a person and CI use. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
EXTRAS ?= dev
BIN := $(VENV)/bin
COMMA := ,
READY := $(VENV)/.ready$(patsubst %,-%,$(filter-out dev,$(subst $(COMMA),-,$(EXTRAS))))
DOCS := $(VENV)/.docs
CONFIG ?= configs/cheetah_fb_btd.py
AGENT ?= cheetah

.PHONY: setup run page test test-whole test-faults test-lowering test-report test-page test-slurm agents explorers lint format docs bench check-accelerator clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is too old: Python 3.11 or newer is needed (make PYTHON=python3.12 ...)"; exit 2; }
	@echo "setup: installing the pinned packages into $(VENV) (once, and when the pins change; a few minutes)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); } || \
	  { rm -rf $(VENV); echo "error: $(PYTHON) -m venv failed: install your system's venv package (Debian: python3-venv)"; exit 2; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $(READY)
	@echo "setup: done"

run: $(READY)
	$(BIN)/python -m experiments.run --config=$(CONFIG) $(ARGS)

# A page where anyone tells an agent what to do: AGENT is the name of one that ships, or a run.
page: $(READY)
	$(BIN)/python -m experiments.page $(AGENT) $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

# Whole runs as a user makes them: the notebook, the examples, a study, two processes.
test-whole: $(READY)
	$(BIN)/python -m pytest -m whole -n 2 --dist loadfile $(ARGS)

test-faults: $(READY)
	$(BIN)/python -m pytest -m faults $(ARGS)

# Every program of a run lowered for a GPU and a TPU, on a machine that has neither; and what holds
# for seeds and devices, of every learner.
test-lowering: $(READY)
	$(BIN)/python -m pytest -m "lowering or not lowering" tests/devices/test_lowering.py tests/devices/test_mesh.py \
	  tests/devices/test_accelerator_choices.py tests/devices/test_precision.py tests/training/test_memory.py \
	  tests/test_seed_laws.py $(ARGS)

# The report in a real browser: installs Debian's where there is none. REPORT=page.html opens that one.
test-report: $(READY)
	@command -v chromedriver >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver; } >/dev/null
	$(BIN)/python -m pytest -m browser tests/commands/test_report_browser.py $(ARGS)

# The page of an agent in a real browser, installed as above.
test-page: $(READY)
	@command -v chromedriver >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver; } >/dev/null
	$(BIN)/python -m pytest -m browser tests/web $(ARGS)

# The explorers that `collect` plays, trained again from nothing: hours on two cores.
explorers: $(READY)
	$(BIN)/python -m experiments.explorers --domain=cheetah
	$(BIN)/python -m experiments.explorers --domain=walker --kept=12
	$(BIN)/python -m experiments.explorers --domain=quadruped --episodes=1024 --kept=3

# The agents that ship, made again from scratch, with the scores of five seeds, each on data of its
# own: two hours on one core.
agents: $(READY)
	for domain in cheetah walker quadruped; do \
	  for seed in 0 1 2 3 4; do \
	    $(BIN)/python -m experiments.run --config=configs/$${domain}_fb_btd.py:laptop \
	      --workdir=runs/agents/$${domain}_$$seed --config.seed=$$seed --config.data.seed=$$seed \
	      --config.evaluate.seed=2026 $(ARGS) || exit 1; \
	  done; \
	  of="runs/agents/$$domain"; \
	  $(BIN)/python -m experiments.agents $${of}_0 --results=$${of}_1,$${of}_2,$${of}_3,$${of}_4 \
	    || exit 1; \
	done

# Studies as jobs of a real SLURM, one node on this machine (Debian, root): installed where it is missing.
test-slurm: $(READY)
	.ci/slurm.sh $(BIN)/python -m pytest -m slurm tests/commands/test_slurm.py $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation site, into site/. A broken link or a missing name is an error.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "docs: open site/index.html"

$(DOCS): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $(DOCS)

# Ten minutes on a GPU or TPU (make check-accelerator EXTRAS=dev,cuda): prints a block for an issue.
check-accelerator: $(READY)
	$(BIN)/python -m experiments.bench accelerator $(ARGS)

bench: $(READY)
	$(BIN)/python -m experiments.bench $(NAME) $(ARGS)

clean:
	rm -rf $(VENV)
