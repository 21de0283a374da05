#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "interp/program.h"
#include "te/math/math.h"

namespace xyntra::interp {

using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Stage;

namespace {

constexpr std::int64_t kLeastTiledWork = 64;  // rows × lanes; below it packing costs more than it saves

class StageCompiler {
 public:
  StageCompiler(const te::Formula& formula, const Stage& stage, Mode mode)
      : formula_(formula), stage_(stage), float64_(mode.float64), in_order_(mode.in_order) {}

  Result<StageProgram> run(const std::vector<te::VarId>& enclosing) {
    program_.kind = stage_.kind;
    program_.reducer = stage_.reducer;
    program_.combiner = stage_.combiner;
    for (te::VarId var : enclosing) XYNTRA_CHECK_OK(add_slot(var));
    std::vector<int> axes, reduction;
    for (te::VarId var : stage_.axes) {
      XYNTRA_CHECK_OK(add_slot(var));
      axes.push_back(slot_of(var));
    }
    for (te::VarId var : stage_.reduction) {
      XYNTRA_CHECK_OK(add_slot(var));
      reduction.push_back(slot_of(var));
      reduction_slots_.push_back(slot_of(var));
    }
    for (const LoopVariable& slot : program_.slots) extents_.push_back(slot.extent);
    merge_axes(axes);
    merge_axes(reduction);
    if (!plan_contraction(axes, reduction)) choose_vector_axis(axes, reduction);
    for (int slot : axes) {
      if (slot != program_.vector_axis) program_.outer.push_back(slot);
    }
    for (int slot : reduction) {
      if (slot != program_.vector_axis) program_.reduction.push_back(slot);
    }
    compile_body();
    compile_store();
    mark_nans_to_settle();
    if (program_.registers.size() >= kNoRegister)
      return failure(ErrorClass::Internal, "formula stage is too large");
    return std::move(program_);
  }

 private:
  Status add_slot(te::VarId var) {
    const te::Variable& variable = formula_.variable(var);
    if (!variable.extent.is_constant()) {
      return failure(ErrorClass::Internal,
                     "formula " + formula_.name + ": size of '" + variable.name + "' is unbound");
    }
    program_.slots.push_back({var, variable.extent.constant()});
    return {};
  }

  int slot_of(te::VarId var) const {
    for (std::size_t i = 0; i < program_.slots.size(); ++i) {
      if (program_.slots[i].id == var) return static_cast<int>(i);
    }
    internal_error("interp: variable without a slot");
  }

  // ---- affine index analysis

  // sum += scale * term; false when a number does not fit, and the index is then computed lane by lane.
  static bool add_scaled(Affine& sum, const Affine& term, std::int64_t scale) {
    auto add = [scale](std::int64_t& target, std::int64_t value) {
      std::int64_t product = 0;
      return !__builtin_mul_overflow(value, scale, &product) &&
             !__builtin_add_overflow(target, product, &target);
    };
    bool fits = add(sum.constant, term.constant);
    for (std::size_t i = 0; i < sum.coefficients.size(); ++i) {
      fits = add(sum.coefficients[i], term.coefficients[i]) && fits;
    }
    return fits;
  }

  std::optional<Affine> affine_of(const Expr& expr) const {
    const ExprNode& node = *expr;
    Affine result;
    result.coefficients.assign(program_.slots.size(), 0);
    switch (node.op) {
      case ExprOp::Const: result.constant = node.int_value; return result;
      case ExprOp::Var: result.coefficients[static_cast<std::size_t>(slot_of(node.var))] = 1; return result;
      case ExprOp::Add:
      case ExprOp::Sub: {
        auto a = affine_of(node.operands[0]), b = affine_of(node.operands[1]);
        if (!a || !b || !add_scaled(*a, *b, node.op == ExprOp::Add ? 1 : -1)) return std::nullopt;
        return a;
      }
      case ExprOp::Mul: {
        auto a = affine_of(node.operands[0]), b = affine_of(node.operands[1]);
        if (!a || !b) return std::nullopt;
        auto is_number = [](const Affine& x) {
          return std::all_of(x.coefficients.begin(), x.coefficients.end(), [](auto c) { return c == 0; });
        };
        if (!is_number(*a)) std::swap(a, b);
        if (!is_number(*a) || !add_scaled(result, *b, a->constant)) return std::nullopt;
        return result;
      }
      default: return std::nullopt;
    }
  }

