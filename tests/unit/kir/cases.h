// The kernels of tests/kir with sizes, arguments and the results they must give.
#pragma once

#include <functional>

#include "unit/kir/sim/sim_testing.h"

namespace xyntra::kir {

struct Case {
  std::string file;  // in tests/kir, without .kir
  SymbolBindings sizes;
  std::function<Arguments()> arguments;
  std::function<std::string(const Arguments&)> wrong;  // what is wrong with the results, or ""
};

// One entry per kernel and size; sizes that end on an edge and sizes that do not.
const std::vector<Case>& cases();

std::string kernel_text(const std::string& file);

}  // namespace xyntra::kir
