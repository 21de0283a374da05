#include "ops/classical/score_transform.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace xyntra {
namespace {

constexpr std::array<std::pair<std::string_view, ScoreTransform>, 5> kNames = {{
    {"NONE", ScoreTransform::None},
    {"LOGISTIC", ScoreTransform::Logistic},
    {"SOFTMAX", ScoreTransform::Softmax},
    {"SOFTMAX_ZERO", ScoreTransform::SoftmaxZero},
    {"PROBIT", ScoreTransform::Probit},
}};

// Winitzki's approximation, which is what the operators mean: others have it with the same constant.
double inverse_error_function(double x) {
  constexpr double kA = 0.147, kPi = 3.14159265358979323846;
  const double log = std::log((1 - x) * (1 + x));
  const double half = 2 / (kPi * kA) + log / 2;
  return std::copysign(std::sqrt(-half + std::sqrt(half * half - log / kA)), x);
}

// Scores of zero mean a class without votes, and stay zero.
void softmax(std::span<double> scores, bool keep_zeros) {
  constexpr double kZero = 1e-7;
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) {
    const bool zero = keep_zeros && std::abs(score) <= kZero;
    score = zero ? score * std::exp(-largest) : std::exp(score - largest);
    if (!zero) sum += score;
  }
  for (double& score : scores) score /= sum;
}

}  // namespace

Result<ScoreTransform> score_transform(const OpContext& c, std::string_view name) {
  const auto* row =
      std::find_if(kNames.begin(), kNames.end(), [name](const auto& entry) { return entry.first == name; });
  if (row == kNames.end())
    return c.fail("post_transform is not one of NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO, PROBIT");
  return row->second;
}

double logistic(double score) {
  const double upper = 1 / (1 + std::exp(-std::abs(score)));
  return score < 0 ? 1 - upper : upper;
}

double probit(double score) { return std::sqrt(2.0) * inverse_error_function(2 * score - 1); }

void transform_scores(ScoreTransform transform, std::span<double> scores) {
  switch (transform) {
    case ScoreTransform::None: return;
    case ScoreTransform::Logistic:
      for (double& score : scores) score = logistic(score);
      return;
    case ScoreTransform::Softmax:
      if (!scores.empty()) softmax(scores, false);
      return;
    case ScoreTransform::SoftmaxZero:
      if (!scores.empty()) softmax(scores, true);
      return;
    case ScoreTransform::Probit:
      for (double& score : scores) score = probit(score);
      return;
  }
}

}  // namespace xyntra