  // Whether the index stays within [0, extent) at every point of the loops.
  bool within(const Affine& affine, std::int64_t extent) const {
    __extension__ using Wide = __int128;
    Wide low = affine.constant, high = affine.constant;
    for (std::size_t i = 0; i < affine.coefficients.size(); ++i) {
      Wide reach = static_cast<Wide>(affine.coefficients[i]) * (extents_[i] - 1);
      (reach < 0 ? low : high) += reach;
    }
    return low >= 0 && high < extent;
  }

  // The access of a load or store; affine when every index is.
  Access make_access(te::BufferId id, std::span<const Expr> index, bool guarded) const {
    const te::BufferInfo& buffer = formula_.buffer(id);
    Access access;
    access.buffer = id;
    access.guarded = guarded;
    access.affine = true;
    access.in_bounds = true;
    access.offset.coefficients.assign(program_.slots.size(), 0);
    std::int64_t stride = 1;
    access.index.resize(index.size());
    for (std::size_t d = index.size(); d-- > 0;) {
      auto affine = affine_of(index[d]);
      if (!affine) {
        access.affine = false;
        break;
      }
      std::int64_t extent = buffer.shape[d].constant();
      if (!within(*affine, extent)) access.in_bounds = false;
      if (!add_scaled(access.offset, *affine, stride)) {
        access.affine = false;
        break;
      }
      access.index[d] = std::move(*affine);
      if (__builtin_mul_overflow(stride, extent, &stride) && d > 0) {
        access.affine = false;  // a buffer that nothing can hold
        break;
      }
    }
    return access;
  }

  // ---- merging axes

