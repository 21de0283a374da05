# The same names as in the Makefile: just fuse resnet.onnx
default:
    @just --list

# build the command and run a model
fuse model="":
    @make --no-print-directory fuse {{ if model == "" { "" } else { "MODEL=" + quote(model) } }}

# everything CI runs
test:
    @make --no-print-directory test

# all that runs as shaders on a real adapter, with a table
test-gpu:
    @make --no-print-directory test-gpu

# what needs torch: the torch.compile backend and imports, against eager torch
test-torch:
    @make --no-print-directory test-torch

# git hooks, compile_commands.json, formatter and linter
dev:
    @make --no-print-directory dev

# time and peak memory of the bundled models
bench:
    @make --no-print-directory bench

# the tables of the pages and the chart of the README, from bench/results
bench-report:
    @make --no-print-directory bench-report

# format, layers, clang-tidy, unsafe buffer usage
check:
    @make --no-print-directory check

# run every fuzz target for some seconds each
fuzz seconds="60":
    @make --no-print-directory fuzz SECONDS_EACH={{ seconds }}

# the ONNX backend tests against the checked-in list
conformance:
    @make --no-print-directory conformance

# shaders in every way they can be made: all conformance tests and models
shaders:
    @make --no-print-directory shaders

# every operator against ONNX Runtime on 50 random cases
random:
    @make --no-print-directory random

# CASES models that are wrong on purpose, from SEED
hostile:
    @make --no-print-directory hostile

# random graphs of every operator against ONNX Runtime and ONNX's reference
attack cases="20000" seed="2" backends="cpu,sim,reference" fallbacks="fail":
    @make --no-print-directory attack CASES={{ cases }} SEED={{ seed }} BACKENDS={{ backends }} FALLBACKS={{ fallbacks }}

# CASES random graphs from SEED: fused and rewritten ones give what the reference gives
graphs:
    @make --no-print-directory graphs

# the models inside magika, silero-vad and rapidocr against ONNX Runtime
packages:
    @make --no-print-directory packages

# make test under AddressSanitizer and UndefinedBehaviorSanitizer
asan:
    @make --no-print-directory asan

# make test under ThreadSanitizer
tsan:
    @make --no-print-directory tsan

# a build without LLVM runs artifacts and shaders, and says what it cannot do
no-llvm:
    @make --no-print-directory no-llvm

# self-contained wheels in build/wheel
wheel pythons="":
    @make --no-print-directory wheel PYTHONS={{ quote(pythons) }}

# what make wheel builds: what it needs, and what it does in fresh environments
test-wheel pythons="":
    @make --no-print-directory test-wheel PYTHONS={{ quote(pythons) }}

# measure the math functions over all floats
math-sweep functions="":
    @make --no-print-directory math-sweep FUNCTIONS="{{ functions }}"

# list the targets
help:
    @make --no-print-directory help
