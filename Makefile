# The front door. Everything here is also in the justfile, under the same names.
MODEL ?= $(firstword $(wildcard examples/models/*.onnx))
SECONDS_EACH ?= 60
CASES ?= 20000
SEED ?= 2
BACKENDS ?= cpu,sim,reference
FALLBACKS ?= fail
.PHONY: help fuse test test-gpu test-torch dev bench bench-report check fuzz conformance shaders graphs random packages hostile attack asan tsan math-sweep no-llvm wheel test-wheel clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' Makefile | while IFS='|' read -r name text; do printf '%-20s %s\n' "$$name" "$$text"; done

fuse: ## build the command and run a model: make fuse MODEL=resnet.onnx
	@scripts/setup build
	@scripts/fuse $(if $(MODEL),'$(MODEL)')

test: ## everything CI runs: some 20 minutes on two cores
	@scripts/setup test
	@scripts/build release
	@scripts/test --preset release

test-gpu: ## all that runs on a real GPU, as shaders or with BACKEND=ptx, with a table; ADAPTER=any SAMPLE=1/24 tries it on a software one
	@$(if $(filter no,$(XYNTRA_SETUP)),,scripts/setup build conformance wgpu && scripts/build release xyntra xyntra_link_command xyntra_graphs xyntra_codegen_tests)
	@scripts/test_gpu $(if $(BACKEND),--backend '$(BACKEND)') --adapter '$(or $(ADAPTER),gpu)' $(if $(SAMPLE),--sample '$(SAMPLE)') $(if $(JOBS),--jobs '$(JOBS)')

test-torch: ## what needs torch: the torch.compile backend and imports, against eager torch; installs torch into build/venv-torch
	@$(if $(filter no,$(XYNTRA_SETUP)),,scripts/setup build python && scripts/build release)
	@scripts/test_torch $(if $(PYTHON),--python '$(PYTHON)')

dev: ## git hooks, compile_commands.json, formatter and linter
	@scripts/setup build check
	@scripts/dev

bench: ## time and peak memory of the bundled models
	@scripts/setup build
	@scripts/build release
	@scripts/bench

bench-report: ## the tables of the pages and the chart of the README, from bench/results
	@bench/report --write
	@bench/report --check

check: ## format, layers, clang-tidy, unsafe buffer usage
	@scripts/setup build check
	@scripts/check

fuzz: ## run every fuzz target for SECONDS_EACH seconds
	@scripts/setup build fuzz conformance
	@scripts/build fuzz
	@scripts/fuzz $(SECONDS_EACH)

conformance: ## the ONNX backend tests against the checked-in list
	@scripts/setup build conformance
	@scripts/build release
	@scripts/conformance

shaders: ## shaders fused, unfused, portable and for CPUs: all conformance tests and models; models of packages
	@scripts/setup build conformance wgpu peers models
	@scripts/build release
	@scripts/test --lanes shader_ways

graphs: ## CASES random graphs from SEED: fused and rewritten ones give what the reference gives
	@scripts/setup build
	@scripts/build release xyntra_graphs
	@build/release/xyntra_graphs --all-targets --cases $(CASES) --seed $(SEED)

random: ## every operator against ONNX Runtime on 50 random cases
	@scripts/setup build conformance peers
	@scripts/build release
	@build/venv/bin/python tests/random/compare

packages: ## the models inside packages of PyPI and npm against ONNX Runtime
	@scripts/setup build conformance peers models
	@scripts/build release
	@build/venv/bin/python tests/packages/compare
	@build/venv/bin/python tests/packages/survey

hostile: ## CASES models that are wrong on purpose, from SEED
	@scripts/setup build conformance
	@scripts/build release
	@tests/hostile/sweep --cases $(CASES) --seed $(SEED)

attack: ## CASES random graphs of every operator from SEED against ONNX Runtime and ONNX's reference, on BACKENDS; FALLBACKS=count passes those that plainer forms serve
	@scripts/setup build conformance peers
	@scripts/build release xyntra xyntra_link_command
	@build/venv/bin/python tests/attack/attack --cases $(CASES) --seed $(SEED) --backends '$(BACKENDS)' --fallbacks $(FALLBACKS) --table

asan: ## make test under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/setup test
	@scripts/build asan
	@scripts/test --preset asan

tsan: ## make test under ThreadSanitizer
	@scripts/setup test
	@scripts/build tsan
	@scripts/test --preset tsan

no-llvm: ## a build without LLVM runs artifacts and shaders, and says what it cannot do
	@scripts/setup build
	@scripts/build release xyntra
	@scripts/build no-llvm xyntra
	@tests/no_llvm/run

wheel: ## self-contained wheels in build/wheel, for each Python here or for PYTHONS="python3.11 python3.12"
	@scripts/setup build wheel
	@scripts/wheel $(foreach python,$(PYTHONS),--python '$(python)') --sdist

test-wheel: wheel ## what make wheel built: what it needs, and what it does in fresh environments; the source distribution, compiled
	@tests/wheel/run build/wheel/*.whl
	@tests/wheel/sdist build/wheel/xyntra-*.tar.gz

math-sweep: ## measure the math functions over all floats: minutes to an hour
	@scripts/setup build
	@scripts/build release xyntra_math_sweep
	@build/release/xyntra_math_sweep $(FUNCTIONS)

clean: ## remove build/
	@rm -rf build
