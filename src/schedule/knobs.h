// Which values the knobs of a schedule may have. Kernels are right for all of them; which is fastest is for the planner to choose.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

struct LegalValues {
  std::int64_t least = 1, most = 1, step = 1;
  bool allow(std::int64_t value) const {
    return value >= least && value <= most && (value - least) % step == 0;
  }
};
std::string text_of(const LegalValues& values);  // "from 16 to 64 in steps of 16"

LegalValues legal_values(std::string_view knob, const te::Formula& formula, const Target& target);

}  // namespace xyntra
