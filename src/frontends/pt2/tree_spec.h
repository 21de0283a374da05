// The trees of inputs and outputs (torch.utils._pytree) as archives write them: what a leaf is called by the way to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xyntra::pt2 {

// {"o": a, "p": (b, c)} has the leaves "o", "p_0", "p_1"; a tuple of two "output_0" and "output_1", a single value "output", where
// `root` is "output". Empty where the text is not understood.
std::vector<std::string> leaf_names(std::string_view spec, const std::string& root);

}  // namespace xyntra::pt2
