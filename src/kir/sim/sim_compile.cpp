#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "kir/intrinsics.h"
#include "kir/sim/sim_program.h"
#include "te/math/math.h"
#include "te/walk.h"
#include "types/tensor.h"

namespace xyntra::kir::sim {
namespace {

using te::ExprNode;
using te::ExprOp;

constexpr std::size_t kMostInstructions = 200'000;  // of one statement

// The code of one statement. A load inside a branch of select is done only where the select's condition holds: such
// conditions form a chain of guards, and a part is compiled once per guard, or not again when a weaker guard had it.
class CodeBuilder {
 public:
  CodeBuilder(const Kernel& kernel, const SymbolBindings& bindings, const std::set<VarId>& uniform_variables,
              std::vector<Constant>& constants)
      : kernel_(kernel), bindings_(bindings), uniform_variables_(uniform_variables), constants_(constants) {}

  Ref value(const Expr& expr) {
    Expr expanded = te::expand_math(expr);
    kept_.push_back(expanded);  // parts are remembered by address
    mark_loads(expanded);
    return part(expanded);
  }

  Access place(BufferId buffer, const std::vector<Expr>& index) {
    Access access;
    access.buffer = buffer;
    for (const Expr& one : index) access.index.push_back(value(one));
    return access;
  }

  // Temporaries that are never needed at the same time share their lanes. `roots` are what the step itself looks at.
  Code finish(const std::vector<Ref*>& roots) {
    mark_nans(roots);
    std::unordered_map<Ref, std::size_t> last;
    auto& instructions = code_.instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      for_each_operand(instructions[i], [&](Ref& ref) { last[ref] = i; });
    }
    for (Ref* root : roots) last[*root] = instructions.size();
    std::unordered_map<Ref, Ref> renamed;
    std::array<std::vector<Ref>, 2> free;  // varying, uniform
    std::array<Ref, 2> used = {0, kUniform};
    auto rename = [&renamed](Ref& ref) {
      if (is_temporary(ref)) ref = renamed.at(ref);
    };
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      Instruction& instruction = instructions[i];
      const std::size_t kind = is_uniform(instruction.result) ? 1 : 0;
      Ref fresh = used[kind];
      if (free[kind].empty()) {
        ++used[kind];
      } else {
        fresh = free[kind].back();
        free[kind].pop_back();
      }
      std::vector<Ref> ending;
      for_each_operand(instruction, [&](Ref& ref) {
        if (is_temporary(ref) && last.at(ref) == i) ending.push_back(ref);
      });
      std::sort(ending.begin(), ending.end());
      ending.erase(std::unique(ending.begin(), ending.end()), ending.end());
      for (Ref ref : ending) free[is_uniform(ref) ? 1 : 0].push_back(renamed.at(ref));
      for_each_operand(instruction, rename);
      renamed[instruction.result] = fresh;
      instruction.result = fresh;
    }
    for (Ref* root : roots) rename(*root);
    code_.varying = used[0];
    code_.uniform = used[1] - kUniform;
    return std::move(code_);
  }

  std::size_t instructions() const { return code_.instructions.size(); }

 private:
  struct Guard {
    Ref condition = kNothing;  // of this and all guards around it
    int outer = -1;
  };

  static bool is_temporary(Ref ref) { return ref >= 0 && ref != kNothing; }

  template <class Visit>
  void for_each_operand(Instruction& instruction, Visit visit) {
    for (Ref& ref : instruction.operands) visit(ref);
    if (instruction.access < 0) return;
    Access& access = code_.accesses[static_cast<std::size_t>(instruction.access)];
    for (Ref& ref : access.index) visit(ref);
    visit(access.guard);
    visit(access.fallback);
  }

  // Which parts hold a load: only these depend on the guard.
  bool mark_loads(const Expr& expr) {
    if (auto known = has_load_.find(expr.address()); known != has_load_.end()) return known->second;
    bool found = te::is_load(*expr);
    for (const Expr& operand : expr->operands) found = mark_loads(operand) || found;
    return has_load_[expr.address()] = found;
  }

  Ref part(const Expr& expr) {
    int guard = has_load_.at(expr.address()) ? guard_ : -1;
    for (int g = guard;; g = guards_[static_cast<std::size_t>(g)].outer) {
      if (auto known = known_.find({expr.address(), g}); known != known_.end()) return known->second;
      if (g < 0) break;
    }
    Ref made = node(*expr);
    known_.emplace(std::make_pair(expr.address(), guard), made);
    return made;
  }

