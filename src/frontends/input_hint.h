// What a caller says of an input that a model file does not: TorchScript says neither shapes nor dtypes.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "types/dim.h"
#include "types/dtype.h"

namespace xyntra {

struct InputHint {
  std::string name;  // empty: the next input, in the order of the model
  std::optional<DType> dtype = std::nullopt;
  std::optional<Shape> shape = std::nullopt;
  // Of an input that is a number, a truth value or a string: the graph is made for this value.
  std::optional<std::variant<bool, std::int64_t, double, std::string>> value = std::nullopt;
};

}  // namespace xyntra
