// Keys of tables that hold each distinct thing once: two things are the same exactly when their keys are.
#pragma once

#include <array>
#include <bit>
#include <string>

#include "types/tensor.h"

namespace xyntra {

template <class Number>
void append_number(std::string& key, Number number) {
  for (const char byte : std::bit_cast<std::array<char, sizeof(Number)>>(number)) key += byte;
}

// Small constants are the same when their contents are, large ones when they lie at the same place.
std::string content_key(const Tensor& tensor);

}  // namespace xyntra
