// What classifiers and regressors of ai.onnx.ml do with their scores last.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/op.h"

namespace xyntra {

enum class ScoreTransform : std::uint8_t { None, Logistic, Softmax, SoftmaxZero, Probit };

Result<ScoreTransform> score_transform(const OpContext& c, std::string_view name);  // "SOFTMAX_ZERO"

double logistic(double score);
double probit(double score);
// Over the scores of one row.
void transform_scores(ScoreTransform transform, std::span<double> scores);

}  // namespace xyntra
