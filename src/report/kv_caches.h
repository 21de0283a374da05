// Memory to donate to runs that are measured: of inputs that a result extends, with room for it.
#pragma once

#include "runtime/executable.h"

namespace xyntra {

class KvCaches {
 public:
  // With the rows that the inputs have; each run appends the same rows.
  static Result<KvCaches> of(const LaunchProgram& program, std::span<const Datum> inputs);

  // Their memory is as the last run left it.
  Result<std::vector<Datum>> run(RunContext& context, std::span<const Datum> inputs,
                                 std::vector<LaunchTime>* times = nullptr);

 private:
  std::vector<Tensor> memory_;
  std::vector<DonatedInput> donated_;
};

}  // namespace xyntra
