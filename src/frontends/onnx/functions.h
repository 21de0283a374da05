// The functions a model brings along. They are inlined where they are called, so what could make that
// endless or enormous (recursion, calls nested too deep, doubling in every layer) is refused before it starts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "frontends/onnx/places.h"
#include "frontends/onnx/protobuf/wire.h"
#include "support/result.h"

namespace xyntra::onnx {

class FunctionTable {
 public:
  // `model` must outlive the table.
  static Result<FunctionTable> build(const Model& model, const WireLimits& limits);

  const Function* find(const Node& node) const;  // null: not a function of the model

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;  // domain, name, overload
  std::map<Key, const Function*> functions_;
};

}  // namespace xyntra::onnx
