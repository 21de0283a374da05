// Decision trees. Walking down a tree is a chain of loads that each depend on the last, of another length for every row:
// as a formula it would take the longest way for every row, so it runs on the host, in blocks of rows that keep a tree in
// the cache. What the attributes say is brought into that form once, not once per run.
//
// Where ONNX Runtime and ONNX's text differ, models rely on the former: a single target is only ever transformed by
// PROBIT, and two classes that share one list of weights are told apart by a threshold.
#include <algorithm>
#include <cmath>

#include "ops/classical/class_labels.h"
#include "ops/classical/forest.h"
#include "ops/classical/score_transform.h"
#include "ops/host_context.h"

namespace xyntra {
namespace {

constexpr std::int64_t kRowsAtOnce = 64;
constexpr std::int64_t kMostTargets = 1 << 24;

enum class Aggregate : std::uint8_t { Average, Sum, Min, Max };

// What the trees say of one row: a score for each target, and whether any leaf had one for it.
template <class T>
struct Scores {
  std::vector<T> values;
  std::vector<std::uint8_t> given;

  void reset(std::size_t size) {
    values.assign(size, 0);
    given.assign(size, 0);
  }
  void add(Aggregate aggregate, std::size_t at, T value) {
    const bool first = given[at] == 0;
    given[at] = 1;
    switch (aggregate) {
      case Aggregate::Average:
      case Aggregate::Sum: values[at] += value; return;
      case Aggregate::Min:
        if (first || value < values[at]) values[at] = value;
        return;
      case Aggregate::Max:
        if (first || value > values[at]) values[at] = value;
        return;
    }
  }
};

// Rows of features as T: float, unless the operand is of doubles.
template <class T>
Result<Tensor> features_as(const HostContext& c, const Tensor& x) {
  const DType dtype = std::is_same_v<T, double> ? DType::F64 : DType::F32;
  if (x.dtype() == dtype) return x.aligned();
  XYNTRA_TRY(Tensor copy, c.allocate(dtype, x.dims()));
  auto view = copy.mutable_view<T>();
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const bool whole = is_integer(x.dtype());
    view[static_cast<std::size_t>(i)] =
        whole ? static_cast<T>(x.element_as_i64(i)) : static_cast<T>(x.element_as_f64(i));
  }
  return copy;
}

struct Matrix {
  std::int64_t rows = 1;
  std::int64_t width = 0;
};

// A vector is one row.
Matrix matrix_of(const Tensor& x) {
  if (x.rank() == 1) return {1, x.dims()[0]};
  return {x.dims()[0], x.dims()[1]};
}

// Calls finish(row, scores) for each row, in order.
template <class T, class Finish>
Status for_each_row(const HostContext& c, const Forest& forest, Aggregate aggregate, std::size_t targets,
                    Finish finish) {
  XYNTRA_TRY(const Tensor x, features_as<T>(c, c.input(0)));
  const Matrix matrix = matrix_of(x);
  if (matrix.rows > 0 && forest.widest_feature >= matrix.width) {
    return c.fail("a tree looks at feature " + std::to_string(forest.widest_feature) + ", X has " +
                  std::to_string(matrix.width));
  }
  const std::span<const T> elements = x.view<T>();
  std::vector<Scores<T>> block(static_cast<std::size_t>(std::min(matrix.rows, kRowsAtOnce)));
  for (std::int64_t first = 0; first < matrix.rows; first += kRowsAtOnce) {
    const auto rows = static_cast<std::size_t>(std::min(kRowsAtOnce, matrix.rows - first));
    for (std::size_t r = 0; r < rows; ++r) block[r].reset(targets);
    for (const std::uint32_t root : forest.roots) {
      XYNTRA_CHECK_OK(c.worked(static_cast<std::int64_t>(rows) * 16));
      for (std::size_t r = 0; r < rows; ++r) {
        const auto begin = (static_cast<std::size_t>(first) + r) * static_cast<std::size_t>(matrix.width);
        const Forest::Leaf leaf = forest.leaves[leaf_of(
            forest, root, elements.subspan(begin, static_cast<std::size_t>(matrix.width)))];
        for (std::uint32_t w = leaf.begin; w < leaf.end; ++w) {
          const Forest::Weight& weight = forest.weights[w];
          block[r].add(aggregate, static_cast<std::size_t>(weight.target), static_cast<T>(weight.value));
        }
      }
    }
    for (std::size_t r = 0; r < rows; ++r) finish(first + static_cast<std::int64_t>(r), block[r]);
  }
  return {};
}

Status check_targets(const OpContext& c, const Forest& forest, std::int64_t count) {
  for (const Forest::Weight& weight : forest.weights) {
    if (weight.target >= count) {
      return c.fail("a leaf has a weight for target " + std::to_string(weight.target) + " of " +
                    std::to_string(count));
    }
  }
  return {};
}

// ---- regression

struct Regressor {
  Forest forest;
  Aggregate aggregate = Aggregate::Sum;
  ScoreTransform transform = ScoreTransform::None;
  std::int64_t targets = 1;
};

template <class T>
void finish_targets(const Regressor& model, const Scores<T>& scores, std::span<double> row) {
  const std::vector<double>& base = model.forest.base_values;
  for (std::size_t k = 0; k < row.size(); ++k) {
    T value = scores.values[k];
    if (model.aggregate == Aggregate::Average) value /= static_cast<T>(model.forest.roots.size());
    if (base.size() == row.size()) value += static_cast<T>(base[k]);
    row[k] = value;
  }
  if (row.size() > 1 || model.transform == ScoreTransform::Probit) transform_scores(model.transform, row);
}

Status run_regressor(HostContext& c, const Regressor& model, DType dtype) {
  const Matrix matrix = matrix_of(c.input(0));
  XYNTRA_TRY(Tensor y, c.allocate(dtype, {matrix.rows, model.targets}));
  std::vector<double> row(static_cast<std::size_t>(model.targets));
  const auto run = [&]<class T>(T) {
    return for_each_row<T>(c, model.forest, model.aggregate, row.size(),
                           [&](std::int64_t r, const Scores<T>& scores) {
                             finish_targets(model, scores, row);
                             for (std::size_t k = 0; k < row.size(); ++k) {
                               y.set_element_f64(r * model.targets + static_cast<std::int64_t>(k), row[k]);
                             }
                           });
  };
  XYNTRA_CHECK_OK(c.dtype(0) == DType::F64 ? run(double()) : run(float()));
  c.set_result(0, std::move(y));
  return {};
}

Result<Aggregate> aggregate_of(const OpContext& c) {
  const std::string& name = c.text("aggregate_function");
  if (name == "AVERAGE") return Aggregate::Average;
  if (name == "SUM") return Aggregate::Sum;
  if (name == "MIN") return Aggregate::Min;
  if (name == "MAX") return Aggregate::Max;
  return c.fail("aggregate_function is not one of AVERAGE, SUM, MIN, MAX");
}

Result<Regressor> read_regressor(const OpContext& c) {
  Regressor model;
  XYNTRA_TRY(model.forest, read_node_lists(c, "target"));
  XYNTRA_TRY(model.aggregate, aggregate_of(c));
  XYNTRA_TRY(model.transform, score_transform(c, c.text("post_transform")));
  model.targets = c.integer("n_targets");
  XYNTRA_CHECK_OK(check_targets(c, model.forest, model.targets));
  return model;
}

// The numbers of TreeEnsemble's attributes are those of its text.
Result<Regressor> read_tree_ensemble(const OpContext& c) {
  constexpr ScoreTransform kTransforms[] = {ScoreTransform::None, ScoreTransform::Softmax,
                                            ScoreTransform::Logistic, ScoreTransform::SoftmaxZero,
                                            ScoreTransform::Probit};
  const std::int64_t transform = c.integer("post_transform"), aggregate = c.integer("aggregate_function");
  if (transform < 0 || transform > 4) return c.fail("post_transform must be from 0 to 4");
  if (aggregate < 0 || aggregate > 3) return c.fail("aggregate_function must be from 0 to 3");
  Regressor model;
  XYNTRA_TRY(model.forest, read_ensemble(c));
  model.aggregate = static_cast<Aggregate>(aggregate);
  model.transform = kTransforms[transform];
  model.targets = c.integer("n_targets");
  XYNTRA_CHECK_OK(check_targets(c, model.forest, model.targets));
  return model;
}

// ---- classification

struct Classifier {
  Forest forest;
  ScoreTransform transform = ScoreTransform::None;
  ClassLabels labels;
  // Two classes and weights for one of them only, the positive one.
  bool one_list = false;
  std::size_t listed = 0;  // the class that those weights are given for
  bool all_positive = true;
};

Result<Classifier> read_classifier(const OpContext& c) {
  Classifier model;
  XYNTRA_TRY(model.forest, read_node_lists(c, "class"));
  XYNTRA_TRY(model.transform, score_transform(c, c.text("post_transform")));
  XYNTRA_TRY(model.labels, ClassLabels::read(c, "classlabels_int64s", "classlabels_strings"));
  XYNTRA_CHECK_OK(check_targets(c, model.forest, static_cast<std::int64_t>(model.labels.size())));
  const std::vector<Forest::Weight>& weights = model.forest.weights;
  model.all_positive =
      std::all_of(weights.begin(), weights.end(), [](const Forest::Weight& w) { return w.value >= 0; });
  if (!weights.empty()) model.listed = static_cast<std::size_t>(weights[0].target);
  model.one_list = model.labels.size() == 2 &&
                   std::all_of(weights.begin(), weights.end(),
                               [&](const Forest::Weight& w) { return w.target == weights[0].target; });
  return model;
}

template <class T>
void add_base_values(const Classifier& model, Scores<T>& scores) {
  const std::vector<double>& base = model.forest.base_values;
  if (base.size() == 1 && model.one_list) {
    scores.values[model.listed] += static_cast<T>(base[0]);
  } else if (base.size() == scores.values.size()) {
    for (std::size_t k = 0; k < base.size(); ++k) {
      if (model.one_list && k != model.listed) continue;
      scores.values[k] += static_cast<T>(base[k]);
      scores.given[k] = 1;
    }
  } else if (base.size() == 1) {
    scores.values[0] += static_cast<T>(base[0]);
  }
}

// Which class wins, and its scores.
template <class T>
std::size_t finish_classes(const Classifier& model, Scores<T>& scores, std::vector<double>& row) {
  add_base_values(model, scores);
  row.assign(scores.values.begin(), scores.values.end());
  if (row.size() == 1) {
    const std::size_t positive = row[0] > 0 ? 1 : 0;
    if (model.transform == ScoreTransform::Probit) row[0] = probit(row[0]);
    return positive;
  }
  if (!model.one_list) {
    std::size_t best = 0;
    bool found = false;
    for (std::size_t k = 0; k < row.size(); ++k) {
      if (scores.given[k] == 0 || (found && !(scores.values[k] > scores.values[best]))) continue;
      best = k;
      found = true;
    }
    transform_scores(model.transform, row);
    return best;
  }
  const T score = scores.values[model.listed];
  const std::size_t winner = score > (model.all_positive ? T(0.5) : T(0)) ? 1 : 0;
  if (model.listed == 1) {  // the other class has a score as well: none
    transform_scores(model.transform, row);
    return winner;
  }
  if (model.transform == ScoreTransform::Logistic) {
    row = {logistic(-score), logistic(score)};
    return winner;
  }
  row = {model.all_positive ? 1 - score : -score, score};
  if (model.transform == ScoreTransform::Probit) transform_scores(model.transform, row);
  return winner;
}

const ClassLabels kPresence{{0, 1}, {}};

Status run_classifier(HostContext& c, const Classifier& model) {
  const Matrix matrix = matrix_of(c.input(0));
  const auto classes = static_cast<std::int64_t>(model.labels.size());
  XYNTRA_TRY(Tensor probabilities, c.allocate(DType::F32, {matrix.rows, classes}));
  std::vector<std::size_t> winners(static_cast<std::size_t>(matrix.rows), 0);
  auto score_view = probabilities.mutable_view<float>();
  std::vector<double> row;
  const auto run = [&]<class T>(T) {
    return for_each_row<T>(
        c, model.forest, Aggregate::Sum, model.labels.size(), [&](std::int64_t r, Scores<T>& scores) {
          winners[static_cast<std::size_t>(r)] = finish_classes(model, scores, row);
          for (std::size_t k = 0; k < row.size(); ++k) {
            score_view[static_cast<std::size_t>(r * classes) + k] = static_cast<float>(row[k]);
          }
        });
  };
  XYNTRA_CHECK_OK(c.dtype(0) == DType::F64 ? run(double()) : run(float()));
  // One label alone says whether the class is there.
  const ClassLabels& known = classes == 1 ? kPresence : model.labels;
  return known.give(c, winners, std::move(probabilities));
}

Status check_rank(const OpContext& c) {
  if (c.rank(0) != 1 && c.rank(0) != 2) return c.fail("X must have rank 1 or 2");
  return {};
}

Dim rows_of(const OpContext& c) { return c.rank(0) == 1 ? Dim(1) : c.dim(0, 0); }

}  // namespace

