# The usual ways in; everything is incremental. CMake's presets are behind them: cmake --preset release.
PYTHON := .venv/bin/python
BUILD := build/release
CPP := git ls-files '*.cpp' '*.h' '*.cuh'
export PYTHONPATH := $(CURDIR)/$(BUILD)/python
# Tests start hundreds of processes, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
# Objects of several checkouts are shared by ccache, so that -j is bounded by processors alone.
JOBS ?= $(shell nproc)

.PHONY: demo test bench format lint clean deps build site

demo: deps $(BUILD)/build.ninja ## train on handwritten digits
	cmake --build --preset release -j $(JOBS) --target smolder_python
	$(PYTHON) examples/digits.py

test: build ## C++ and Python tests
	ctest --preset release -j $(JOBS)
	$(PYTHON) -m pytest -n $(JOBS) --dist worksteal
	tools/cuda_host $(BUILD) $(PYTHON) -m pytest -q -n $(JOBS) tests/python/test_cuda.py tests/python/test_cuda_control_flow.py tests/python/test_cuda_operands.py tests/python/test_library_views.py tests/python/test_many_dimensions.py tests/python/test_fused_checks.py tests/python/test_cuda_kernels.py tests/python/test_cuda_short_rows.py tests/python/test_cuda_interpreter.py tests/python/test_cuda_fft.py -k "not a_row_is_on_the_device and not (test_library_views and cpu)"
	SMOLDER_TEST_DEVICE=cuda SMOLDER_CUDA_HOST_LATE=300 tools/cuda_host $(BUILD) $(PYTHON) -m pytest -q -n $(JOBS) tests/python/test_failed_steps.py
	SMOLDER_CUDA_HOST_DEVICES=3 tools/cuda_host $(BUILD) $(PYTHON) -m pytest -q -n $(JOBS) tests/python/test_cuda_devices.py tests/python/test_cuda_distributed.py

bench: build ## C++ benchmarks of every layer
	set -e; for b in $(BUILD)/bin/smolder_bench_*; do $$b --benchmark_counters_tabular=true; done

build: deps $(BUILD)/build.ninja
	cmake --build --preset release -j $(JOBS)

$(BUILD)/build.ninja: | deps
	cmake --preset release

deps:
	@tools/install_deps

SITE := build/site_env/requirements.installed
site: $(SITE) ## the documentation, as build/site/index.html
	build/site_env/bin/mkdocs build --strict --quiet

$(SITE): tools/site/requirements.txt
	python3 -m venv build/site_env
	build/site_env/bin/pip install --quiet --disable-pip-version-check -r $<
	cp $< $@

format: deps ## rewrites what the formatters would have otherwise
	$(CPP) | xargs clang-format-19 -i
	.venv/bin/ruff check --fix-only --quiet
	.venv/bin/ruff format --quiet

lint: build ## formatting, layering, includes, clang-tidy, ruff
	$(CPP) | xargs clang-format-19 --dry-run -Werror
	$(PYTHON) tools/check_layers
	$(PYTHON) tools/check_includes
	$(PYTHON) tools/tidy $(BUILD)
	.venv/bin/ruff check
	.venv/bin/ruff format --check

clean:
	rm -rf build
