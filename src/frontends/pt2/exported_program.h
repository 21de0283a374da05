// The JSON of an exported program → a program of ATen calls. The schema is that of torch/_export/serde/schema.py, of major
// version 8; names of its fields are used here as they stand there.
#pragma once

#include <string_view>

#include "frontends/aten/program.h"
#include "frontends/pt2/import.h"

namespace xyntra::pt2 {

struct ReadLimits {
  std::int64_t max_values = 4'000'000;
  std::int64_t max_nodes = 1'000'000;
  int max_nesting = 64;
};

Result<aten::Program> read_exported_program(std::string_view text, const TensorLookup& lookup,
                                            const ReadLimits& limits = {});

// torch's ScalarType as archives number it.
Result<DType> dtype_of_scalar_type(std::int64_t code);

}  // namespace xyntra::pt2
