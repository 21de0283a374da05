// Models in which sizes decide the way: exporters write an If that asks whether some axis has one turn. What comes after it
// has no rank before the model runs, so no kernel can be made for it. Once the sizes of the inputs are seen, the branch is
// known, and the model is compiled again for just these sizes. A few sizes are kept; any other runs the general program.
#pragma once

#include <map>
#include <mutex>

#include "compiler/compiled/cpu_backend.h"
#include "compiler/pipeline.h"

namespace xyntra {

class Specialiser {
 public:
  static constexpr std::size_t kMost = 4;  // sizes

  // Whether there is anything to gain.
  static bool wanted(const Plan& plan);

  // The graph must outlive it; `general` is the plan for any sizes.
  Specialiser(const Graph& graph, const Plan& general, CompileOptions compiling, CpuOptions cpu);

  // The model for inputs of these sizes, compiled when they are first seen; null where the general one serves. May be
  // called from several threads.
  std::shared_ptr<const CompiledModel> for_sizes(const SymbolBindings& sizes);

 private:
  Result<std::shared_ptr<const CompiledModel>> compile(const SymbolBindings& sizes) const;

  const Graph& graph_;
  std::ptrdiff_t general_calls_;  // of the host
  CompileOptions compiling_;
  CpuOptions cpu_;
  std::mutex mutex_;
  std::map<SymbolBindings, std::shared_ptr<const CompiledModel>> made_;
};

}  // namespace xyntra
