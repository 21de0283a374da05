#include "schedule/winograd.h"

#include <algorithm>
#include <array>

#include "te/index.h"

namespace xyntra {

using te::BufferId;
using te::BufferRole;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Formula;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::array<double, 8> kResults2{1, 1, 1,  0,  //
                                          0, 1, -1, -1};
constexpr std::array<double, 16> kElements2{1, 0,  -1, 0,  //
                                            0, 1,  1,  0,   //
                                            0, -1, 1,  0,  //
                                            0, 1,  0,  -1};
constexpr std::array<double, 12> kWeights2{1,   0,    0,         //
                                           0.5, 0.5,  0.5,   //
                                           0.5, -0.5, 0.5,  //
                                           0,   0,    1};

// Tiles of 4 × 4 come from values of polynomials at 0, ±p, ±q and infinity. With these places the error is a quarter of that
// with 1 and 2, which most write, and all but the weights' factors are exact.
constexpr double kP = 0.75, kQ = 1.5, kPP = kP * kP, kQQ = kQ * kQ;
constexpr std::array<double, 24> kResults4{1, 1,       1,        1,       1,        0,  //
                                           0, kP,      -kP,      kQ,      -kQ,      0,  //
                                           0, kPP,     kPP,      kQQ,     kQQ,      0,  //
                                           0, kP* kPP, -kP* kPP, kQ* kQQ, -kQ* kQQ, 1};
constexpr std::array<double, 36> kElements4{kPP * kQQ, 0,        -kPP - kQQ, 0,          1, 0,  //
                                            0,         -kP* kQQ, -kQQ,       kP,         1, 0,  //
                                            0,         kP* kQQ,  -kQQ,       -kP,        1, 0,  //
                                            0,         -kQ* kPP, -kPP,       kQ,         1, 0,  //
                                            0,         kQ* kPP,  -kPP,       -kQ,        1, 0,  //
                                            0,         kPP* kQQ, 0,          -kPP - kQQ, 0, 1};
constexpr double kAtP = 2 * kPP * (kPP - kQQ), kAtQ = 2 * kQQ * (kQQ - kPP);
constexpr std::array<double, 18> kWeights4{1 / (kPP * kQQ),
                                           0,
                                           0,  //
                                           1 / kAtP,
                                           kP / kAtP,
                                           kPP / kAtP,  //
                                           1 / kAtP,
                                           -kP / kAtP,
                                           kPP / kAtP,  //
                                           1 / kAtQ,
                                           kQ / kAtQ,
                                           kQQ / kAtQ,  //
                                           1 / kAtQ,
                                           -kQ / kAtQ,
                                           kQQ / kAtQ,  //
                                           0,
                                           0,
                                           1};

// A window of 3 × 3 in steps of one, and who is who in it.
struct WindowForm {
  VarId down, across;  // axes of the result
  VarId window_down, window_across, channel, filter;
  std::vector<VarId> batch;
  Expr element;  // the factor that is read of the picture
  const ExprNode* weight = nullptr;
};

bool is_among(const std::vector<VarId>& loops, VarId loop) {
  return std::find(loops.begin(), loops.end(), loop) != loops.end();
}

const ExprNode* only_load(const Expr& expr) {
  const ExprNode* found = nullptr;
  int loads = 0;
  te::for_each_node(expr, [&](const ExprNode& node) {
    if (te::is_load(node)) found = &node, ++loads;
  });
  return loads == 1 ? found : nullptr;
}

class Recogniser {
 public:
  explicit Recogniser(const Formula& formula) : formula_(formula), stage_(formula.stages.front()) {}

  std::optional<WindowForm> run() {
    if (stage_.kind != Stage::Kind::MapReduce || stage_.reducer != te::Reducer::Sum ||
        stage_.body->op != ExprOp::Mul || stage_.body.dtype() != DType::F32 || stage_.reduction.size() != 3)
      return std::nullopt;
    for (std::size_t side : {1, 0}) {
      form_ = {};
      form_.element = stage_.body->operands[1 - side];
      if (is_weight(stage_.body->operands[side]) && is_picture()) return form_;
    }
    return std::nullopt;
  }

 private:
  bool is_size(VarId loop, std::int64_t size) const { return formula_.variable(loop).extent.is(size); }