namespace rule {

Status tree_targets(InferenceContext& c) {
  XYNTRA_CHECK_OK(check_rank(c));
  const std::int64_t targets = c.integer("n_targets");
  if (targets < 1 || targets > kMostTargets)
    return c.fail("n_targets must be from 1 to " + std::to_string(kMostTargets));
  c.set_shape(0, {rows_of(c), targets});
  return {};
}

Status tree_classes(InferenceContext& c) {
  XYNTRA_CHECK_OK(check_rank(c));
  XYNTRA_TRY(const ClassLabels labels, ClassLabels::read(c, "classlabels_int64s", "classlabels_strings"));
  const std::size_t classes = labels.size();
  if (classes == 0) return c.fail("classlabels_int64s and classlabels_strings are empty");
  if (labels.texts.size() == 1) return c.unsupported("one label alone that is a string");
  c.set_dtype(0, labels.dtype());
  c.set_shape(0, {rows_of(c)});
  if (c.output_count() > 1) c.set_shape(1, {rows_of(c), static_cast<std::int64_t>(classes)});
  return {};
}

}  // namespace rule

namespace host {

Status tree_ensemble(HostContext& c) {
  XYNTRA_TRY(const auto model, c.prepared<Regressor>([&] { return read_tree_ensemble(c); }));
  return run_regressor(c, *model, c.dtype(0));
}

Status tree_ensemble_regressor(HostContext& c) {
  XYNTRA_TRY(const auto model, c.prepared<Regressor>([&] { return read_regressor(c); }));
  return run_regressor(c, *model, DType::F32);
}

Status tree_ensemble_classifier(HostContext& c) {
  XYNTRA_TRY(const auto model, c.prepared<Classifier>([&] { return read_classifier(c); }));
  return run_classifier(c, *model);
}

}  // namespace host
}  // namespace xyntra
