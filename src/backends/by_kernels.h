// A model that runs as kernels: of machine code, or of a driver.
#pragma once

#include "backends/backend.h"
#include "compiler/lower_plan.h"

namespace xyntra {

class Specialiser;

// `specialiser`: sizes that decide a branch get programs of their own; null: nothing is gained by it.
std::unique_ptr<ModelRunner> run_by_kernels(const Graph& graph, const RunSettings& settings,
                                            CompiledModel compiled,
                                            std::shared_ptr<Specialiser> specialiser = nullptr);

LowerOptions lower_options(const RunSettings& settings);

}  // namespace xyntra
