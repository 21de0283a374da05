// Formulas over buffers that are not row-major: a layout becomes arithmetic on indices.
#pragma once

#include "te/formula.h"
#include "types/layout.h"

namespace xyntra::te {

// The same formula with a buffer laid out so: its shape is the physical one, and so are the indices of its loads and
// stores.
void lay_out(Formula& formula, BufferId buffer, const Layout& layout);

// y = x with x row-major and y laid out so, or the other way round.
Formula relayout(DType dtype, const Shape& shape, const Layout& from, const Layout& to);

}  // namespace xyntra::te
