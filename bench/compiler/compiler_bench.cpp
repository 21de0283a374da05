// Time from an imported graph to its plan: rewriting, grouping, schedules, layouts, memory and its verifier, on one core.
//
//   ninja xyntra_compiler_bench && ./xyntra_compiler_bench build/zoo/*.onnx
#include <benchmark/benchmark.h>

#include <filesystem>
#include <iostream>

#include "compiler/pipeline.h"
#include "frontends/onnx/import.h"

namespace xyntra {
namespace {

void plan(benchmark::State& state, const std::string& path) {
  auto module = import_onnx(path);
  if (!module) {
    state.SkipWithError(module.error().to_string().c_str());
    return;
  }
  CompileOptions options;
  options.target = *find_target("avx512");
  std::size_t groups = 0;
  for (auto _ : state) {
    auto made = make_plan(module->graph, options);
    if (!made) {
      state.SkipWithError(made.error().to_string().c_str());
      return;
    }
    groups = made->groups.size();
  }
  state.counters["nodes"] = static_cast<double>(module->graph.node_count());
  state.counters["groups"] = static_cast<double>(groups);
}

}  // namespace
}  // namespace xyntra

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc < 2) {
    std::cerr << "usage: xyntra_compiler_bench MODEL.onnx...\n";
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    std::string path = argv[i];
    benchmark::RegisterBenchmark(std::filesystem::path(path).stem().c_str(), [path](benchmark::State& state) {
      xyntra::plan(state, path);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
