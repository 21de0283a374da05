// SVMClassifier and SVMRegressor: sums over support vectors of a kernel with the row. The scores and the choice of a label are
// those of ONNX Runtime, where ONNX leaves them open.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ops/classical/class_labels.h"
#include "ops/classical/score_transform.h"

namespace xyntra {
namespace {

enum class SvmKernel : std::uint8_t { Linear, Polynomial, Gaussian, Sigmoid };

struct SvmKernelRow {
  std::string_view name;
  SvmKernel kernel;
};
constexpr SvmKernelRow kSvmKernels[] = {{"LINEAR", SvmKernel::Linear},
                                        {"POLY", SvmKernel::Polynomial},
                                        {"RBF", SvmKernel::Gaussian},
                                        {"SIGMOID", SvmKernel::Sigmoid}};

struct SupportVectors {
  SvmKernel kernel = SvmKernel::Linear;
  double gamma = 0, offset = 0, degree = 0;
  std::vector<float> vectors;  // one row of features for each
  std::size_t count = 0, features = 0;

  double with(std::span<const float> row, std::size_t vector) const {
    double sum = 0;
    for (std::size_t k = 0; k < features; ++k) {
      const double a = row[k], b = vectors[vector * features + k];
      sum += kernel == SvmKernel::Gaussian ? (a - b) * (a - b) : a * b;
    }
    switch (kernel) {
      case SvmKernel::Linear: return sum;
      case SvmKernel::Polynomial: return std::pow(gamma * sum + offset, degree);
      case SvmKernel::Gaussian: return std::exp(-gamma * sum);
      case SvmKernel::Sigmoid: return std::tanh(gamma * sum + offset);
    }
    return sum;
  }
};

// Without support vectors the coefficients are `rows` rows of weights, and the kernel is linear.
Result<SupportVectors> read_support_vectors(const OpContext& c, std::int64_t count, std::size_t rows) {
  SupportVectors made;
  const std::vector<float> parameters = c.reals("kernel_params");
  if (parameters.size() >= 3) {
    made.gamma = parameters[0];
    made.offset = parameters[1];
    made.degree = parameters[2];
  } else if (!parameters.empty()) {
    return c.fail("kernel_params needs three numbers");
  }
  const auto row =
      std::ranges::find(kSvmKernels, std::string_view(c.text("kernel_type")), &SvmKernelRow::name);
  if (row == std::end(kSvmKernels)) return c.fail("kernel_type is not one of LINEAR, POLY, RBF, SIGMOID");
  const bool linear = count <= 0;
  made.kernel = linear ? SvmKernel::Linear : row->kernel;
  made.vectors = c.reals(linear ? "coefficients" : "support_vectors");
  made.count = linear ? rows : static_cast<std::size_t>(count);
  if (made.count == 0 || made.vectors.empty() || made.vectors.size() % made.count != 0)
    return c.fail(
        "the support vectors, or the coefficients where there are none, do not have as many numbers each");
  made.features = made.vectors.size() / made.count;
  return made;
}

struct SvmRegression {
  SupportVectors support;
  std::vector<float> coefficients;  // one for each support vector; empty: the weights are the one vector
  double rho = 0;
  bool one_class = false;
};

Result<SvmRegression> read_svm_regression(const OpContext& c) {
  SvmRegression model;
  const std::int64_t count = c.integer("n_supports");
  if (count < 0) return c.fail("n_supports must not be negative");
  XYNTRA_TRY(model.support, read_support_vectors(c, count, 1));
  if (count > 0) model.coefficients = c.reals("coefficients");
  if (count > 0 && model.coefficients.size() != model.support.count)
    return c.fail("coefficients needs one number for each support vector");
  const std::vector<float> rho = c.reals("rho");
  if (rho.empty()) return c.fail("rho is empty");
  model.rho = rho[0];
  model.one_class = c.flag("one_class");
  return model;
}

struct SvmClassification {
  SupportVectors support;
  ClassLabels labels;
  ScoreTransform transform = ScoreTransform::None;
  std::vector<std::size_t>
      starts;  // of each class among the support vectors, and the end; empty: a row of weights for each class
  std::vector<float> coefficients, rho, prob_a, prob_b;
  bool all_positive = false;

