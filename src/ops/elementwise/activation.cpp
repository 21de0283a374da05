#include "ops/elementwise/activation.h"

#include <algorithm>
#include <cctype>

namespace xyntra {
namespace {

using te::Expr;

struct Named {
  std::string_view name;
  Activation activation;
};

Expr zero_of(const Expr& x) { return Expr::number(x.dtype(), 0); }
Expr number(const Expr& x, float value) { return Expr::number(x.dtype(), value); }

const Named kActivations[] = {
    {"relu", {[](Expr x, float, float) { return select(x < zero_of(x), zero_of(x), x); }}},
    {"tanh", {[](Expr x, float, float) { return tanh(x); }}},
    {"sigmoid", {[](Expr x, float, float) { return sigmoid(x); }}},
    {"silu", {[](Expr x, float, float) { return x * sigmoid(x); }}},
    {"affine", {[](Expr x, float a, float b) { return number(x, a) * x + number(x, b); }, 2, 1, 0}},
    {"leakyrelu",
     {[](Expr x, float a, float) { return select(x < zero_of(x), number(x, a) * x, x); }, 1, 0.01F, 0}},
    {"thresholdedrelu",
     {[](Expr x, float a, float) { return select(x > number(x, a), x, zero_of(x)); }, 1, 1, 0}},
    {"scaledtanh", {[](Expr x, float a, float b) { return number(x, a) * tanh(number(x, b) * x); }, 2, 1, 1}},
    {"hardsigmoid",
     {[](Expr x, float a, float b) {
        return max(min(number(x, a) * x + number(x, b), number(x, 1)), zero_of(x));
      },
      2, 0.2F, 0.5F}},
    {"elu",
     {[](Expr x, float a, float) { return select(x < zero_of(x), number(x, a) * expm1(x), x); }, 1, 1, 0}},
    {"softsign", {[](Expr x, float, float) { return x / (number(x, 1) + abs(x)); }}},
    // log(1 + exp(x)) without overflow
    {"softplus", {[](Expr x, float, float) { return max(x, zero_of(x)) + log1p(exp(-abs(x))); }}},
    {"clip", {[](Expr x, float low, float high) { return max(min(x, number(x, high)), number(x, low)); }, 2}},
};

}  // namespace

std::optional<Activation> activation_named(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Named& one : kActivations) {
    if (one.name == lower) return one.activation;
  }
  return std::nullopt;
}

}  // namespace xyntra