  Ref node(const ExprNode& node) {
    switch (node.op) {
      case ExprOp::Const: return constant(node.dtype, node.float_value, node.int_value);
      case ExprOp::Size: return constant(DType::I64, 0, *node.size.evaluate(bindings_));
      case ExprOp::Load:
      case ExprOp::LoadOr: return load(node);
      case ExprOp::Select: return choice(node);
      default: break;
    }
    Instruction instruction;
    instruction.op = node.op;
    instruction.dtype = node.dtype;
    instruction.operand_dtype = node.operands.empty() ? node.dtype : node.operands[0].dtype();
    instruction.cast = node.cast;
    instruction.variable = node.var;
    for (std::size_t i = 0; i < node.operands.size(); ++i) instruction.operands[i] = part(node.operands[i]);
    return emit(instruction);
  }

  Ref choice(const ExprNode& node) {
    Instruction instruction;
    instruction.op = ExprOp::Select;
    instruction.dtype = node.dtype;
    instruction.operand_dtype = DType::Bool;
    instruction.operands[0] = part(node.operands[0]);
    for (std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      bool guarded = has_load_.at(node.operands[i].address());
      int outer = guard_;
      if (guarded) guard_ = guard_for(instruction.operands[0], i == 1);
      instruction.operands[i] = part(node.operands[i]);
      guard_ = outer;
    }
    return emit(instruction);
  }

  int guard_for(Ref condition, bool holds) {
    auto key = std::make_tuple(guard_, condition, holds);
    if (auto known = guard_numbers_.find(key); known != guard_numbers_.end()) return known->second;
    Ref own = condition;
    if (!holds) own = logic(ExprOp::Not, condition, kNothing);
    if (guard_ >= 0) own = logic(ExprOp::And, own, guards_[static_cast<std::size_t>(guard_)].condition);
    guards_.push_back({own, guard_});
    return guard_numbers_[key] = static_cast<int>(guards_.size()) - 1;
  }

  Ref logic(ExprOp op, Ref a, Ref b) {
    Instruction instruction;
    instruction.op = op;
    instruction.dtype = instruction.operand_dtype = DType::Bool;
    instruction.operands = {a, b, kNothing};
    return emit(instruction);
  }

  Ref load(const ExprNode& node) {
    Access access;
    access.buffer = node.buffer;
    for (const Expr& one : te::index_of(node)) access.index.push_back(part(one));
    if (node.op == ExprOp::LoadOr) access.fallback = part(node.operands[0]);
    if (guard_ >= 0) access.guard = guards_[static_cast<std::size_t>(guard_)].condition;
    Instruction instruction;
    instruction.op = node.op;
    instruction.dtype = instruction.operand_dtype = node.dtype;
    instruction.access = static_cast<int>(code_.accesses.size());
    code_.accesses.push_back(std::move(access));
    return emit(instruction);
  }

  // A fresh temporary: one value for all lanes when everything it is made of has one.
  Ref emit(Instruction instruction) {
    bool uniform = instruction.op != ExprOp::Var || uniform_variables_.count(instruction.variable) != 0;
    for_each_operand(instruction,
                     [&](Ref& ref) { uniform = uniform && (ref == kNothing || is_uniform(ref)); });
    if (instruction.access >= 0) {
      const Buffer& buffer =
          kernel_.buffer(code_.accesses[static_cast<std::size_t>(instruction.access)].buffer);
      uniform = uniform && buffer.scope == Scope::Global && !buffer.written;
    }
    instruction.result = uniform ? kUniform + code_.uniform++ : code_.varying++;
    code_.instructions.push_back(instruction);
    return instruction.result;
  }

  Ref constant(DType dtype, double float_value, std::int64_t int_value) {
    Constant made{};
    switch (te::lane_of(dtype)) {
      case te::Lane::F32: made.f32 = static_cast<float>(float_value); break;
      case te::Lane::F64: made.f64 = float_value; break;
      case te::Lane::I64: made.i64 = int_value; break;
    }
    constants_.push_back(made);
    return -static_cast<Ref>(constants_.size());
  }

