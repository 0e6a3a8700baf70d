# nova_lite: `make run` shows it, `make test` checks it. Both install what is missing first (as root, on Debian 12).

VENV ?= .venv
BIN := $(VENV)/bin
# libvirt boots real guests; fake needs no hypervisor
VIRT_DRIVER ?= libvirt
STATE ?= /var/lib/nova_lite
override STATE := $(abspath $(STATE))
PYTEST := $(BIN)/python -m pytest
RUN_OPTIONS ?=
# many containers set it. Each of the many processes of the tests would then compile again what it imports
unexport PYTHONDONTWRITEBYTECODE
# browsers find the guests' screens there; 0: nowhere
CONSOLE_PORT ?= 6080

.PHONY: help install install-run neighbours run stack down tempest scenario test unit functional integration chaos security walk guest-test ceph-test two-hosts cluster-test client-tours upgrade-test fuzz lint genconfig docs release-notes clean

help:
	@echo "make run          start a cloud on this machine, boot a guest, show its console (VIRT_DRIVER=fake: no guests)"
	@echo "make stack        a whole OpenStack on this machine: its neighbours and nova_lite (devstack/README.md)"
	@echo "make down         end that cloud for good: guests, libvirtd, DHCP, bridges"
	@echo "make test         all tests"
	@echo "make tempest      Tempest's tests of Compute on fake hosts, real Keystone, Glance, Neutron, Cinder (TEMPEST_OPTIONS)"
	@echo "make scenario     Tempest's scenarios with real guests on the cloud of make stack (SCENARIO_OPTIONS)"
	@echo "make unit | functional | integration | chaos | security    some of them"
	@echo "make walk         a random walk over all verbs while services are killed, 20 rounds (ROUNDS=5 SEED=7: that one again; GUESTS=real)"
	@echo "make guest-test   what takes long: each verb on real guests while each service is killed, each failure of each neighbour"
	@echo "make ceph-test    guests whose disks are in a Ceph pool, on a real one-node cluster of its own (installs Debian's packages)"
	@echo "make two-hosts   each verb, moves and kills on the cloud of devstack/local/stack.sh --hosts 2 (MIGRATIONS=100)"
	@echo "make cluster-test  clusters of RabbitMQ, MariaDB (Galera), PostgreSQL: each node fails while servers walk through all verbs"
	@echo "make client-tours  users' tools: openstacksdk, openstack, nova, Ansible, libcloud, gophercloud; on any cloud"
	@echo "make upgrade-test  a cloud of an older release, in the middle of everything, is upgraded (FROM=7e3bb42: a tag or commit)"
	@echo "make fuzz         schemathesis on every route of the API, for 20 minutes (MINUTES=5: for five)"
	@echo "make lint         ruff, mypy, import contracts, shellcheck"
	@echo "make genconfig    write etc/nova_lite/nova-lite.conf and policy.yaml again"
	@echo "make docs         write docs/operations.md again, from operations.md.in and the table of verbs"
	@echo "make release-notes  print what each release changes for its users"
	@echo "make clean        remove what make made"

install:
	@tools/install-deps.sh test $(VENV)

install-run:
	@tools/install-deps.sh run $(VENV)

run: install-run
ifeq ($(VIRT_DRIVER),fake)
	@exec $(BIN)/nova-lite-standalone --demo --virt-driver fake --state-path $(STATE) $(RUN_OPTIONS)
else
	@echo "Looking for the guest image; the first time it is built, from Debian packages ..."
	@image=$$($(BIN)/python -m tests.guest) && \
		exec $(BIN)/nova-lite-standalone --demo --virt-driver $(VIRT_DRIVER) --console-port $(CONSOLE_PORT) --image "$$image" --state-path $(STATE) $(RUN_OPTIONS)
endif

down:
	@tools/standalone-down.sh $(STATE)

stack:
	@devstack/local/stack.sh

# not part of `make test`: it takes half an hour. TEMPEST_OPTIONS="--keep servers.test_servers" (devstack/local/tempest.sh)
tempest:
	@devstack/local/tempest.sh $(TEMPEST_OPTIONS)

# nor is this one. SCENARIO_OPTIONS="--keep shelve" (devstack/local/scenario.sh)
scenario:
	@devstack/local/scenario.sh $(SCENARIO_OPTIONS)

