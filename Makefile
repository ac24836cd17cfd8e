# Nearmetal's commands; `make` lists them. See README.md.
.DEFAULT_GOAL := help
LAB := .venv/bin/python -m nearmetal.lab
SYSTEM ?= lab
# A build ends, and removes what it began, where make is killed.
WITH_MAKE := setpriv --pdeathsig TERM
# Root leaves no byte code in the checkout of somebody else.
ifneq ($(shell id -u),$(shell stat -c %u .))
export PYTHONDONTWRITEBYTECODE := 1
endif

.PHONY: help docs-coverage docs-reference demo campaign test test-ci test-whole test-all unit lab-up lab-status lab-shell lab-exec lab-down lab-clean bench-gate bench-fleet bench-kernels bench-evidence bench-stored bench-large drill lock \
        spack-check spack-lock spack-cache spack-mirror images images-lock release-check aws-check versions lint lint-python lint-types lint-imports lint-c lint-shell lint-yaml format \
        docs docs-links pictures

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# A taste of each check: what fits into ten minutes on two cores, image and all. Java warms up for too long, and STREAM's
# ten passes take long where the cache is large. By names, not by a tag: the gate notices a missing case only if it can
# evaluate the selection. `make campaign` is everything.
DEMO = tcp|pingpong|osnoise|stream%binding=bound|npb%benchmark=(cg|ep|mg)|hpcc%page_size=small

demo: lab-up ## start the lab, measure both MPIs on its three kinds of link, print the comparison and the report's place
	@$(LAB) exec 'reframe -c reframe_checks -r --system $(SYSTEM) -n "^($(DEMO))" -p "^(openmpi|mpich|gnu)$$" -S repeats=3 -S stream.ntimes=4'; ran=$$?; \
	    .venv/bin/nearmetal compare --system $(SYSTEM); told=$$?; \
	    .venv/bin/nearmetal report --system $(SYSTEM); wrote=$$?; \
	    exit $$((ran ? ran : told ? told : wrote))

campaign: lab-up ## everything on SYSTEM (default: lab), with progress and an estimate of the time left
	@$(LAB) exec 'reframe -c reframe_checks -r --system $(SYSTEM)' | .venv/bin/nearmetal progress --system $(SYSTEM)

# Stages, what is in each and what is left out: tests/stages.py.
STAGES = @sh nearmetal/lab/host.sh test-packages.txt && .venv/bin/python -m tests.stages
test test-ci test-whole test-all: export PYTEST := $(value PYTEST)

test: .venv/ready ## lint, and the tests of every change (13 minutes); PYTEST='-k drained' some
	$(STAGES) test

test-ci: .venv/ready ## a fixed part of what `make test` leaves out: continuous integration runs both (25 minutes)
	$(STAGES) ci

test-whole: .venv/ready .venv/aws/ready ## all that `make test` leaves out: whole selections, guests, images, all faults, a drill
	$(STAGES) whole

test-all: .venv/ready .venv/aws/ready ## `make test` and `make test-whole`: for a release, and where an issue is resolved
	$(STAGES) test whole

unit: .venv/ready ## only the tests that start no other program for long (a minute)
	@.venv/bin/python -m pytest -n auto -m "not whole" $(PYTEST) tests/unit

# Each tool is one target, so that `make -k lint` goes on after the first finding. Caches stay out of the checkout.
LINT := .venv/lint/bin
export RUFF_CACHE_DIR := .venv/lint/ruff
export MYPY_CACHE_DIR := .venv/lint/mypy
TRACKED = git -c safe.directory='*' ls-files -z --
CURLY = $(TRACKED) '*.c' '*.h' '*.java' '*.js'

lint: lint-python lint-types lint-imports lint-c lint-shell lint-yaml ## layout, style, types and imports of all code, by tools of pinned versions

