// Sizes as torch.export writes them: sympy's srepr ("Mul(Integer(5), Symbol('s77', positive=True, integer=True))"), or infix
// ("5*s77") in older archives.
#pragma once

#include <optional>
#include <string_view>

#include "types/dim.h"

namespace xyntra::pt2 {

// Nothing where the text is none of these, or has a function that sizes here do not have.
std::optional<Dim> parse_size_expression(std::string_view text);

}  // namespace xyntra::pt2