  // Arithmetic on a NaN gives a NaN whatever its bits, so they are settled only where someone looks at them.
  void mark_nans(const std::vector<Ref*>& roots) {
    std::unordered_set<Ref> seen;
    auto see = [&seen](Ref ref) { seen.insert(ref); };
    for (const Ref* root : roots) see(*root);
    for (const Access& access : code_.accesses) see(access.fallback);
    for (const Instruction& instruction : code_.instructions) {
      te::ExprKind kind = te::kind_of(instruction.op);
      bool computes = kind == te::ExprKind::Compare || te::makes_nan(instruction);
      if (computes) continue;
      for (Ref operand : instruction.operands) see(operand);
    }
    for (Instruction& instruction : code_.instructions) {
      instruction.settles_nan = seen.count(instruction.result) != 0 && te::makes_nan(instruction);
    }
  }

  const Kernel& kernel_;
  const SymbolBindings& bindings_;
  const std::set<VarId>& uniform_variables_;
  std::vector<Constant>& constants_;
  Code code_;
  std::vector<Expr> kept_;
  std::unordered_map<const ExprNode*, bool> has_load_;
  std::map<std::pair<const ExprNode*, int>, Ref> known_;
  std::vector<Guard> guards_;
  std::map<std::tuple<int, Ref, bool>, int> guard_numbers_;
  int guard_ = -1;
};

// Statements to steps.
class PhaseCompiler {
 public:
  PhaseCompiler(const Kernel& kernel, const SymbolBindings& bindings, Program& program)
      : kernel_(kernel), bindings_(bindings), program_(program) {}

  Status run(const Phase& phase) {
    made_.grid = phase.grid;
    made_.written.assign(kernel_.buffers.size(), false);
    Stmt body = phase.body;
    if (body->kind == StmtNode::Kind::Loop && body->loop == LoopKind::Cluster) {
      made_.cluster = program_.extents[body->var.index];
      made_.asynchronous = true;  // a clock per thread
      made_.threads.push_back(body->var);
      body = body->body.front();
    }
    while (body->kind == StmtNode::Kind::Loop && body->loop == LoopKind::Thread) {
      made_.threads.push_back(body->var);
      body = body->body.front();
    }
    for (VarId var : made_.grid) made_.items *= program_.extents[var.index];
    for (VarId var : made_.threads) made_.thread_count *= program_.extents[var.index];
    constexpr std::int64_t kMostThreads = 1 << 16;
    if (made_.thread_count > kMostThreads)
      return limit_error("kernel " + kernel_.name + " has too many threads");
    XYNTRA_CHECK_OK(statement(body));
    program_.phases.push_back(std::move(made_));
    return {};
  }

 private:
  Step begin(const Stmt& statement, Step::Kind kind) const {
    Step step;
    step.kind = kind;
    step.node = statement.address();
    return step;
  }
  CodeBuilder builder() { return {kernel_, bindings_, uniform_, program_.constants}; }

  Status add(Step step, CodeBuilder& code) {
    if (code.instructions() > kMostInstructions) {
      return limit_error("kernel " + kernel_.name + ": a statement is too long to simulate");
    }
    std::vector<Ref*> roots{&step.value};
    for (Ref& ref : step.target.index) roots.push_back(&ref);
    for (Access& place : step.places) {
      for (Ref& ref : place.index) roots.push_back(&ref);
    }
    for (Ref& ref : step.numbers) roots.push_back(&ref);
    std::erase_if(roots, [](const Ref* root) { return *root == kNothing; });
    step.code = code.finish(roots);
    program_.most_varying = std::max(program_.most_varying, step.code.varying);
    program_.most_uniform = std::max(program_.most_uniform, step.code.uniform);
    made_.steps.push_back(std::move(step));
    return {};
  }

  Status statement(const Stmt& statement) {
    const StmtNode& node = *statement;
    switch (node.kind) {
      case StmtNode::Kind::Block:
        for (const Stmt& inner : node.body) XYNTRA_CHECK_OK(this->statement(inner));
        return {};
      case StmtNode::Kind::Loop: return loop(statement);
      case StmtNode::Kind::If: return branch(statement);
      case StmtNode::Kind::Store: {
        Step step = begin(statement, Step::Kind::Store);
        CodeBuilder code = builder();
        step.value = code.value(node.value);
        step.target = code.place(node.buffer, node.index);
        made_.written[node.buffer.index] = true;
        return add(std::move(step), code);
      }
      case StmtNode::Kind::Check: {
        Step step = begin(statement, Step::Kind::Check);
        CodeBuilder code = builder();
        step.target = code.place(node.buffer, node.index);
        return add(std::move(step), code);
      }
      case StmtNode::Kind::Call: return call(statement);
    }
    return {};
  }