# Checks, `init` and `doctor` run with Python 3.9 too: it evaluates `X | Y` in annotations, unless a module postpones them.
ON_CLUSTER = nearmetal reframe_checks
# Of these all names of the standard library are held against Python 3.9.
RUNNING = $(addprefix nearmetal/,checks cluster doctor expectations init job results site) reframe_checks
lint-python: .venv/lint/ready
	@$(LINT)/ruff format --check .
	@$(LINT)/ruff check --quiet .
	@$(LINT)/ruff check --quiet --isolated --select FA102 --target-version py39 $(ON_CLUSTER)
	@$(LINT)/vermin --target=3.9- --violations --no-tips --quiet $(RUNNING)

lint-types: .venv/lint/ready
	@$(LINT)/mypy

lint-imports: .venv/lint/ready
	@$(LINT)/lint-imports --cache-dir .venv/lint/imports > .venv/lint/imports.log || { cat .venv/lint/imports.log >&2; exit 1; }

lint-c: .venv/lint/ready
	@$(CURLY) | xargs -0 $(LINT)/clang-format --dry-run --Werror

# These are templates, which a shell cannot read before Jinja has.
lint-shell: .venv/lint/ready
	@$(TRACKED) '*.sh' .ci/run '*/guest/init' ':!*/templates/profile.sh' ':!nearmetal/job/script.sh' | xargs -0 $(LINT)/shellcheck

lint-yaml: .venv/lint/ready
	@$(TRACKED) '*.yaml' '*.yml' | xargs -0 $(LINT)/yamllint --strict

format: .venv/lint/ready ## lay out Python, C, Java and JavaScript as `make lint` wants it
	@$(LINT)/ruff format --quiet .
	@$(CURLY) | xargs -0 $(LINT)/clang-format -i

# VM=virtio and so on, VM_PIN=yes, VM_CPUS=4: `.venv/bin/python -m nearmetal.lab up --help` says what they are.
VM_ARGUMENTS = $(if $(VM),--vm '$(VM)') $(foreach name,guests switches cpus memory-mb pin huge-pages accelerator,$\
    $(if $(VM_$(call upper,$(name))),--vm-$(name) '$(VM_$(call upper,$(name)))'))
upper = $(shell echo '$(1)' | tr a-z- A-Z_)

lab-up: .venv/ready ## start the virtual cluster, or heal it; VM=virtio, e1000e, ...: with virtual machines; NODES=16: with a fleet (see docs/lab.md)
	@$(LAB) up $(if $(NODES),--nodes '$(NODES)') $(VM_ARGUMENTS)

lab-status: .venv/ready ## its nodes, what Slurm says, and faults of links, daemons and jobs
	@$(LAB) status

lab-shell: .venv/ready ## a login shell on it
	@$(LAB) shell

lab-exec: .venv/ready ## one command line on it: make lab-exec CMD='sinfo'
	@$(LAB) exec '$(subst ','\'',$(value CMD))'

lab-down: .venv/ready ## end it; results/ and the node image stay
	@$(LAB) down

lab-clean: lab-down ## end it and remove the node images as well
	@$(LAB) clean

bench-kernels: .venv/ready ## our NPB kernels' speed and memory, and with BENCH='--official DIR --imb FILE' beside the official ones' (needs an MPI on PATH)
	@.venv/bin/python -m bench.kernels $(BENCH)

bench-evidence: .venv/ready ## what recording evidence costs our ping-pong and CG, in pairs; BENCH='--pairs 30 --class W' (needs an MPI on PATH)
	@.venv/bin/python -m bench.evidence $(BENCH)

bench-stored: .venv/ready ## bytes of each session in DATABASE, with evidence and without
	@.venv/bin/python -m bench.stored '$(or $(DATABASE),results/results.db)'

bench-large: .venv/ready ## seconds and memory of the commands on large databases
	@.venv/bin/python -m bench.large

bench-gate: .venv/ready ## how often the gate errs: what it finds, and false alarms, by simulation (a quarter of an hour); BENCH=--all: all tables (an hour)
	@.venv/bin/python -m bench $(BENCH)

bench-fleet: .venv/ready ## how often a sweep of a fleet errs: faults found and named, false alarms, time, by simulation
	@.venv/bin/python -m bench.fleet $(FLEET)