  // Two neighbouring axes that every access walks as one (the outer moves as far as the inner does in all) become
  // one long loop, so that vectors stay full when the innermost axis is short.
  void merge_axes(std::vector<int>& axes) {
    std::erase_if(axes,
                  [this](int slot) { return program_.slots[static_cast<std::size_t>(slot)].extent == 1; });
    if (stage_.kind == Stage::Kind::Scatter) return;
    for (std::size_t i = axes.size(); i-- > 1;) {
      auto outer = static_cast<std::size_t>(axes[i - 1]), inner = static_cast<std::size_t>(axes[i]);
      std::int64_t together = 0;
      bool fits =
          !__builtin_mul_overflow(program_.slots[inner].extent, program_.slots[outer].extent, &together);
      if (!fits || !walk_as_one(outer, inner)) continue;
      program_.slots[inner].extent = together;
      program_.slots[outer].extent = 1;
      std::swap(axes[i - 1], axes[i]);  // the long one goes on to meet its next neighbour
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  bool walk_as_one(std::size_t outer, std::size_t inner) const {
    Footprint footprint;
    for (const Expr* expr : {&stage_.body, &stage_.finish, &stage_.guard}) {
      if (expr->defined()) collect_uses(*expr, footprint);
    }
    auto is_used = [this](const std::vector<te::VarId>& used, std::size_t slot) {
      return std::find(used.begin(), used.end(), program_.slots[slot].id) != used.end();
    };
    if (is_used(footprint.bare, outer) || is_used(footprint.bare, inner)) return false;
    footprint.accesses.emplace_back(stage_.target, std::span(stage_.store));
    for (const auto& [buffer, index] : footprint.accesses) {
      Access access = make_access(buffer, index, true);
      if (!access.affine || !access.in_bounds) return false;
      const auto& walk = access.offset.coefficients;
      std::int64_t whole = 0;
      if (__builtin_mul_overflow(walk[inner], program_.slots[inner].extent, &whole)) return false;
      if (walk[outer] != whole) return false;
    }
    return true;
  }

  // What a stage reads, and the variables it uses other than as an index.
  struct Footprint {
    std::vector<std::pair<te::BufferId, std::span<const Expr>>> accesses;
    std::vector<te::VarId> bare;
    std::unordered_map<const ExprNode*, bool> seen;
  };

  void collect_uses(const Expr& expr, Footprint& footprint) const {
    if (!footprint.seen.emplace(expr.address(), true).second) return;
    if (expr->op == ExprOp::Var) footprint.bare.push_back(expr->var);
    if (expr->op == ExprOp::Load || expr->op == ExprOp::LoadOr) {
      std::size_t first = expr->op == ExprOp::LoadOr ? 1 : 0;
      std::span<const Expr> index = std::span(expr->operands).subspan(first);
      footprint.accesses.emplace_back(expr->buffer, index);
      bool affine =
          std::all_of(index.begin(), index.end(), [this](const Expr& i) { return affine_of(i).has_value(); });
      if (affine) {
        if (first == 1) collect_uses(expr->operands[0], footprint);
        return;
      }
    }
    for (const Expr& operand : expr->operands) collect_uses(operand, footprint);
  }

  // ---- contractions

  // The load behind a factor, seen through conversions between floats; null when there is more to it.
  static const ExprNode* direct_load(const Expr& factor) {
    const ExprNode* node = factor.address();
    while (node->op == ExprOp::Cast && is_float(node->dtype) && is_float(node->operands[0].dtype()) &&
           bits_of(node->dtype) >= 32) {
      node = node->operands[0].address();
    }
    bool padded = node->op == ExprOp::LoadOr && node->operands[0].is_constant();
    return is_float(node->dtype) && (node->op == ExprOp::Load || padded) ? node : nullptr;
  }

  std::int64_t extent(int slot) const { return program_.slots[static_cast<std::size_t>(slot)].extent; }

  static bool depends(const Access& access, int slot) {
    return std::any_of(access.index.begin(), access.index.end(), [slot](const Affine& index) {
      return index.coefficients[static_cast<std::size_t>(slot)] != 0;
    });
  }

  bool plan_contraction(const std::vector<int>& axes, const std::vector<int>& reduction) {
    DType dtype = effective(stage_.body.dtype(), float64_);
    bool is_sum_of_products = stage_.kind == Stage::Kind::MapReduce && stage_.reducer == te::Reducer::Sum &&
                              stage_.body->op == ExprOp::Mul && (dtype == DType::F32 || dtype == DType::F64);
    if (!is_sum_of_products || reduction.empty() || in_order_) return false;
    std::array<Access, 2> accesses;
    std::array<double, 2> fallbacks = {0, 0};
    std::array<std::optional<double>, 2> numbers;
    for (std::size_t f = 0; f < 2; ++f) {
      const Expr& factor = stage_.body->operands[f];
      if (factor->op == ExprOp::Const) {
        numbers[f] = factor->float_value;
        continue;
      }
      const ExprNode* load = direct_load(factor);
      if (load == nullptr) return false;
      std::size_t first = load->op == ExprOp::LoadOr ? 1 : 0;
      accesses[f] = make_access(load->buffer, std::span(load->operands).subspan(first), false);
      if (!accesses[f].affine || (first == 0 && !accesses[f].in_bounds)) return false;
      if (first == 1) fallbacks[f] = load->operands[0]->float_value;
    }
    std::array<std::vector<int>, 2> own;
    for (int slot : axes) {
      for (std::size_t f = 0; f < 2; ++f) {
        bool may = numbers[f] || depends(accesses[f], slot);
        if (may && !depends(accesses[1 - f], slot)) own[f].push_back(slot);
      }
    }
    if (own[0].empty() || own[1].empty() || (numbers[0] && numbers[1])) return false;
    auto longer = [this](int a, int b) { return extent(a) < extent(b); };
    std::array<int, 2> longest{};
    for (std::size_t f = 0; f < 2; ++f) longest[f] = *std::max_element(own[f].begin(), own[f].end(), longer);
    std::size_t lanes = extent(longest[0]) > extent(longest[1]) ? 0 : 1;  // which factor the lanes belong to
    Contraction plan;
    plan.rows = own[1 - lanes];
    plan.depth = *std::max_element(reduction.begin(), reduction.end(), longer);
    std::int64_t work = extent(longest[lanes]);
    for (int slot : plan.rows)
      work = std::min(work * std::max<std::int64_t>(1, extent(slot)), kLeastTiledWork);
    if (work < kLeastTiledWork) return false;
    program_.vector_axis = longest[lanes];
    for (int slot : axes) {
      bool is_row = std::find(plan.rows.begin(), plan.rows.end(), slot) != plan.rows.end();
      if (!is_row && slot != program_.vector_axis) plan.outer.push_back(slot);
    }
    for (int slot : reduction) {
      if (slot != plan.depth) plan.reduction.push_back(slot);
    }
    plan.row_access = std::move(accesses[1 - lanes]);
    plan.lane_access = std::move(accesses[lanes]);
    plan.row_number = numbers[1 - lanes];
    plan.lane_number = numbers[lanes];
    plan.row_fallback = fallbacks[1 - lanes];
    plan.lane_fallback = fallbacks[lanes];
    program_.contraction = std::move(plan);
    return true;
  }

  // ---- choosing the vectorised axis

  void collect_loads(const Expr& expr, std::vector<const ExprNode*>& loads,
                     std::unordered_map<const ExprNode*, bool>& seen) const {
    if (!seen.emplace(expr.address(), true).second) return;
    if (expr->op == ExprOp::Load || expr->op == ExprOp::LoadOr) loads.push_back(expr.address());
    for (const Expr& operand : expr->operands) collect_loads(operand, loads, seen);
  }

  void choose_vector_axis(const std::vector<int>& axes, const std::vector<int>& reduction) {
    if (stage_.kind == Stage::Kind::Scatter) {  // order matters: only the innermost axis keeps it
      if (!axes.empty()) program_.vector_axis = axes.back();
      return;
    }
    std::vector<const ExprNode*> loads;
    std::unordered_map<const ExprNode*, bool> seen;
    collect_loads(stage_.body, loads, seen);
    std::vector<Access> accesses;
    for (const ExprNode* load : loads) {
      std::size_t first = load->op == ExprOp::LoadOr ? 1 : 0;
      accesses.push_back(make_access(load->buffer, std::span(load->operands).subspan(first), true));
    }
    Access store = make_access(stage_.target, stage_.store, true);
    std::int64_t best = -1;
    auto consider = [&](int slot, bool reduces) {
      auto s = static_cast<std::size_t>(slot);
      std::int64_t score = 0;
      for (const Access& access : accesses) {
        std::int64_t stride = access.affine ? access.offset.coefficients[s] : 7;
        score += stride == 0 ? 3 : stride == 1 ? 4 : access.affine ? 2 : 1;
      }
      if (!reduces) score += store.affine && store.offset.coefficients[s] == 1 ? 4 : 3;
      // Long axes win; past a few dozen lanes, addressing decides.
      score = (score + 1) * std::min<std::int64_t>(program_.slots[s].extent, 48);
      if (score > best) {
        best = score;
        program_.vector_axis = slot;
        program_.vector_axis_reduces = reduces;
      }
    };
    for (auto slot = axes.rbegin(); slot != axes.rend(); ++slot) consider(*slot, false);
    if (in_order_) return;
    for (auto slot = reduction.rbegin(); slot != reduction.rend(); ++slot) consider(*slot, true);
  }

  // ---- values

  struct ValueInfo {
    Register result = kNoRegister;
    bool reduces = false;  // depends on a reduction axis
  };

  Register add_register(DType dtype, bool uniform) {
    program_.registers.push_back({lane_of(dtype), uniform});
    return static_cast<Register>(program_.registers.size() - 1);
  }

  bool uniform(Register r) const { return r == kNoRegister || program_.registers[r].uniform; }

  ValueInfo emit(Instruction instruction, std::span<const ValueInfo> operands, bool own_uniform,
                 bool own_reduces) {
    bool is_uniform = own_uniform, reduces = own_reduces;
    for (const ValueInfo& operand : operands) {
      is_uniform = is_uniform && uniform(operand.result);
      reduces = reduces || operand.reduces;
    }
    std::size_t count = std::min<std::size_t>(operands.size(), 3);
    if (instruction.access < 0) {
      for (std::size_t i = 0; i < count; ++i) instruction.operands[i] = operands[i].result;
    }
    auto key =
        std::make_tuple(instruction.op, instruction.dtype, instruction.operand_dtype, instruction.operands[0],
                        instruction.operands[1], instruction.operands[2], instruction.access,
                        instruction.variable, instruction.cast.saturate, instruction.cast.scale_rounding);
    if (auto found = known_.find(key); found != known_.end()) return found->second;
    instruction.result = add_register(instruction.dtype, is_uniform);
    auto& code = in_finish_ ? program_.after : reduces ? program_.inner : program_.before;
    code.push_back(instruction);
    ValueInfo value{instruction.result, reduces};
    if (!in_finish_) known_.emplace(key, value);
    return value;
  }

  ValueInfo constant(const ExprNode& node, DType dtype) {
    for (const auto& existing : program_.constants) {
      bool same_bits = std::bit_cast<std::uint64_t>(existing.float_value) ==
                       std::bit_cast<std::uint64_t>(node.float_value);
      if (same_bits && existing.int_value == node.int_value &&
          program_.registers[existing.result].lane == lane_of(dtype)) {
        return {existing.result, false};
      }
    }
    Register result = add_register(dtype, true);
    program_.constants.push_back({result, node.float_value, node.int_value});
    return {result, false};
  }

  bool is_reduction_slot(int slot) const {
    return std::find(reduction_slots_.begin(), reduction_slots_.end(), slot) != reduction_slots_.end();
  }

  ValueInfo load(const ExprNode& node, bool guarded) {
    bool with_fallback = node.op == ExprOp::LoadOr;
    std::span<const Expr> index = std::span(node.operands).subspan(with_fallback ? 1 : 0);
    Access access = make_access(node.buffer, index, guarded);
    std::vector<ValueInfo> operands;
    if (with_fallback) {
      operands.push_back(value_of(node.operands[0], guarded));
      access.fallback = operands[0].result;
    }
    bool own_uniform = true, own_reduces = false;
    if (access.affine) {
      for (std::size_t s = 0; s < program_.slots.size(); ++s) {
        bool used = std::any_of(access.index.begin(), access.index.end(),
                                [s](const Affine& a) { return a.coefficients[s] != 0; });
        if (!used) continue;
        if (static_cast<int>(s) == program_.vector_axis) own_uniform = false;
        if (is_reduction_slot(static_cast<int>(s))) own_reduces = true;
      }
    } else {
      for (const Expr& i : index) {
        operands.push_back(value_of(i, guarded));
        access.index_registers.push_back(operands.back().result);
      }
    }
    Instruction instruction{};
    instruction.op = node.op;
    instruction.dtype = instruction.operand_dtype = effective(node.dtype, float64_);
    program_.accesses.push_back(std::move(access));
    instruction.access = static_cast<int>(program_.accesses.size()) - 1;
    return emit(instruction, operands, own_uniform, own_reduces);
  }

  ValueInfo value_of(const Expr& expr, bool guarded) {
    auto memo_key = std::make_pair(expr.address(), guarded);
    auto& memo = in_finish_ ? finish_memo_ : memo_;
    if (auto found = memo.find(memo_key); found != memo.end()) return found->second;
    ValueInfo value = compute(expr, guarded);
    memo.emplace(memo_key, value);
    return value;
  }

  ValueInfo compute(const Expr& expr, bool guarded) {
    const ExprNode& node = *expr;
    DType dtype = effective(node.dtype, float64_);
    Instruction instruction{};
    instruction.op = node.op;
    instruction.dtype = dtype;
    instruction.operand_dtype = dtype;
    switch (node.op) {
      case ExprOp::Const: return constant(node, dtype);
      case ExprOp::Accumulator: return {program_.accumulator, false};
      case ExprOp::Load:
      case ExprOp::LoadOr: return load(node, guarded);
      case ExprOp::Var: {
        int slot = slot_of(node.var);
        instruction.variable = slot;
        return emit(instruction, {}, slot != program_.vector_axis, is_reduction_slot(slot));
      }
      case ExprOp::Size: internal_error("interp: unbound size " + node.size.to_string());
      default: break;
    }
    if (te::kind_of(node.op) == te::ExprKind::Math && !float64_) {
      DType inner = compute_type(node.dtype);
      std::vector<Expr> operands;
      for (const Expr& operand : node.operands) operands.push_back(te::cast(inner, operand));
      Expr definition = te::cast(node.dtype, te::expand(node.op, operands));
      expansions_.push_back(definition);  // keeps the nodes alive that the memo names by address
      return value_of(definition, guarded);
    }
    std::vector<ValueInfo> operands;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      bool branch = node.op == ExprOp::Select && i > 0;
      operands.push_back(value_of(node.operands[i], guarded || branch));
    }
    instruction.operand_dtype = effective(node.operands[0].dtype(), float64_);
    instruction.cast = node.cast;
    if (node.op == ExprOp::Cast && instruction.operand_dtype == dtype) return operands[0];
    if (node.op == ExprOp::Bitcast) {  // bits are those of the declared dtypes, whatever the mode
      instruction.operand_dtype = node.operands[0].dtype();
      instruction.dtype = node.dtype;
      if (float64_) operands[0] = narrowed(operands[0], instruction.operand_dtype);
      return widened(emit(instruction, operands, true, false), node.dtype);
    }
    return emit(instruction, operands, true, false);
  }

  ValueInfo convert(ValueInfo value, DType from, DType to) {
    if (from == to) return value;
    Instruction instruction{};
    instruction.op = ExprOp::Cast;
    instruction.dtype = to;
    instruction.operand_dtype = from;
    return emit(instruction, std::span(&value, 1), true, false);
  }
  ValueInfo narrowed(ValueInfo value, DType declared) {
    return convert(value, effective(declared, float64_), declared);
  }
  ValueInfo widened(ValueInfo value, DType declared) {
    return convert(value, declared, effective(declared, float64_));
  }

  void compile_body() {
    const ExprNode& body = *stage_.body;
    DType dtype = effective(body.dtype, float64_);
    program_.accumulator_dtype = dtype;
    if (stage_.reducer == te::Reducer::None) {
      program_.body = value_of(stage_.body, false).result;
      return;
    }
    bool wide = dtype == DType::F32 || dtype == DType::F64;
    if (program_.contraction) {
      // Both factors are packed from memory; no code computes them.
    } else if (stage_.reducer == te::Reducer::Sum && body.op == ExprOp::Mul && wide) {
      for (std::size_t i = 0; i < 2; ++i) program_.factors[i] = value_of(body.operands[i], false).result;
    } else {
      program_.body = value_of(stage_.body, false).result;
    }
    program_.accumulator = add_register(dtype, program_.vector_axis_reduces || program_.vector_axis < 0);
  }

  void compile_store() {
    DType from = effective(stage_.body.dtype(), float64_);
    Register value = program_.body;
    if (stage_.reducer != te::Reducer::None) {
      in_finish_ = true;
      value = program_.accumulator;
    }
    if (stage_.finish.defined()) {
      require(stage_.reducer != te::Reducer::None, "interp: finish without a reducer");
      value = value_of(stage_.finish, false).result;
      from = effective(stage_.finish.dtype(), float64_);
    }
    program_.store_dtype = effective(formula_.buffer(stage_.target).dtype, float64_);
    program_.value = convert({value, false}, from, program_.store_dtype).result;
    program_.store = make_access(stage_.target, stage_.store, false);
    if (!program_.store.affine) {
      for (const Expr& i : stage_.store) program_.store.index_registers.push_back(value_of(i, false).result);
    }
    if (stage_.guard.defined()) program_.guard = value_of(stage_.guard, false).result;
  }

  // ---- NaN

  // What becomes of its operand's NaN depends on the NaN's bits.
  static bool moves_bits(ExprOp op) {
    switch (op) {
      case ExprOp::Cast:
      case ExprOp::Bitcast:
      case ExprOp::Select:
      case ExprOp::Neg:
      case ExprOp::Abs: return true;
      default: return false;
    }
  }

  // Arithmetic on a NaN gives a NaN whatever its bits, so only the last of a chain of operations settles them.
  void mark_nans_to_settle() {
    std::vector<bool> seen(program_.registers.size(), false);
    auto see = [&seen](Register r) {
      if (r != kNoRegister) seen[r] = true;
    };
    see(program_.value);
    for (const Access& access : program_.accesses) see(access.fallback);
    for (auto* code : {&program_.before, &program_.inner, &program_.after}) {
      for (const Instruction& instruction : *code) {
        bool to_integer = instruction.op == ExprOp::Cast && !is_float(instruction.dtype);
        if (!moves_bits(instruction.op) || to_integer) continue;
        for (Register operand : instruction.operands) see(operand);
      }
    }
    for (auto* code : {&program_.before, &program_.inner, &program_.after}) {
      for (Instruction& instruction : *code) {
        instruction.settles_nan = seen[instruction.result] && te::makes_nan(instruction);
      }
    }
  }

  using Key = std::tuple<ExprOp, DType, DType, Register, Register, Register, int, int, bool, std::uint8_t>;

  const te::Formula& formula_;
  const Stage& stage_;
  bool float64_, in_order_;
  bool in_finish_ = false;
  std::vector<std::int64_t> extents_;  // of the slots before axes were merged: what bounds are judged by
  StageProgram program_;
  std::vector<int> reduction_slots_;
  std::map<Key, ValueInfo> known_;
  std::map<std::pair<const ExprNode*, bool>, ValueInfo> memo_, finish_memo_;
  std::vector<Expr> expansions_;
};

}  // namespace

Result<StageProgram> compile_stage(const te::Formula& formula, const Stage& stage,
                                   const std::vector<te::VarId>& enclosing, Mode mode) {
  return StageCompiler(formula, stage, mode).run(enclosing);
}

}  // namespace xyntra::interp