  Status loop(const Stmt& statement) {
    const StmtNode& node = *statement;
    bool vector = node.loop == LoopKind::Vector;
    Step step = begin(statement, vector ? Step::Kind::VectorBegin : Step::Kind::LoopBegin);
    step.variable = node.var;
    step.extent = program_.extents[node.var.index];
    std::size_t first = made_.steps.size();
    made_.steps.push_back(step);
    if (vector) {
      made_.widest_vector = std::max(made_.widest_vector, step.extent);
    } else {
      uniform_.insert(node.var);
    }
    XYNTRA_CHECK_OK(this->statement(node.body.front()));
    uniform_.erase(node.var);
    step.kind = vector ? Step::Kind::VectorEnd : Step::Kind::LoopEnd;
    step.target_step = first + 1;
    made_.steps.push_back(step);
    made_.steps[first].target_step = made_.steps.size();
    return {};
  }

  Status branch(const Stmt& statement) {
    Step step = begin(statement, Step::Kind::If);
    CodeBuilder code = builder();
    step.value = code.value(statement->condition);
    std::size_t at = made_.steps.size();
    XYNTRA_CHECK_OK(add(std::move(step), code));
    XYNTRA_CHECK_OK(this->statement(statement->body[0]));
    if (statement->body.size() > 1) {
      std::size_t jump = made_.steps.size();
      made_.steps.push_back(begin(statement, Step::Kind::Jump));
      made_.steps[at].target_step = made_.steps.size();
      XYNTRA_CHECK_OK(this->statement(statement->body[1]));
      made_.steps[jump].target_step = made_.steps.size();
    } else {
      made_.steps[at].target_step = made_.steps.size();
    }
    made_.steps[at].join = made_.steps.size();
    return {};
  }

  Status call(const Stmt& statement) {
    if (is_hint(statement->intrinsic)) return {};
    Step step = begin(statement, Step::Kind::Call);
    CodeBuilder code = builder();
    auto rules = places_of(statement->intrinsic);
    for (const Operand& operand : statement->operands) {
      if (!operand.buffer.valid()) {
        step.numbers.push_back(code.value(operand.value));
        continue;
      }
      const PlaceRule& rule = rules[step.places.size()];
      if (rule.access != PlaceAccess::Read) made_.written[operand.buffer.index] = true;
      step.places.push_back(code.place(operand.buffer, operand.index));
    }
    if (is_asynchronous(statement->intrinsic)) made_.asynchronous = true;
    return add(std::move(step), code);
  }

  const Kernel& kernel_;
  const SymbolBindings& bindings_;
  Program& program_;
  PhaseProgram made_;
  std::set<VarId> uniform_;  // variables of the serial loops around
};

}  // namespace

Result<Program> compile(const Kernel& kernel, const SymbolBindings& bindings) {
  Program program;
  for (const te::Variable& variable : kernel.variables) {
    XYNTRA_TRY(std::int64_t extent, variable.extent.evaluate(bindings));
    program.extents.push_back(std::max<std::int64_t>(extent, 0));
  }
  for (const Buffer& buffer : kernel.buffers) {
    BoundBuffer bound;
    for (const Dim& dim : buffer.shape) {
      XYNTRA_TRY(std::int64_t size, dim.evaluate(bindings));
      if (size < 0) return usage_error("a dimension of '" + buffer.name + "' is negative");
      bound.dims.push_back(size);
    }
    XYNTRA_TRY(bound.elements, element_count(bound.dims));
    program.buffers.push_back(std::move(bound));
  }
  Status sizes_bound;
  for_each_statement(kernel.body, [&](const StmtNode& node) {
    for_each_expr(node, [&](const Expr& expr) {
      te::for_each_node(expr, [&](const ExprNode& part) {
        if (!sizes_bound || part.op != ExprOp::Size) return;
        if (auto size = part.size.evaluate(bindings); !size) sizes_bound = failure(size.error());
      });
    });
  });
  XYNTRA_CHECK_OK(sizes_bound);
  for (const Phase& phase : phases_of(kernel))
    XYNTRA_CHECK_OK(PhaseCompiler(kernel, bindings, program).run(phase));
  return program;
}

}  // namespace xyntra::kir::sim