  std::size_t classes() const { return labels.size(); }
  std::size_t pairs() const { return classes() * (classes() - 1) / 2; }
  std::size_t scores() const {
    return starts.empty() || !prob_a.empty() ? classes() : std::max<std::size_t>(pairs(), 2);
  }
};

Result<SvmClassification> read_svm_classification(const OpContext& c) {
  SvmClassification model;
  XYNTRA_TRY(model.labels, ClassLabels::read(c, "classlabels_ints", "classlabels_strings"));
  XYNTRA_TRY(model.transform, score_transform(c, c.text("post_transform")));
  if (model.classes() < 2) return c.unsupported("fewer than two labels");
  std::size_t total = 0;
  for (std::int64_t count : c.integers("vectors_per_class")) {
    if (count < 0 || count > INT32_MAX) return c.fail("vectors_per_class must not be negative");
    model.starts.push_back(total);
    total += static_cast<std::size_t>(count);
  }
  model.starts.push_back(total);
  if (total == 0) model.starts.clear();
  model.coefficients = c.reals("coefficients");
  model.rho = c.reals("rho");
  XYNTRA_TRY(model.support, read_support_vectors(c, static_cast<std::int64_t>(total), model.classes()));
  model.all_positive = std::ranges::all_of(model.coefficients, [](float one) { return one >= 0; });
  if (model.starts.empty())
    return model.rho.empty() ? Result<SvmClassification>(c.fail("rho is empty")) : model;
  model.prob_a = c.reals("prob_a");
  model.prob_b = c.reals("prob_b");
  if (model.starts.size() != model.classes() + 1)
    return c.fail("vectors_per_class needs one number for each label");
  if (model.coefficients.size() != total * (model.classes() - 1))
    return c.fail("coefficients needs, for each support vector, one number for each other class");
  if (model.rho.size() != model.pairs()) return c.fail("rho needs one number for each pair of classes");
  if (model.prob_a.size() != model.prob_b.size() ||
      (!model.prob_a.empty() && model.prob_a.size() != model.pairs()))
    return c.fail("prob_a and prob_b need one number for each pair of classes");
  if (model.pairs() == 1 && model.prob_a.empty() && model.transform == ScoreTransform::Probit)
    return c.unsupported("post_transform PROBIT of the score between two classes");
  return model;
}

// Of each class, from how likely it is before each other: the fixed point that the method of Wu, Lin and Weng (2004) finds.
// `ahead[i * classes + j]` is the probability of class i where it is one of i and j.
std::vector<double> coupled_probabilities(std::size_t classes, const std::vector<double>& ahead) {
  const double count = static_cast<double>(classes), tolerance = 0.005 / count;
  std::vector<double> q(classes * classes, 0), p(classes, 1 / count), qp(classes);
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = 0; j < classes; ++j) {
      if (i == j) continue;
      q[i * classes + i] += ahead[j * classes + i] * ahead[j * classes + i];
      q[i * classes + j] = -ahead[j * classes + i] * ahead[i * classes + j];
    }
  }
  for (std::size_t iteration = 0; iteration < std::max<std::size_t>(100, classes); ++iteration) {
    double pqp = 0, worst = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      qp[i] =
          std::inner_product(p.begin(), p.end(), q.begin() + static_cast<std::ptrdiff_t>(i * classes), 0.0);
      pqp += p[i] * qp[i];
    }
    for (double one : qp) worst = std::max(worst, std::abs(one - pqp));
    if (worst < tolerance) break;
    for (std::size_t i = 0; i < classes; ++i) {
      const double change = (pqp - qp[i]) / q[i * classes + i], scale = 1 + change;
      p[i] += change;
      pqp = (pqp + change * (change * q[i * classes + i] + 2 * qp[i])) / scale / scale;
      for (std::size_t j = 0; j < classes; ++j) {
        qp[j] = (qp[j] + change * q[i * classes + j]) / scale;
        p[j] /= scale;
      }
    }
  }
  return p;
}

// Scores between each pair of classes, and how many of them each class wins.
void score_pairs(const SvmClassification& model, std::span<const double> kernels, std::vector<double>& row,
                 std::vector<std::size_t>& votes) {
  const std::size_t total = kernels.size();
  row.clear();
  votes.assign(model.classes(), 0);
  for (std::size_t i = 0; i < model.classes(); ++i) {
    for (std::size_t j = i + 1; j < model.classes(); ++j) {
      double sum = model.rho[row.size()];
      for (std::size_t v = model.starts[i]; v < model.starts[i + 1]; ++v)
        sum += static_cast<double>(model.coefficients[(j - 1) * total + v]) * kernels[v];
      for (std::size_t v = model.starts[j]; v < model.starts[j + 1]; ++v)
        sum += static_cast<double>(model.coefficients[i * total + v]) * kernels[v];
      row.push_back(sum);
      ++votes[sum > 0 ? i : j];
    }
  }
}

std::vector<double> probabilities(const SvmClassification& model, const std::vector<double>& pairs) {
  constexpr double kSmallest = 1e-7;
  const std::size_t classes = model.classes();
  std::vector<double> ahead(classes * classes, 0);
  std::size_t pair = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = i + 1; j < classes; ++j, ++pair) {
      const double score = pairs[pair] * model.prob_a[pair] + model.prob_b[pair];
      const double one = std::clamp(logistic(-score), kSmallest, 1 - kSmallest);
      ahead[i * classes + j] = one;
      ahead[j * classes + i] = 1 - one;
    }
  }
  return coupled_probabilities(classes, ahead);
}

