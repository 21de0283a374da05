// LinearClassifier: a score for each class, the class with the largest, and the scores transformed.
#include <algorithm>

#include "ops/classical/class_labels.h"
#include "ops/classical/score_transform.h"

namespace xyntra {
namespace {

struct Linear {
  std::vector<float> coefficients;  // one row of features for each target
  std::vector<float> intercepts;    // one for each target
  ClassLabels labels;
  ScoreTransform transform = ScoreTransform::None;

  // One target and two labels: its sign tells them apart.
  bool is_binary() const { return intercepts.size() == 1 && labels.size() == 2; }
  std::size_t scores() const { return is_binary() ? 2 : intercepts.size(); }
};

Result<Linear> read_linear(const OpContext& c) {
  Linear model{c.reals("coefficients"), c.reals("intercepts"), {}, {}};
  XYNTRA_TRY(model.labels, ClassLabels::read(c, "classlabels_ints", "classlabels_strings"));
  XYNTRA_TRY(model.transform, score_transform(c, c.text("post_transform")));
  if (model.intercepts.empty()) model.intercepts.assign(std::max<std::size_t>(model.labels.size(), 1), 0);
  if (!model.is_binary() && model.labels.size() != model.intercepts.size())
    return c.fail("classlabels_ints or classlabels_strings needs one label for each target, or two for one");
  if (model.coefficients.empty() || model.coefficients.size() % model.intercepts.size() != 0)
    return c.fail("coefficients does not have as many numbers for each target");
  return model;
}

// The place of the label that wins; `row` becomes the scores that are given out.
std::size_t finish(const Linear& model, std::vector<double>& row) {
  if (!model.is_binary()) {
    const auto best = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    transform_scores(model.transform, row);
    return best;
  }
  const double score = row[0];
  const bool is_logistic = model.transform == ScoreTransform::Logistic;
  row = is_logistic ? std::vector{logistic(-score), logistic(score)} : std::vector{1 - score, score};
  if (model.transform == ScoreTransform::Probit) transform_scores(model.transform, row);
  return score > 0 ? 1 : 0;
}

}  // namespace

namespace rule {

Status linear_classes(InferenceContext& c) {
  if (c.rank(0) != 1 && c.rank(0) != 2) return c.fail("X must have rank 1 or 2");
  XYNTRA_TRY(const Linear model, read_linear(c));
  const Dim rows = c.rank(0) == 1 ? Dim(1) : c.dim(0, 0);
  c.set_dtype(0, model.labels.dtype());
  c.set_shape(0, {rows});
  if (c.output_count() > 1) c.set_shape(1, {rows, static_cast<std::int64_t>(model.scores())});
  return {};
}

}  // namespace rule

namespace host {

Status linear_classifier(HostContext& c) {
  XYNTRA_TRY(const auto model, c.prepared<Linear>([&] { return read_linear(c); }));
  const Tensor& x = c.input(0);
  const std::int64_t rows = x.rank() == 1 ? 1 : x.dims()[0], width = x.dims().back();
  const std::size_t targets = model->intercepts.size(), features = static_cast<std::size_t>(width);
  // Numbers after the last target's are not used, as in ONNX Runtime, whose own example has some.
  if (features > model->coefficients.size() / targets)
    return c.fail("X has " + std::to_string(width) + " features, too many for the coefficients");
  XYNTRA_TRY(Tensor scores, c.allocate(DType::F32, {rows, static_cast<std::int64_t>(model->scores())}));
  std::vector<std::size_t> winners;
  auto score_view = scores.mutable_view<float>();
  std::vector<double> row;
  for (std::int64_t r = 0; r < rows; ++r) {
    XYNTRA_CHECK_OK(c.worked(static_cast<std::int64_t>(model->coefficients.size())));
    row.assign(model->intercepts.begin(), model->intercepts.end());
    for (std::size_t t = 0; t < targets; ++t) {
      for (std::size_t k = 0; k < features; ++k) {
        const auto feature = static_cast<float>(x.element_as_f64(r * width + static_cast<std::int64_t>(k)));
        row[t] += static_cast<double>(model->coefficients[t * features + k]) * static_cast<double>(feature);
      }
    }
    winners.push_back(finish(*model, row));
    for (std::size_t k = 0; k < row.size(); ++k)
      score_view[static_cast<std::size_t>(r) * row.size() + k] = static_cast<float>(row[k]);
  }
  return model->labels.give(c, winners, std::move(scores));
}

}  // namespace host
}  // namespace xyntra
