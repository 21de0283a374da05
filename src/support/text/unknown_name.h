// What is said where somebody names something that there is not: what there is, and what they may have meant.
//
//     error: there is no backend 'cup'; there are reference, float64, fused, sim, cpu, wgsl, ptx
//       hint: did you mean 'cpu'?
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "support/error.h"

namespace xyntra {

// A Usage error. `what` is the kind of thing ("backend"); where there are more of them than fit in a sentence,
// `lists_them` ("xyntra ops") stands for the list.
Error unknown_name(std::string_view what, std::string_view given, std::span<const std::string> known,
                   std::string_view lists_them = {});

}  // namespace xyntra