drill: lab-up ## regressions introduced for real in the lab, one at a time: does the gate find each, and nothing else? (an hour)
	@.venv/bin/python -m bench.drill $(DRILL)

SPACK ?= $(shell command -v spack)

spack-check: .venv/ready ## do Spack's environments, locks and recipes agree? Asks SPACK too, where there is one
	@.venv/bin/python -m nearmetal.locks.spack $(if $(SPACK),--spack '$(SPACK)')

spack-lock: .venv/ready ## write the locks of spack-env anew by SPACK (default: spack), and say what changed; SITE=DIRECTORY: a site's own, there; TARGET=neoverse_v1: for a processor
	@.venv/bin/python -m nearmetal.locks.spack --spack '$(or $(SPACK),spack)' $(if $(TARGET),--target '$(TARGET)') $(if $(SITE),--into '$(SITE)' $(ENVIRONMENTS:%=--environment %),--write)

spack-cache: .venv/ready ## install the locks of spack-env by SPACK, and put the binaries into the build cache CACHE (hours; ENVIRONMENTS='openmpi' some; SITE=DIRECTORY a site's own locks)
	@.venv/bin/python -m nearmetal.locks.spack_cache --spack '$(or $(SPACK),spack)' $(if $(SITE),--site '$(SITE)') $(if $(CACHE),--cache '$(CACHE)') $(ENVIRONMENTS)

spack-mirror: .venv/ready ## fill DIRECTORY with sources for Spack out of Debian's source packages, for machines without the internet
	@.venv/bin/python -m nearmetal.locks.spack_mirror '$(or $(DIRECTORY),results/spack-mirror)'

images: .venv/ready ## build the Apptainer images of containers/ and hold their stacks against the lock (five minutes; IMAGES='openmpi mpich' some; SOFTWARE=spack by Spack)
	@$(WITH_MAKE) .venv/bin/python -m nearmetal.locks.images $(if $(SOFTWARE),--software '$(SOFTWARE)') $(IMAGES)

images-lock: .venv/ready ## build them and write containers/images.lock anew, saying what changed
	@$(WITH_MAKE) .venv/bin/python -m nearmetal.locks.images --lock $(if $(SOFTWARE),--software '$(SOFTWARE)') $(IMAGES)

# All of it, whatever is wrong with a part: exit code 1 if anything is.
release-check: .venv/ready ## are the locks of Spack and of the images of this checkout? Asks SPACK too, where there is one
	@bad=0; \
	    .venv/bin/python -m nearmetal.locks.images --check || bad=1; \
	    .venv/bin/python -m nearmetal.locks.spack $(if $(SPACK),--spack '$(SPACK)') || bad=1; \
	    exit $$bad

aws-check: .venv/aws/ready ## is site-config/aws/cluster.yaml, or FILE, a cluster as ParallelCluster takes it and ec2.yaml says?
	@.venv/aws/bin/python -m nearmetal.aws $(if $(FILE),'$(FILE)')

# A dead link is a warning, and a warning fails.
SPHINX = .venv/docs/bin/python -m sphinx --nitpicky --fail-on-warning --keep-going --quiet --fresh-env

docs: .venv/docs/ready ## build the documentation into docs/_build; a dead link fails
	@$(SPHINX) docs docs/_build
	@echo "open docs/_build/index.html"

docs-coverage: .venv/ready ## write docs/coverage.md: what the documents measured, and what measures it here
	@.venv/bin/python -m docs.coverage

docs-reference: .venv/ready ## write docs/keys.md and docs/commands.md: the keys of a system's file, the options of the commands
	@.venv/bin/python -m docs.reference

docs-links: .venv/docs/ready ## do links to other sites still answer? (needs the internet)
	@$(SPHINX) --builder linkcheck docs docs/_build/links

pictures: .venv/ready ## draw README's pictures: the lab, and the report of the newest session (after `make demo`; needs Chromium)
	@.venv/bin/python -m docs.pictures