  // w[o, c, ky, kx]
  bool is_weight(const Expr& factor) {
    if (factor->op != ExprOp::Load || factor->operands.size() != 4) return false;
    const te::BufferInfo& buffer = formula_.buffer(factor->buffer);
    if (buffer.role != BufferRole::Input || buffer.dtype != DType::F32) return false;
    std::array<VarId, 4> loops;
    for (std::size_t d = 0; d < 4; ++d) {
      if (factor->operands[d]->op != ExprOp::Var || !buffer.shape[d].is_constant()) return false;
      loops[d] = factor->operands[d]->var;
      if (is_among(stage_.axes, loops[d]) != (d == 0)) return false;
      if (formula_.variable(loops[d]).extent != buffer.shape[d]) return false;
    }
    std::tie(form_.filter, form_.channel, form_.window_down, form_.window_across) =
        std::tie(loops[0], loops[1], loops[2], loops[3]);
    form_.weight = factor.address();
    return is_size(loops[2], 3) && is_size(loops[3], 3) && loops[2] != loops[3] && loops[1] != loops[2] &&
           loops[1] != loops[3];
  }

  // An axis of the result and one of the window, added up.
  VarId slides_along(const Expr& index, VarId window) const {
    const te::LinearIndex linear = te::IndexAlgebra(formula_).linear(index);
    if (linear.terms.size() != 2 || !linear.constant.is_constant()) return {};
    VarId own;
    for (const te::LinearIndex::Term& term : linear.terms) {
      if (term.atom->op != ExprOp::Var || !term.coefficient.is(1)) return {};
      if (term.atom->var != window) own = term.atom->var;
    }
    return linear.find(window) != nullptr && is_among(stage_.axes, own) ? own : VarId();
  }

  bool is_picture() {
    const ExprNode* load = only_load(form_.element);
    if (load == nullptr || load->buffer == form_.weight->buffer || form_.element.dtype() != DType::F32)
      return false;
    std::set<VarId> elsewhere;  // loops that other indices speak of
    for (const Expr& index : te::index_of(*load)) {
      const VarId down = slides_along(index, form_.window_down);
      const VarId across = slides_along(index, form_.window_across);
      if (down.valid() && !form_.down.valid()) {
        form_.down = down;
      } else if (across.valid() && !form_.across.valid()) {
        form_.across = across;
      } else {
        elsewhere.merge(te::variables_of(index));
      }
    }
    if (!form_.down.valid() || !form_.across.valid() || form_.down == form_.across) return false;
    // What stands around the load knows nothing of positions.
    const std::set<VarId> moving{form_.down, form_.across, form_.window_down, form_.window_across,
                                 form_.filter};
    te::Rewriter without_load(
        [](const Expr& node) { return te::is_load(*node) ? Expr::number(node.dtype(), 0) : Expr(); });
    elsewhere.merge(te::variables_of(without_load(form_.element)));
    if (load->op == ExprOp::LoadOr) elsewhere.merge(te::variables_of(load->operands[0]));
    for (VarId loop : moving) {
      if (elsewhere.count(loop)) return false;
    }
    for (VarId axis : stage_.axes) {
      if (axis != form_.down && axis != form_.across && axis != form_.filter) form_.batch.push_back(axis);
    }
    auto constant = [&](VarId loop) {
      return formula_.variable(loop).extent.is_constant() && formula_.variable(loop).extent.constant() > 0;
    };
    return constant(form_.down) && constant(form_.across);
  }

  const Formula& formula_;
  const Stage& stage_;
  WindowForm form_;
};

std::optional<WindowForm> form_of(const Formula& formula) {
  if (formula.stages.size() != 1) return std::nullopt;
  return Recogniser(formula).run();
}

// An entry of a table at positions that are loops.
Expr entry(const std::vector<double>& table, std::int64_t columns, const Expr& row, const Expr& column) {
  Expr value = Expr::floating(DType::F32, 0);
  for (std::size_t i = table.size(); i-- > 0;) {
    if (table[i] == 0) continue;
    const auto at = static_cast<std::int64_t>(i);
    value = te::select(equal(row, at / columns) & equal(column, at % columns),
                       Expr::floating(DType::F32, table[i]), value);
  }
  return value;
}

Expr entry(std::span<const double> table, std::int64_t columns, const Expr& row, const Expr& column) {
  return entry(std::vector<double>(table.begin(), table.end()), columns, row, column);
}

// The stages of winograd.h.
class Rewriting {
 public:
  Rewriting(const Formula& window, WindowForm form, const WinogradTransform& transform)
      : made_(window),
        form_(std::move(form)),
        transform_(transform),
        m_(transform.output),
        n_(transform.input()),
        window_(window.stages.front()) {}