std::size_t place_of_largest(const auto& values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

// The place of the label that wins; `row` becomes the scores that are given out.
std::size_t classify(const SvmClassification& model, std::span<const float> features,
                     std::vector<double>& row) {
  std::vector<double> kernels(model.support.count);
  for (std::size_t v = 0; v < kernels.size(); ++v) kernels[v] = model.support.with(features, v);
  std::size_t winner = 0;
  if (model.starts.empty()) {
    row = std::move(kernels);
    for (double& score : row) score += model.rho[0];
    const double largest = row[winner = place_of_largest(row)];
    // Of two classes the second wins as soon as any score is high enough.
    if (row.size() == 2 && (model.all_positive ? largest >= 0.5 : largest > 0)) winner = 1;
  } else {
    std::vector<std::size_t> votes;
    score_pairs(model, kernels, row, votes);
    winner = place_of_largest(votes);
    if (!model.prob_a.empty()) row = probabilities(model, row);
  }
  if (row.size() > 1) {
    transform_scores(model.transform, row);
    return winner;
  }
  const double score = row[0];
  switch (model.transform) {
    case ScoreTransform::None: row = {-score, score}; break;
    case ScoreTransform::Logistic: row = {logistic(-score), logistic(score)}; break;
    case ScoreTransform::Softmax:
    case ScoreTransform::SoftmaxZero:
    case ScoreTransform::Probit: row = {1 - score, score}; break;
  }
  return winner;
}

Dim svm_rows(const OpContext& c) { return c.rank(0) == 1 ? Dim(1) : c.dim(0, 0); }

Status check_svm_rank(const OpContext& c) {
  if (c.rank(0) != 1 && c.rank(0) != 2) return c.fail("X must have rank 1 or 2");
  return {};
}

// Calls `each` with the number and the features of every row.
template <class Each>
Status for_each_svm_row(HostContext& c, const SupportVectors& support, const Each& each) {
  const Tensor& x = c.input(0);
  const std::int64_t rows = x.rank() == 1 ? 1 : x.dims()[0], width = x.dims().back();
  if (std::cmp_not_equal(width, support.features))
    return c.fail("X has " + std::to_string(width) + " features, the support vectors have " +
                  std::to_string(support.features));
  std::vector<float> features(support.features);
  for (std::int64_t r = 0; r < rows; ++r) {
    XYNTRA_CHECK_OK(c.worked(static_cast<std::int64_t>(support.vectors.size())));
    for (std::int64_t k = 0; k < width; ++k)
      features[static_cast<std::size_t>(k)] = static_cast<float>(x.element_as_f64(r * width + k));
    each(static_cast<std::size_t>(r), features);
  }
  return {};
}

}  // namespace

namespace rule {

Status svm_target(InferenceContext& c) {
  XYNTRA_CHECK_OK(check_svm_rank(c));
  c.set_shape(0, {svm_rows(c), 1});
  return {};
}

Status svm_classes(InferenceContext& c) {
  XYNTRA_CHECK_OK(check_svm_rank(c));
  XYNTRA_TRY(const SvmClassification model, read_svm_classification(c));
  c.set_dtype(0, model.labels.dtype());
  c.set_shape(0, {svm_rows(c)});
  if (c.output_count() > 1) c.set_shape(1, {svm_rows(c), static_cast<std::int64_t>(model.scores())});
  return {};
}

}  // namespace rule

namespace host {

Status svm_regressor(HostContext& c) {
  XYNTRA_TRY(const auto model, c.prepared<SvmRegression>([&] { return read_svm_regression(c); }));
  const std::int64_t rows = c.input(0).rank() == 1 ? 1 : c.input(0).dims()[0];
  XYNTRA_TRY(Tensor y, c.allocate(DType::F32, {rows, 1}));
  const auto results = y.mutable_view<float>();
  XYNTRA_CHECK_OK(for_each_svm_row(c, model->support, [&](std::size_t r, std::span<const float> features) {
    double sum = model->rho;
    for (std::size_t v = 0; v < model->support.count; ++v)
      sum += model->support.with(features, v) *
             (model->coefficients.empty() ? 1.0 : static_cast<double>(model->coefficients[v]));
    results[r] = model->one_class ? (sum > 0 ? 1.0F : -1.0F) : static_cast<float>(sum);
  }));
  c.set_result(0, std::move(y));
  return {};
}

Status svm_classifier(HostContext& c) {
  XYNTRA_TRY(const auto model, c.prepared<SvmClassification>([&] { return read_svm_classification(c); }));
  const std::int64_t rows = c.input(0).rank() == 1 ? 1 : c.input(0).dims()[0];
  XYNTRA_TRY(Tensor scores, c.allocate(DType::F32, {rows, static_cast<std::int64_t>(model->scores())}));
  const auto results = scores.mutable_view<float>();
  std::vector<std::size_t> winners;
  std::vector<double> row;
  XYNTRA_CHECK_OK(for_each_svm_row(c, model->support, [&](std::size_t r, std::span<const float> features) {
    winners.push_back(classify(*model, features, row));
    for (std::size_t k = 0; k < row.size(); ++k) results[r * row.size() + k] = static_cast<float>(row[k]);
  }));
  return model->labels.give(c, winners, std::move(scores));
}

}  // namespace host
}  // namespace xyntra