COMPILE = .venv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 pyproject.toml
lock: .venv/ready ## write every requirements*.lock anew, from pyproject.toml and the files requirements.in
	.venv/bin/python -m pip install --quiet uv
	$(COMPILE) --extra test --extra report --extra pages --extra parallel -o requirements.lock
	$(COMPILE) --extra test --extra report -o nearmetal/lab/requirements.lock
	$(COMPILE) --extra install --extra report --constraint requirements.lock -o requirements-login.lock
	$(COMPILE:pyproject.toml=) --group lint --constraint requirements.lock -o requirements-lint.lock
	.venv/bin/uv pip compile --quiet --generate-hashes --no-header --python-version 3.11 \
	    --overrides site-config/aws/overrides.txt site-config/aws/requirements.in -o site-config/aws/requirements.lock
	.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
	    docs/requirements.in -o docs/requirements.lock

# Root goes on as the owner of results, who must be able to run this Python: none below /root, where there is another.
FIT = /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'

# Everything Python lives here; the stamp is younger than what it was made from.
.venv/ready: requirements.lock pyproject.toml nearmetal/lab/host-packages.txt
	@sh nearmetal/lab/host.sh
	@echo "virtual environment: installing the locked packages into .venv"
	@python=python3; \
	    case $$(realpath "$$(command -v python3)") in /root/*) ! $(FIT) || python=/usr/bin/python3;; esac; \
	    $$python -m venv .venv
	@.venv/bin/python -m pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	@.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# ParallelCluster's schema stands apart: it wants an older tabulate than ours.
.venv/aws/ready: site-config/aws/requirements.lock | .venv/ready
	@echo "virtual environment: installing AWS ParallelCluster's schema into .venv/aws"
	@python3 -m venv .venv/aws
	@.venv/aws/bin/python -m pip install --quiet --require-hashes --no-deps --requirement site-config/aws/requirements.lock
	@touch $@

# The linters stand apart: nobody needs them to measure. mypy looks up the package's dependencies in .venv.
PACKAGES = -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
.venv/lint/ready: requirements-lint.lock | .venv/ready
	@echo "virtual environment: installing the linters into .venv/lint"
	@python3 -m venv .venv/lint
	@.venv/lint/bin/python -m pip install --quiet --require-hashes --no-deps --requirement requirements-lint.lock
	@.venv/bin/python $(PACKAGES) > "$$(.venv/lint/bin/python $(PACKAGES))/dependencies.pth"
	@touch $@

# Each ReFrame as on a login node, with what it does not bring: orjson, and in 4.7 Jinja2. 4.6 is refused.
# PYTHON may be python3.9; 4.10 needs 3.10.
VERSIONS := 4.6 4.7 4.8 4.9 4.10
PYTHON ?= python3
.venv/reframe-%/ready: | .venv/ready
	@$(if $(filter 4.10,$*),python3,$(PYTHON)) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet 'reframe-hpc==$*.*' jinja2 orjson
	@touch $@

versions: $(VERSIONS:%=.venv/reframe-%/ready) ## dry runs of all checks with each supported ReFrame (two minutes; PYTHON=python3.9)
	@.venv/bin/python -m pytest -n auto $(PYTEST) tests/host/test_versions.py

# The same for the lab's login node, whose Python may be another one than the host's.
LAB_PYTHON = $(shell sed -n 's/^PYTHON = "\(.*\)"/\1/p' nearmetal/lab/image.py)
.venv/lab-reframe-%/ready: | .venv/ready
	@.venv/bin/python -m pip install --quiet --upgrade --no-warn-conflicts --target $(@D) --only-binary=:all: --python-version $(LAB_PYTHON) \
	    $(foreach tag,2014 _2_17 _2_28,--platform manylinux$(tag)_$$(uname -m)) 'reframe-hpc==$*.*' jinja2 orjson
	@touch $@

# The documentation's tools: no user of the suite needs them.
.venv/docs/ready: docs/requirements.lock | .venv/ready
	@echo "virtual environment: installing Sphinx into .venv/docs"
	@python3 -m venv .venv/docs
	@.venv/docs/bin/python -m pip install --quiet --require-hashes --no-deps --requirement docs/requirements.lock
	@touch $@