  Formula run() {
    made_.stages.clear();
    for (std::size_t d : {2, 3}) made_.buffers[form_.weight->buffer.index].shape[d] = n_;
    const Dim down = ceil_div(extent(form_.down), m_), across = ceil_div(extent(form_.across), m_);
    Shape batch;
    for (VarId axis : form_.batch) batch.push_back(extent(axis));
    auto shape_of = [&](Shape before, std::initializer_list<Dim> after) {
      before.insert(before.end(), batch.begin(), batch.end());
      before.insert(before.end(), after.begin(), after.end());
      return before;
    };
    const Dim channels = extent(form_.channel), filters = extent(form_.filter);
    const BufferId d = temporary("d", shape_of({}, {down, across, n_, n_, channels})),
                   v = temporary("v", shape_of({n_, n_}, {down, across, channels})),
                   p = temporary("p", shape_of({n_, n_}, {down, across, filters}));

    std::vector<VarId> axes = axes_of(d, {"y", "x", "i", "j", "c"});
    const std::size_t after = form_.batch.size();
    auto at = [&](std::size_t i) { return Expr::variable(axes[i]); };
    Substitution place{{form_.window_down.index, Expr::index(0)},
                       {form_.window_across.index, Expr::index(0)},
                       {form_.down.index, at(after) * Expr::index(m_) + at(after + 2)},
                       {form_.across.index, at(after + 1) * Expr::index(m_) + at(after + 3)},
                       {form_.channel.index, at(after + 4)}};
    for (std::size_t i = 0; i < form_.batch.size(); ++i) place[form_.batch[i].index] = at(i);
    // The last tiles may reach beyond the picture, where results are none of ours.
    te::Rewriter bordered([](const Expr& node) {
      if (node->op != ExprOp::Load) return Expr();
      return Expr::load_or(Expr::number(node.dtype(), 0), node->buffer, te::index_of(*node));
    });
    add(d, axes, te::substituted(bordered(form_.element), place));

    axes = axes_of(v, {"a", "b", "y", "x", "c"});
    const VarId i = loop("i", n_), j = loop("j", n_);
    std::vector<Expr> index = expressions(std::span(axes).subspan(2));
    index.insert(index.end() - 1, {Expr::variable(i), Expr::variable(j)});
    add(v, axes,
        entry(transform_.b, n_, at(0), Expr::variable(i)) *
            entry(transform_.b, n_, at(1), Expr::variable(j)) * Expr::load(d, DType::F32, index),
        {i, j});

    axes = axes_of(p, {"a", "b", "y", "x", "o"});
    const VarId c = loop("c", channels);
    index = expressions(axes);
    const Expr filter = std::exchange(index.back(), Expr::variable(c));
    add(p, axes,
        Expr::load(v, DType::F32, index) *
            Expr::load(form_.weight->buffer, DType::F32, {filter, Expr::variable(c), at(0), at(1)}),
        {c});

    const VarId a = loop("a", n_), b = loop("b", n_);
    const Expr y = Expr::variable(form_.down), x = Expr::variable(form_.across), size = Expr::index(m_);
    index = {Expr::variable(a), Expr::variable(b)};
    for (VarId axis : form_.batch) index.push_back(Expr::variable(axis));
    index.insert(index.end(), {floor_div(y, size), floor_div(x, size), Expr::variable(form_.filter)});
    Stage last = window_;
    last.body = entry(transform_.a, n_, mod(y, size), Expr::variable(a)) *
                entry(transform_.a, n_, mod(x, size), Expr::variable(b)) * Expr::load(p, DType::F32, index);
    last.reduction = {a, b};
    made_.stages.push_back(std::move(last));
    return std::move(made_);
  }

 private:
  const Dim& extent(VarId loop) const { return made_.variable(loop).extent; }

  VarId loop(const char* name, Dim extent) {
    made_.variables.push_back({name + std::to_string(made_.variables.size()), std::move(extent)});
    return VarId(made_.variables.size() - 1);
  }

  BufferId temporary(const char* name, Shape shape) {
    const BufferId id(made_.buffers.size());
    made_.buffers.push_back(
        {id, name + std::to_string(id.index), DType::F32, std::move(shape), BufferRole::Temporary, -1});
    return id;
  }