# WORKERS=0 UNIT_WORKERS=0: one after the other. Each file is one worker's, and real guests are at most two's (tests/conftest.py);
# they wait more than they work, so there are more of them than cores, and more than of unit tests, which wait less
WORKERS ?= 5
UNIT_WORKERS ?= 4
BESIDE = $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# each part is run whatever became of the one before: one run tells all that is broken
test: install neighbours
	@failed=0; \
	$(PYTEST) -n $(UNIT_WORKERS) --dist worksteal tests/unit || failed=1; \
	$(BESIDE) tests/chaos tests/functional tests/integration tests/security || failed=1; \
	exit $$failed

# the programs of the real Keystone, Glance, Neutron, Cinder, which tests/integration start; not in the directory of a cloud
# that `make stack` has started
NEIGHBOURS ?= $(or $(NOVA_LITE_CACHE),$(HOME)/.cache/nova_lite)/neighbours
neighbours:
	@STACK_DIR=$(NEIGHBOURS) devstack/local/stack.sh --api-only --neighbours-only --install-only

unit: install
	$(PYTEST) -n $(UNIT_WORKERS) --dist worksteal tests/unit

integration: install neighbours

functional integration chaos security: install
	$(PYTEST) tests/$@

# `make test` takes three rounds of it, always the same ones; GUESTS=real: on two libvirt hosts, of which it takes none
ROUNDS ?= 20
SEED ?= random
GUESTS ?= fake
ifeq ($(GUESTS),real)
WALK = NOVA_LITE_GUEST_WALK_ROUNDS=$(ROUNDS) NOVA_LITE_WALK_SEED=$(SEED) $(PYTEST) -s tests/chaos/test_guest_walk.py
else
WALK = NOVA_LITE_WALK_ROUNDS=$(ROUNDS) NOVA_LITE_WALK_SEED=$(SEED) $(PYTEST) -s tests/chaos/test_walk.py
endif
walk: install
	$(WALK)

# not part of `make test`, which has to end within 20 minutes; each file by itself, as clouds of two hosts have the names of the process
guest-test: install neighbours
	@failed=0; for file in $$(grep -l 'pytest\.mark\.long' tests/integration/*.py tests/chaos/*.py); do \
		NOVA_LITE_LONG_TESTS=1 $(PYTEST) -m long $$file || failed=1; \
	done; exit $$failed

# not part of `make test`: it needs packages that nothing else needs
ceph-test: install
	@tools/install-ceph.sh
	$(PYTEST) tests/ceph

# not part of `make test`: it takes half an hour, on a cloud that is up. MIGRATIONS: how many of tests/two_hosts/test_many.py
MIGRATIONS ?= 10
two-hosts: install
	NOVA_LITE_TWO_HOSTS=1 NOVA_LITE_MIGRATIONS=$(MIGRATIONS) $(PYTEST) -s tests/two_hosts

# not part of `make test`: it takes half an hour, on clusters that it starts by devstack/local/cluster.sh
cluster-test: install
	NOVA_LITE_CLUSTER=1 $(PYTEST) -s tests/cluster

# on an embedded cloud of fake hosts; OS_CLIENT_CONFIG_FILE=... takes the cloud that is there. Installs the clients
client-tours: install
	$(PYTEST) -v tests/client_tours

# not part of `make test`: it installs the older release too, once
FROM ?= 7e3bb42
upgrade-test: install
	NOVA_LITE_UPGRADE_FROM=$(FROM) $(PYTEST) -s tests/upgrade

MINUTES ?= 20
fuzz: install
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

lint: install
	$(BIN)/ruff check nova_lite tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo pyproject.toml
	$(BIN)/shellcheck -x devstack/plugin.sh devstack/settings devstack/local/*.sh devstack/local/lib/*.sh
	@! grep -nE '^.{129}' README.md || { echo "README.md: these lines have more than 128 characters"; exit 1; }

genconfig: install
	$(BIN)/oslo-config-generator --config-file etc/nova_lite/config-generator.conf
	$(BIN)/oslopolicy-sample-generator --namespace nova_lite --output-file etc/nova_lite/policy.yaml

docs: install
	$(BIN)/python -m nova_lite.operations.document docs/operations.md.in > docs/operations.md.new
	mv docs/operations.md.new docs/operations.md

# what each release changes for its users; `reno new NAME` begins a note
release-notes: install
	@$(BIN)/reno -q lint
	@$(BIN)/reno -q report --no-show-source

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find nova_lite tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
