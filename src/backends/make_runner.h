// A model made ready to run on one of the backends, by name.
#pragma once

#include "backends/backend.h"

namespace xyntra {

// On a backend that runs plans, one for its own target, with costs counted at the nominal sizes; the graph as it is written elsewhere.
// `precision` and `donated` are those of CompileOptions. The graph must outlive the runner.
MadeRunner make_runner(const Graph& graph, std::string_view backend, EvaluatorOptions options,
                       const SymbolBindings& nominal = {}, const ObjectCache& cache = ObjectCache::off(),
                       Precision precision = Precision::F32, const ShaderOptions& shaders = {},
                       const std::vector<std::string>& donated = {});
// The same with a plan made by these options, on a backend that runs plans.
MadeRunner make_runner(const Graph& graph, std::string_view backend, EvaluatorOptions options,
                       const CompileOptions& compile, const ObjectCache& cache, const ShaderOptions& shaders);
// The same with a plan that was made of this graph before.
MadeRunner make_runner(const Graph& graph, const Plan& plan, std::string_view backend,
                       EvaluatorOptions options, const ObjectCache& cache = ObjectCache::off(),
                       const ShaderOptions& shaders = {});

}  // namespace xyntra