  // A loop for each dimension; those of the batch keep their names.
  std::vector<VarId> axes_of(BufferId buffer, const std::vector<const char*>& names) {
    const Shape shape = made_.buffer(buffer).shape;
    const std::size_t before = names[0][0] == 'a' ? 2 : 0;
    std::vector<VarId> axes;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const bool in_batch = d >= before && d < before + form_.batch.size();
      const std::size_t name = d < before ? d : d - form_.batch.size();
      axes.push_back(loop(in_batch ? "n" : names[name], shape[d]));
    }
    return axes;
  }

  static std::vector<Expr> expressions(std::span<const VarId> loops) {
    std::vector<Expr> made;
    for (VarId loop : loops) made.push_back(Expr::variable(loop));
    return made;
  }

  void add(BufferId target, const std::vector<VarId>& axes, Expr body, std::vector<VarId> reduction = {}) {
    Stage stage;
    stage.target = target;
    stage.axes = axes;
    stage.store = expressions(axes);
    stage.body = std::move(body);
    stage.reducer = reduction.empty() ? te::Reducer::None : te::Reducer::Sum;
    stage.reduction = std::move(reduction);
    made_.stages.push_back(std::move(stage));
  }

  Formula made_;
  WindowForm form_;
  const WinogradTransform& transform_;
  std::int64_t m_, n_;
  const Stage window_;
};

// ---- what it would cost

struct Picture {
  std::int64_t count, down, across, channels, filters;
};

constexpr std::int64_t kPanelVectors = 2;  // across a register tile
constexpr std::int64_t kFewTiles = 64;  // of a picture: all go through the products together
constexpr std::int64_t kEnoughTiles = 14;  // of a work item: a full register tile
// Adding up an element, and keeping it for the products, takes as long as so many multiplications and additions there.
constexpr std::int64_t kElementWork2 = 19, kElementWork4 = 40;

// Schedule, scratch memory and time, the rest is the window's; nothing where sizes do not come out even.
std::optional<Choice> tiling_of(const Picture& picture, const WinogradTransform& transform,
                                const Target& target) {
  const std::int64_t lanes = target.vector_bits / 32, columns = kPanelVectors * lanes,
                     output = transform.output, products = transform.input() * transform.input();
  if (picture.channels % lanes != 0 || picture.filters % columns != 0) return std::nullopt;
  const std::int64_t down = (picture.down + output - 1) / output,
                     across = (picture.across + output - 1) / output;
  const bool few = down * across <= kFewTiles;
  const std::int64_t weights = products * picture.channels * picture.filters * 4,
                     room = target.l2_bytes / 8 * 5;
  const bool stay = weights <= target.l2_bytes / 2;  // in the cache, from block to block
  auto scratch_of = [&](std::int64_t tiles) {
    return products * tiles * ((few ? 0 : picture.channels) + columns) * 4;
  };
  // As few tiles as fill a register tile, or as many as there is room for where each block brings the weights anew.
  std::int64_t wide = few ? across : 0, rows = few ? down : 0;
  auto try_block = [&](std::int64_t block_columns, std::int64_t block_rows) {
    const std::int64_t tiles = block_columns * block_rows;
    if (tiles < kEnoughTiles || scratch_of(tiles) > room) return;
    if (wide == 0 || (stay ? tiles < wide * rows : tiles > wide * rows))
      wide = block_columns, rows = block_rows;
  };
  for (std::int64_t some = 1; !few && some <= across; ++some) {
    if (across % some == 0) try_block(some, 1);
  }
  for (std::int64_t some = 1; !few && some <= down; ++some) {
    if (down % some == 0) try_block(across, some);
  }
  if (wide == 0 || scratch_of(wide * rows) > room) return std::nullopt;

  Choice made;
  made.schedule.name = kWinograd;
  made.schedule.exactness = Exactness::PrecisionChanging;
  made.schedule.knobs = {{"block_columns", wide},
                         {"block_rows", rows},
                         {"output", output},
                         {"phases", few ? 2 : 1},
                         {"tile_columns", columns},
                         {"tile_rows", (target.vector_registers - kPanelVectors - 1) / kPanelVectors}};
  made.scratch_bytes = scratch_of(wide * rows);
  const std::int64_t tiles = picture.count * down * across, blocks = few ? 1 : tiles / (wide * rows),
                     work = output == 2 ? kElementWork2 : kElementWork4;
  const std::int64_t flops =
      products * tiles *
      (2 * picture.channels * picture.filters + work * (picture.channels + picture.filters));
  made.predicted_ns = target.estimate_ns(0, flops, DType::F32, 1, ArithmeticUnit::Matrix);
  // There are more weights than a window has: where no cache holds them, products wait.
  if (!stay) made.predicted_ns += target.estimate_ns(weights * blocks, 0, DType::F32, 0);
  return made;
}

}  // namespace

