// Runs a formula whose sizes are all constant.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "interp/program.h"
#include "support/limits/threads.h"

namespace xyntra::interp {

// A formula with all its stages compiled; reusable for operands of the same shapes.
class CompiledFormula {
 public:
  static Result<CompiledFormula> compile(te::Formula formula, Mode mode);

  // Results by output position; an output nobody asked for is an undefined tensor. In float64 mode operands
  // and results that are floats have dtype f64.
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, std::size_t output_count, ThreadPool& pool,
                                  const std::shared_ptr<Budget>& budget) const;

 private:
  struct CompiledStage {
    StageProgram program;  // MapReduce, Scatter
    std::int64_t steps = 0;  // Scan
    std::vector<te::Carried> carried;  // Scan
    std::vector<StageProgram> programs;  // Scan
    bool is_scan = false;
  };

  te::Formula formula_;
  bool float64_ = false;
  std::vector<CompiledStage> stages_;
};

}  // namespace xyntra::interp
