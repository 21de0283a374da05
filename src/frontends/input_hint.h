// What a caller says of an input that a model file does not: TorchScript says neither shapes nor dtypes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "support/result.h"
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

// What is known of an input of this name, so far nothing where it is new.
InputHint& hint_of(std::vector<InputHint>& hints, const std::string& name);

// Each adds what one text says of an input: "x=1x128", "ids=i64", "rate=16000". Of values, true and false are truth values, what has the
// form of a number is one, the rest is a string. `source` begins an error: "--shape ", "inputs: ".
Status add_shape(std::vector<InputHint>& hints, const std::string& text, std::string_view source);
Status add_dtype(std::vector<InputHint>& hints, const std::string& text, std::string_view source);
Status add_value(std::vector<InputHint>& hints, const std::string& text, std::string_view source);
// "x=f32[1, 128]" of a tensor, "rate=16000" of anything else.
Status add_input(std::vector<InputHint>& hints, const std::string& text, std::string_view source);

}  // namespace xyntra