std::span<const WinogradTransform> WinogradTransform::all() {
  static const std::array<WinogradTransform, 2> kAll = [] {
    std::array<WinogradTransform, 2> made;
    made[0].output = 2, made[0].a = kResults2, made[0].b = kElements2, made[0].g = kWeights2;
    made[1].output = 4, made[1].a = kResults4, made[1].b = kElements4, made[1].g = kWeights4;
    return made;
  }();
  return kAll;
}

const WinogradTransform* WinogradTransform::of(std::int64_t output) {
  const auto found = std::ranges::find(all(), output, &WinogradTransform::output);
  return found == all().end() ? nullptr : &*found;
}

std::int64_t knob_of(const Schedule& schedule, std::string_view name) {
  for (const Knob& one : schedule.knobs) {
    if (one.name == name) return one.value;
  }
  return 0;
}

int winograd_operand(const Formula& formula) {
  const auto form = form_of(formula);
  return form ? formula.buffer(form->weight->buffer).position : -1;
}

std::optional<Choice> as_winograd(const Formula& formula, const Choice& choice, const Target& target,
                                  const ChooseOptions& options) {
  const auto form = choice.schedule.name == "window" ? form_of(formula) : std::nullopt;
  // Narrower vectors, and fewer registers, have not been measured.
  if (!form || target.kind != TargetKind::Cpu || target.vector_bits < 512) return std::nullopt;
  auto size = [&](VarId loop) { return nominal(formula.variable(loop).extent, options); };
  Picture picture{1, size(form->down), size(form->across), size(form->channel), size(form->filter)};
  for (VarId axis : form->batch) picture.count *= size(axis);
  std::optional<Choice> best;
  for (const WinogradTransform& transform : WinogradTransform::all()) {
    auto made = tiling_of(picture, transform, target);
    if (!made || made->predicted_ns >= (best ? best->predicted_ns : choice.predicted_ns)) continue;
    best = choice;
    best->schedule = std::move(made->schedule);
    best->scratch_bytes = made->scratch_bytes;
    best->predicted_ns = made->predicted_ns;
  }
  return best;
}

Result<Formula> winograd_formula(const Formula& window, std::int64_t output) {
  const WinogradTransform* transform = WinogradTransform::of(output);
  auto form = form_of(window);
  if (transform == nullptr || !form)
    return failure(ErrorClass::Unsupported, "the schedule 'winograd' does not take this window");
  return Rewriting(window, std::move(*form), *transform).run();
}

Result<Tensor> winograd_weights(const Tensor& weights, std::int64_t output) {
  const WinogradTransform* transform = WinogradTransform::of(output);
  const Dims& dims = weights.dims();
  if (transform == nullptr || weights.dtype() != DType::F32 || dims.size() != 4 || dims[2] != 3 ||
      dims[3] != 3)
    return failure(ErrorClass::Unsupported, "the schedule 'winograd' does not take these weights");
  const std::int64_t n = transform->input();
  XYNTRA_TRY(Tensor made, Tensor::allocate(DType::F32, {dims[0], dims[1], n, n}));
  const Tensor aligned = weights.aligned();
  const std::span<const float> from = aligned.view<float>();
  const std::span<float> to = made.mutable_view<float>();
  const auto size = static_cast<std::size_t>(n);
  std::vector<double> half(size * 3);
  for (std::size_t w = 0; w * 9 < from.size(); ++w) {
    const std::span<const float> window = from.subspan(w * 9, 9);
    for (std::size_t a = 0; a < size; ++a) {
      const std::span<const double> row = transform->weights(static_cast<std::int64_t>(a));
      for (std::size_t j = 0; j < 3; ++j)
        half[a * 3 + j] = row[0] * window[j] + row[1] * window[3 + j] + row[2] * window[6 + j];
    }
    for (std::size_t a = 0; a < size; ++a) {
      for (std::size_t b = 0; b < size; ++b) {
        const std::span<const double> row = transform->weights(static_cast<std::int64_t>(b));
        double sum = 0;
        for (std::size_t j = 0; j < 3; ++j) sum += row[j] * half[a * 3 + j];
        to[(w * size + a) * size + b] = static_cast<float>(sum);
      }
    }
  }
  return made;
}

}  // namespace xyntra
