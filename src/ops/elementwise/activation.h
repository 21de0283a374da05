// Activation functions that other ops name in an attribute: recurrent cells, fused convolutions.
#pragma once

#include <optional>
#include <string_view>

#include "te/expr.h"

namespace xyntra {

struct Activation {
  te::Expr (*apply)(te::Expr x, float alpha, float beta) = nullptr;
  int parameters = 0;  // how many of alpha and beta it uses
  float alpha = 0, beta = 0;

  bool operator==(const Activation&) const = default;
  te::Expr operator()(te::Expr x) const { return apply(std::move(x), alpha, beta); }
};

// By ONNX's name, without regard to case, with its default alpha and beta.
std::optional<Activation> activation_named(std::string_view name);

}  // namespace xyntra
