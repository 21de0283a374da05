#include "schedule/convolution/winograd.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "schedule/convolution/winograd_cost.h"
#include "te/index/index.h"

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

// A window of 3 × 3 in steps of one, and who is who in it.
struct WindowForm {
  VarId down, across;  // axes of the result
  bool ends_down = false, ends_across = false;  // with what is read for the last result, the picture ends
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
      if (is_weight(stage_.body->operands[side]) && is_picture() && is_only_factor()) return form_;
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

  bool ends_with(const Expr& index, VarId axis, const Dim& size) const {
    const Dim& results = formula_.variable(axis).extent;
    return size.is_constant() && results.is_constant() &&
           te::IndexAlgebra(formula_).linear(index).constant.constant() + results.constant() + 2 >=
               size.constant();
  }

  bool is_picture() {
    const ExprNode* load = only_load(form_.element);
    if (load == nullptr || load->buffer == form_.weight->buffer || form_.element.dtype() != DType::F32)
      return false;
    std::set<VarId> elsewhere;  // loops that other indices speak of
    const std::vector<Expr> indices = te::index_of(*load);
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const Expr& index = indices[d];
      const Dim& size = formula_.buffer(load->buffer).shape[d];
      const VarId down = slides_along(index, form_.window_down);
      const VarId across = slides_along(index, form_.window_across);
      if (down.valid() && !form_.down.valid()) {
        form_.down = down;
        form_.ends_down = ends_with(index, down, size);
      } else if (across.valid() && !form_.across.valid()) {
        form_.across = across;
        form_.ends_across = ends_with(index, across, size);
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

  // The weights will lie in memory transformed: whoever else reads them would read something else.
  bool is_only_factor() const {
    int reads = 0;
    te::for_each_node(stage_, [&](const ExprNode& node) {
      if (te::is_load(node) && node.buffer == form_.weight->buffer) ++reads;
    });
    return reads == 1;
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
    add(d, axes, bordered(te::substituted(form_.element, place), place));

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

  // The last tiles may reach beyond what results read. Their elements there must be finite, since tiles add up all they have:
  // a load gives 0 there where the picture ends, but what stands around it might make anything of that.
  Expr bordered(const Expr& element, const Substitution& place) const {
    te::Rewriter beyond([](const Expr& node) {
      if (node->op != ExprOp::Load) return Expr();
      return Expr::load_or(Expr::number(node.dtype(), 0), node->buffer, te::index_of(*node));
    });
    Expr made = beyond(element);
    const bool is_finite = made->op == ExprOp::LoadOr && made->operands[0]->op == ExprOp::Const &&
                           std::isfinite(made->operands[0]->float_value);
    auto limit = [&](VarId axis, bool ends) {
      const std::int64_t size = extent(axis).constant();
      if ((is_finite && ends) || size % m_ == 0) return;
      const Expr is_read = place.at(axis.index) < Expr::index(size + n_ - m_);
      made = te::select(is_read, made, Expr::number(made.dtype(), 0));
    };
    limit(form_.down, form_.ends_down);
    limit(form_.across, form_.ends_across);
    return made;
  }

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

}  // namespace

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
  const auto form = choice.schedule.kind == ScheduleKind::Window ? form_of(formula) : std::nullopt;
  // Narrower vectors, and fewer registers, have not been measured.
  if (!form || target.kind != TargetKind::Cpu || target.vector_bits < 512) return std::nullopt;
  auto size = [&](VarId loop) { return nominal(formula.variable(loop).extent, options); };
  WinogradPicture picture{1, size(form->down), size(form->across), size(form->channel), size(form->filter)};
  for (VarId axis : form->batch) picture.count *= size(axis);
  // Its tiles are counted by their operations, so the window is, too.
  Dim bytes = 0;
  for (const te::BufferInfo& buffer : formula.buffers) {
    if (buffer.role != te::BufferRole::Temporary) bytes = bytes + bytes_of(buffer);
  }
  const std::int64_t as_window = target.estimate_ns(nominal(bytes, options), nominal(choice.flops, options),
                                                    DType::F32, 1, ArithmeticUnit::Matrix);
  std::optional<Choice> best;
  for (const WinogradTransform& transform : WinogradTransform::all()) {
    auto made = winograd_tiling(picture, transform, target);
    if (!made || made->predicted_ns >= (best ? best->predicted_ns : as_window)) continue;
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

}  // namespace xyntra
