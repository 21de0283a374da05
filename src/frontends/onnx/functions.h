// The functions a model brings along. They are inlined where they are called, so what could make that
// endless or enormous (recursion, calls nested too deep, doubling in every layer) is refused before it starts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "frontends/onnx/wire.h"
#include "support/result.h"

namespace xyntra::onnx {

// "" and "ai.onnx" are one domain.
inline std::string_view canonical_domain(std::string_view domain) {
  return domain == "ai.onnx" ? "" : domain;
}

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
