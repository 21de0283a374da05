// Stages that store a part of another stage's result a second time, somewhere else: the new keys and values of a product that
// makes queries, too, in the caches that they extend. Whoever stores an element of the result stores it there as well.
#pragma once

#include <vector>

#include "te/formula.h"

namespace xyntra {

// Whether `stage` only copies a part of what `main`, a stage before it, makes for a caller or another group.
bool repeats_part(const te::Formula& formula, const te::Stage& main, const te::Stage& stage);

// Takes such stages out of the formula.
std::vector<te::Stage> take_repeated_parts(te::Formula& formula);

}  // namespace xyntra
