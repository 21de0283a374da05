#include "codegen/wgsl/emitter.h"

#include <algorithm>
#include <cmath>

#include "kir/intrinsics.h"

namespace xyntra::wgsl {

using kir::LoopKind;
using kir::Scope;
using kir::StmtNode;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

constexpr std::int64_t kInvocations = 256;  // of a workgroup, where each does a work item of its own
constexpr std::int64_t kMostPrivateBytes = 16 << 10;
constexpr std::size_t kLongText = 72;  // longer expressions are cut into lines

Status unsupported(const std::string& what) {
  return failure(ErrorClass::Unsupported, "no shader can be made of " + what);
}

bool is_word(const std::string& text) { return text.find_first_of(" (") == std::string::npos; }

bool is_private(Scope scope) { return scope == Scope::Register || scope == Scope::Shared; }

// What can be said in 32 bits about positions in buffers, which have fewer elements than that.
bool is_index_arithmetic(ExprOp op) {
  switch (op) {
    case ExprOp::Add:
    case ExprOp::Sub:
    case ExprOp::Mul:
    case ExprOp::Neg:
    case ExprOp::Min:
    case ExprOp::Max:
    case ExprOp::Div:
    case ExprOp::Rem:
    case ExprOp::FloorDiv:
    case ExprOp::Mod: return true;
    default: return false;
  }
}

// Made of loops, sizes and numbers of 32 bits, so that 32 bits hold it. What was read from memory can be anything, so
// it is not multiplied.
bool is_position(const Expr& expr, bool may_read = true) {
  const ExprNode& node = *expr;
  if (node.dtype != DType::I64) return false;
  auto all = [may_read](std::span<const Expr> operands, bool read) {
    return std::all_of(operands.begin(), operands.end(),
                       [&](const Expr& operand) { return is_position(operand, may_read && read); });
  };
  switch (node.op) {
    case ExprOp::Const: return node.int_value >= INT32_MIN && node.int_value <= INT32_MAX;
    case ExprOp::Var:
    case ExprOp::Size: return true;
    case ExprOp::Cast: {
      const DType from = node.operands[0].dtype();
      return may_read && is_integer(from) && (bits_of(from) < 32 || from == DType::I32);
    }
    case ExprOp::Select: return all(std::span(node.operands).subspan(1), true);
    case ExprOp::Add:
    case ExprOp::Sub:
    case ExprOp::Min:
    case ExprOp::Max: return all(node.operands, true);
    default: return is_index_arithmetic(node.op) && all(node.operands, false);
  }
}

}  // namespace

// ---- module

Result<ShaderKernel> KernelEmitter::emit() {
  XYNTRA_CHECK_OK(supported());
  XYNTRA_CHECK_OK(bind_buffers());
  std::string entries;
  const std::vector<kir::Phase> phases = kir::phases_of(kernel_);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const std::string entry = "phase" + std::to_string(i);
    body_.clear();
    XYNTRA_TRY(ShaderPhase made, phase(phases[i], entry));
    made_.phases.push_back(std::move(made));
    entries += body_;
  }
  auto bind = [this](const std::string& space, const std::string& declaration) {
    bindings_ += "@group(0) @binding(" + std::to_string(binding_count_++) + ") var<" + space + "> " +
                 declaration + ";\n";
  };
  if (made_.has_faults) bind("storage, read_write", "fault: array<atomic<u32>, 4>");
  if (!made_.sizes.empty()) {
    const std::size_t rows = (made_.sizes.size() + 3) / 4;
    bind("uniform", "sizes: array<vec4<i32>, " + std::to_string(rows) + ">");
  }
  made_.text = bindings_ + shared_ + "\n" + operations_.functions() + entries;
  return std::move(made_);
}

Status KernelEmitter::supported() const {
  std::set<DType> used;
  for (const kir::Buffer& buffer : kernel_.buffers) used.insert(buffer.dtype);
  kir::for_each_statement(kernel_.body, [&used](const StmtNode& node) {
    kir::for_each_expr(node, [&used](const Expr& root) {
      te::for_each_node(root, [&used](const ExprNode& inner) { used.insert(inner.dtype); });
    });
  });
  for (DType dtype : used) XYNTRA_CHECK_OK(operations_.supports(dtype));
  return {};
}

Status KernelEmitter::bind_buffers() {
  for (Scope scope : {Scope::Global, Scope::Workspace}) {
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const kir::Buffer& buffer = kernel_.buffers[i];
      if (buffer.scope != scope) continue;
      const bool written = buffer.written || scope == Scope::Workspace;
      if (scope == Scope::Global) made_.argument_elements.push_back(product(buffer.shape));
      if (scope == Scope::Workspace)
        made_.workspace_bytes.push_back(ceil_div(product(buffer.shape) * Dim(bits_of(buffer.dtype)), Dim(8)));
      bindings_ += "@group(0) @binding(" + std::to_string(binding_count_++) + ") var<storage, read_write> " +
                   buffer_name(kir::BufferId(i)) + ": array<" +
                   (forms_[i].vectors ? "vec4<f32>" : operations_.storage_type(buffer.dtype, written)) +
                   ">;" + (bits_of(buffer.dtype) < 32 ? "  // " + std::string(name_of(buffer.dtype)) : "") +
                   "\n";
    }
  }
  for (const kir::Buffer& buffer : kernel_.buffers) {
    const bool written = buffer.written || buffer.scope == Scope::Workspace;
    atomic_.push_back(!is_private(buffer.scope) && written && bits_of(buffer.dtype) < 32);
  }
  return {};
}

Result<ShaderPhase> KernelEmitter::phase(const kir::Phase& phase, const std::string& entry) {
  kir::Stmt body = phase.body;
  std::vector<kir::VarId> threads;
  std::int64_t count = 1;
  while (body->kind == StmtNode::Kind::Loop && body->loop == LoopKind::Thread) {
    threads.push_back(body->var);
    count *= kernel_.variable(body->var).extent.constant();
    body = body->body.front();
  }
  const bool grouped = !threads.empty();
  if (!grouped) count = kInvocations;
  body_ += "\n@compute @workgroup_size(" + std::to_string(count) + ")\nfn " + entry +
           "(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, "
           "@builtin(local_invocation_index) lane: u32) {\n";
  const std::string number = "group.y * groups.x + group.x";
  line("var item = i32(" + (grouped ? number : "(" + number + ") * " + std::to_string(count) + "u + lane") +
       ");");
  line("if (item >= " + size(kir::work_items(kernel_, phase)) + ") { return; }");
  known_.clear();
  auto digits = [this](const std::string& of, const std::vector<kir::VarId>& variables) {
    for (std::size_t d = variables.size(); d-- > 0;) {
      const std::string extent = size(kernel_.variable(variables[d]).extent);
      line("let " + variable(variables[d]) + " = " + of + (d == 0 ? "" : " % " + extent) + ";");
      if (d != 0) line(of + " = " + of + " / " + extent + ";");
    }
  };
  digits("item", phase.grid);
  if (grouped) line("var thread = i32(lane);");
  digits("thread", threads);
  XYNTRA_CHECK_OK(own_buffers(body, grouped));
  XYNTRA_CHECK_OK(statement(body));
  body_ += "}\n";
  return ShaderPhase{entry, kir::work_items(kernel_, phase), grouped ? 1 : count};
}

std::string KernelEmitter::array_type(kir::BufferId id) const {
  const kir::Buffer& buffer = kernel_.buffer(id);
  const std::string type = forms_[id.index].vectors ? "vec4<f32>" : operations_.type(buffer.dtype);
  if (buffer.shape.empty()) return type;
  const std::int64_t elements = product(buffer.shape).constant() / (forms_[id.index].vectors ? kVector : 1);
  return "array<" + type + ", " + std::to_string(std::max<std::int64_t>(elements, 1)) + ">";
}

// What invocations keep for themselves, and what those of a work item share.
Status KernelEmitter::own_buffers(const kir::Stmt& body, bool threads) {
  std::vector<bool> used(kernel_.buffers.size(), false);
  kir::for_each_statement(body, [&](const StmtNode& node) {
    if (node.kind == StmtNode::Kind::Store) used[node.buffer.index] = true;
  });
  shared_declared_.resize(used.size(), false);
  reads_back_ = false;
  kir::for_each_statement(body, [&](const StmtNode& node) {
    kir::for_each_expr(node, [&](const Expr& expr) {
      te::for_each_node(expr, [&](const ExprNode& inner) {
        if (te::is_load(inner) && used[inner.buffer.index] && !is_private(kernel_.buffer(inner.buffer).scope))
          reads_back_ = true;
      });
    });
  });
  for (std::size_t i = 0; i < used.size(); ++i) {
    const kir::Buffer& buffer = kernel_.buffers[i];
    if (!used[i] || !is_private(buffer.scope)) continue;
    const Dim bytes = product(buffer.shape) * Dim(bits_of(buffer.dtype) / 8);
    if (!(bytes.is_constant() && bytes.constant() <= kMostPrivateBytes))
      return unsupported("memory of one work item that is as large as " + bytes.to_string() + " bytes");
    const kir::BufferId id(i);
    if (buffer.scope == Scope::Shared && threads) {
      if (!shared_declared_[i])
        shared_ += "var<workgroup> " + buffer_name(id) + ": " + array_type(id) + ";\n";
      shared_declared_[i] = true;
    } else if (forms_[i].split) {
      const std::int64_t step = forms_[i].vectors ? kVector : 1, count = product(buffer.shape).constant();
      const std::string type = forms_[i].vectors ? "vec4<f32>" : operations_.type(buffer.dtype);
      for (std::int64_t k = 0; k < count; k += step)
        line("var " + buffer_name(id) + "_" + std::to_string(k / step) + ": " + type + ";");
    } else {
      line("var " + buffer_name(id) + ": " + array_type(id) + ";");
    }
  }
  return {};
}

// ---- statements

void KernelEmitter::line(const std::string& text) {
  body_ += std::string(static_cast<std::size_t>(2 * depth_), ' ') + text + "\n";
}

template <class Body>
Status KernelEmitter::block(const std::string& head, Body body) {
  line(head + " {");
  ++depth_;
  auto outside = known_;  // names of the block are gone after it
  Status done = body();
  known_ = std::move(outside);
  --depth_;
  line("}");
  return done;
}

void KernelEmitter::begin_statement(const StmtNode& node) {
  known_.clear();
  uses_.clear();
  settled_ = &analysis_.settled(node);
  kir::for_each_expr(node, [this](const Expr& root) {
    ++uses_[root.address()];
    te::for_each_node(root, [this](const ExprNode& inner) {
      for (const Expr& operand : inner.operands) ++uses_[operand.address()];
    });
  });
}

Status KernelEmitter::statement(const kir::Stmt& given) {
  if (!given.defined()) return {};
  const StmtNode& node = *given;
  switch (node.kind) {
    case StmtNode::Kind::Block:
      for (const kir::Stmt& inner : node.body) XYNTRA_CHECK_OK(statement(inner));
      return {};
    case StmtNode::Kind::Loop: return loop(node);
    case StmtNode::Kind::If: return branch(node);
    case StmtNode::Kind::Store: store(node); return {};
    case StmtNode::Kind::Check: check(node); return {};
    case StmtNode::Kind::Call:
      if (kir::is_hint(node.intrinsic)) return {};
      if (node.intrinsic == kir::Intrinsic::Barrier) {
        if (reads_back_) line("storageBarrier();");
        line("workgroupBarrier();");
        return {};
      }
      return unsupported(std::string("'") + kir::spelling_of(node.intrinsic) + "'");
  }
  return {};
}

Status KernelEmitter::loop(const StmtNode& node) {
  switch (node.loop) {
    case LoopKind::Grid: return unsupported("a grid loop inside another loop");
    case LoopKind::Thread: return unsupported("a thread loop inside another loop");
    case LoopKind::Unrolled: return turns_written_out(node);
    case LoopKind::Vector: return lanes(node.body.front(), node.var);
    case LoopKind::Serial: break;
  }
  const std::string name = variable(node.var), extent = size(kernel_.variable(node.var).extent);
  return block("for (var " + name + " = 0; " + name + " < " + extent + "; " + name + "++)",
               [&] { return statement(node.body.front()); });
}

Status KernelEmitter::turns_written_out(const StmtNode& node) {
  const std::int64_t turns = kernel_.variable(node.var).extent.constant();
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    fixed_[node.var.index] = turn;
    XYNTRA_CHECK_OK(statement(node.body.front()));
  }
  fixed_.erase(node.var.index);
  return {};
}

// A statement for every lane before the next one: at once where the language has it, else one lane after another.
Status KernelEmitter::lanes(const kir::Stmt& given, kir::VarId lane) {
  const StmtNode& node = *given;
  if (node.kind == StmtNode::Kind::Block) {
    for (const kir::Stmt& inner : node.body) XYNTRA_CHECK_OK(lanes(inner, lane));
    return {};
  }
  if (node.kind == StmtNode::Kind::Loop && node.loop == LoopKind::Serial) {
    const std::string name = variable(node.var), extent = size(kernel_.variable(node.var).extent);
    return block("for (var " + name + " = 0; " + name + " < " + extent + "; " + name + "++)",
                 [&] { return lanes(node.body.front(), lane); });
  }
  if (node.kind == StmtNode::Kind::Store && vector_store(node, lane)) return {};
  for (std::int64_t one = 0; one < kernel_.variable(lane).extent.constant(); ++one) {
    fixed_[lane.index] = one;
    XYNTRA_CHECK_OK(statement(given));
  }
  fixed_.erase(lane.index);
  return {};
}

bool KernelEmitter::vector_store(const StmtNode& node, kir::VarId lane) {
  if (!kernel_.variable(lane).extent.is(kVector) || !forms_[node.buffer.index].vectors) return false;
  const te::LinearIndex& flat = analysis_.access(node).flat;
  if (!is_along(flat, lane)) return false;
  lane_ = lane;
  begin_statement(node);
  const bool settles = settled_->count(node.value.address()) != 0;
  if (settled_->size() == (settles ? 1U : 0U) && is_vector(node.value)) {
    const std::string stored = vector_value(node.value);
    line(place(node.buffer, flat) + " = " + (settles ? operations_.settled_vector(stored) : stored) + ";");
  } else {
    assemble(node, lane);
  }
  lane_ = {};
  return true;
}

// Four lanes one after another, between vectors that are read and written at once.
void KernelEmitter::assemble(const StmtNode& node, kir::VarId lane) {
  te::for_each_node(node.value, [&](const ExprNode& inner) {
    if (inner.op != ExprOp::Load || !forms_[inner.buffer.index].vectors) return;
    const codegen::Access& access = analysis_.access(inner);
    if (!access.in_bounds || !is_along(access.flat, lane)) return;
    const std::string name = fresh_name();
    line("let " + name + " = " + place(inner.buffer, access.flat) + ";");
    loaded_[&inner] = name;
  });
  std::string stored = "vec4<f32>(";
  for (std::int64_t one = 0; one < kVector; ++one) {
    lane_ = {};
    fixed_[lane.index] = one;
    begin_statement(node);
    stored += (one == 0 ? "" : ", ") + value(node.value);
  }
  fixed_.erase(lane.index);
  loaded_.clear();
  lane_ = lane;
  line(place(node.buffer, analysis_.access(node).flat) + " = " + stored + ");");
}

Status KernelEmitter::branch(const StmtNode& node) {
  begin_statement(node);
  const std::string condition = value(node.condition);
  XYNTRA_CHECK_OK(block("if (" + condition + ")", [&] { return statement(node.body[0]); }));
  if (node.body.size() < 2 || !node.body[1].defined()) return {};
  return block("else", [&] { return statement(node.body[1]); });
}

void KernelEmitter::store(const StmtNode& node) {
  begin_statement(node);
  const kir::Buffer& buffer = kernel_.buffer(node.buffer);
  const std::string stored = value(node.value);
  const te::LinearIndex& flat = analysis_.access(node).flat;
  if (!atomic_[node.buffer.index]) {
    line(place(node.buffer, flat) + " = " + stored + ";");
    return;
  }
  const std::string name = buffer_name(node.buffer), at = position(flat);
  // Other invocations write other elements of the same word.
  const std::string bits = std::to_string(bits_of(buffer.dtype)) + "u", bit = fresh_name();
  line("let " + bit + " = u32(" + at + ") * " + bits + ";");
  const std::string word = "&" + name + "[" + bit + " / 32u]", shift = "(" + bit + " % 32u)";
  line("atomicAnd(" + word + ", ~(" + std::to_string((1U << bits_of(buffer.dtype)) - 1) + "u << " + shift +
       "));");
  line("atomicOr(" + word + ", " + operations_.encoded(buffer.dtype, stored) + " << " + shift + ");");
}

// The first index outside ends the work item; what it was is told.
void KernelEmitter::check(const StmtNode& node) {
  begin_statement(node);
  made_.has_faults = true;
  const Expr& index = node.index.front();
  const std::string bound = size(kernel_.buffer(node.buffer).shape.at(node.dimension));
  const bool wide = !is_position(index);
  const std::string at = wide ? named(index) : position(index);
  const std::string outside =
      wide ? operations_.is_outside(at, bound) : at + " < 0 || " + at + " >= " + bound;
  Status done = block("if (" + outside + ")", [&]() -> Status {
    static_cast<void>(block("if (atomicExchange(&fault[0], 1u) == 0u)", [&]() -> Status {
      line("atomicStore(&fault[1], " + std::to_string(node.buffer.index) + "u);");
      line("atomicStore(&fault[2], " + std::to_string(node.dimension) + "u);");
      const std::string told = wide ? operations_.cast(DType::I64, DType::I32, {}, at) : at;
      line("atomicStore(&fault[3], bitcast<u32>(i32(" + told + ")));");
      return {};
    }));
    line("return;");
    return {};
  });
  static_cast<void>(done);
}

// ---- names

std::string KernelEmitter::variable(kir::VarId id) const {
  if (auto fixed = fixed_.find(id.index); fixed != fixed_.end()) return std::to_string(fixed->second);
  return kernel_.variable(id).name + "_" + std::to_string(id.index);
}

std::string KernelEmitter::buffer_name(kir::BufferId id) const {
  static constexpr const char* kPrefixes[] = {"b", "w", "s", "r"};  // by scope
  return kPrefixes[static_cast<std::size_t>(kernel_.buffer(id).scope)] + std::to_string(id.index);
}

std::string KernelEmitter::size(const Dim& dim) {
  if (dim.is_constant()) return std::to_string(dim.constant());
  std::size_t number = 0;
  while (number < made_.sizes.size() && !(made_.sizes[number] == dim)) ++number;
  if (number == made_.sizes.size()) made_.sizes.push_back(dim);
  return "sizes[" + std::to_string(number / 4) + "]." + "xyzw"[number % 4];
}

// ---- expressions

std::string KernelEmitter::value(const Expr& expr) {
  const Key key{expr.address(), false};
  if (auto known = known_.find(key); known != known_.end()) return known->second;
  std::string text = node_text(expr);
  if (settled_->count(expr.address()) != 0) text = operations_.settled(expr.dtype(), text);
  const bool shared = uses_[expr.address()] > 1;
  if (!is_word(text) && (shared || text.size() > kLongText)) {
    const std::string name = fresh_name();
    line("let " + name + " = " + text + ";");
    text = name;
  }
  if (is_word(text)) known_[key] = text;
  return text;
}

std::string KernelEmitter::named(const Expr& expr) {
  std::string text = value(expr);
  if (is_word(text)) return text;
  const std::string name = fresh_name();
  line("let " + name + " = " + text + ";");
  known_[{expr.address(), false}] = name;
  return name;
}

std::string KernelEmitter::node_text(const Expr& expr) {
  const ExprNode& node = *expr;
  switch (node.op) {
    case ExprOp::Const: return operations_.constant(node);
    case ExprOp::Var: return operations_.cast(DType::I32, DType::I64, {}, variable(node.var));
    case ExprOp::Size: return operations_.cast(DType::I32, DType::I64, {}, size(node.size));
    case ExprOp::Accumulator: internal_error("wgsl: an accumulator in a kernel");
    case ExprOp::Load: return load(node);
    case ExprOp::LoadOr: return load_or(node);
    case ExprOp::Select: return select(node);
    case ExprOp::Cast: {
      const Expr& operand = node.operands[0];
      // A position that becomes a number of 32 bits or a float needs no wider one on the way.
      if (is_position(operand) && node.dtype != DType::I64 && node.dtype != DType::U64)
        return operations_.cast(DType::I32, node.dtype, {}, "i32(" + position(operand) + ")");
      return operations_.cast(operand.dtype(), node.dtype, node.cast, named(operand));
    }
    case ExprOp::Bitcast:
      return operations_.bitcast(node.operands[0].dtype(), node.dtype, named(node.operands[0]));
    case ExprOp::IsNan: return operations_.is_nan(node.operands[0].dtype(), named(node.operands[0]));
    case ExprOp::IsInf: return operations_.is_inf(node.operands[0].dtype(), named(node.operands[0]));
    default: break;
  }
  if (te::kind_of(node.op) == te::ExprKind::Compare) return compare(node);
  const bool shifts = node.op == ExprOp::ShiftLeft || node.op == ExprOp::ShiftRight;
  if (shifts && node.operands[1]->op == ExprOp::Const && node.operands[1]->int_value >= 0 &&
      node.operands[1]->int_value < bits_of(node.dtype))
    return operations_.shifted(node.op, node.dtype, value(node.operands[0]), node.operands[1]->int_value);
  const bool repeats = node.op == ExprOp::Min || node.op == ExprOp::Max || node.op == ExprOp::Abs;
  std::vector<std::string> operands;
  for (const Expr& operand : node.operands) operands.push_back(repeats ? named(operand) : value(operand));
  return operations_.arithmetic(node.op, node.dtype, operands);
}

std::string KernelEmitter::compare(const ExprNode& node) {
  const Expr &a = node.operands[0], &b = node.operands[1];
  const bool positions = is_position(a) && is_position(b);
  const std::string first =
      positions ? position(a) : value(a);  // one after the other: lines come in this order
  const std::string second = positions ? position(b) : value(b);
  return operations_.compare(node.op, positions ? DType::I32 : a.dtype(), first, second);
}

// ---- positions

std::string KernelEmitter::position(const Expr& index) {
  const Key key{index.address(), true};
  if (auto known = known_.find(key); known != known_.end()) return known->second;
  std::string text = position_text(index);
  if (!is_word(text) && (uses_[index.address()] > 1 || text.size() > kLongText)) {
    const std::string name = fresh_name();
    line("let " + name + " = " + text + ";");
    text = name;
    known_[key] = text;
  }
  return text;
}

std::string KernelEmitter::position_text(const Expr& index) {
  const ExprNode& node = *index;
  if (node.op == ExprOp::Const) return std::to_string(node.int_value);
  if (node.op == ExprOp::Var) return variable(node.var);
  if (node.op == ExprOp::Size) return size(node.size);
  if (!is_position(index)) return operations_.cast(DType::I64, DType::I32, {}, value(index));
  if (node.op == ExprOp::Cast)
    return operations_.cast(node.operands[0].dtype(), DType::I32, {}, value(node.operands[0]));
  if (node.op == ExprOp::Select) {
    const std::string condition = value(node.operands[0]);
    const std::string chosen = position(node.operands[1]), otherwise = position(node.operands[2]);
    return "select(" + otherwise + ", " + chosen + ", " + condition + ")";
  }
  std::vector<std::string> operands;
  for (const Expr& operand : node.operands) operands.push_back(position(operand));
  const bool divides = node.op == ExprOp::FloorDiv || node.op == ExprOp::Div || node.op == ExprOp::Mod ||
                       node.op == ExprOp::Rem;
  if (divides) {
    const Expr& divisor = node.operands[1];
    const bool positive =
        divisor->op == ExprOp::Size || (divisor->op == ExprOp::Const && divisor->int_value > 0);
    const bool quotient = node.op == ExprOp::FloorDiv || node.op == ExprOp::Div;
    if (positive && analysis_.is_natural(node.operands[0]))
      return "(" + operands[0] + (quotient ? " / " : " % ") + operands[1] + ")";
  }
  return operations_.arithmetic(node.op, DType::I32, operands);
}

namespace {

// A sum with the variables of written-out loops in numbers.
te::LinearIndex with_fixed(const te::LinearIndex& index,
                           const std::unordered_map<std::uint32_t, std::int64_t>& fixed) {
  te::LinearIndex made{{}, index.constant};
  for (const te::LinearIndex::Term& term : index.terms) {
    auto known = term.atom->op == ExprOp::Var ? fixed.find(term.atom->var.index) : fixed.end();
    if (known == fixed.end()) {
      made.terms.push_back(term);
    } else {
      made.constant = made.constant + term.coefficient * Dim(known->second);
    }
  }
  return made;
}

}  // namespace

std::string KernelEmitter::position(const te::LinearIndex& given) {
  const te::LinearIndex index = with_fixed(given, fixed_);
  std::string text;
  for (const te::LinearIndex::Term& term : index.terms) {
    if (!text.empty()) text += " + ";
    text += position(term.atom);
    if (!term.coefficient.is(1)) text += " * " + size(term.coefficient);
  }
  if (text.empty()) return size(index.constant);
  return index.constant.is(0) ? text : text + " + " + size(index.constant);
}

// ---- memory

std::string KernelEmitter::place(kir::BufferId id, const te::LinearIndex& given) {
  const kir::Buffer& buffer = kernel_.buffer(id);
  const BufferForm& form = forms_[id.index];
  const std::string name = buffer_name(id);
  if (buffer.shape.empty() && is_private(buffer.scope)) return name;
  te::LinearIndex index = with_fixed(given, fixed_);
  std::string component;
  if (form.vectors) {
    const bool whole = lane_.valid() && index.find(lane_) != nullptr;
    if (whole) index.terms.erase(index.terms.begin() + (index.find(lane_) - index.terms.data()));
    const bool known =
        index.constant.is_constant() &&
        std::all_of(index.terms.begin(), index.terms.end(), [](const te::LinearIndex::Term& term) {
          return te::divides(Dim(kVector), term.coefficient);
        });
    if (!known) {
      const std::string at = position(index);
      return name + "[(" + at + ") / 4][(" + at + ") % 4]";
    }
    const Dim first = index.constant;
    if (!whole) component = std::string(".") + "xyzw"[modulo(first, kVector).constant()];
    index.constant = floor_div(first, kVector);
    for (te::LinearIndex::Term& term : index.terms)
      term.coefficient = floor_div(term.coefficient, Dim(kVector));
  }
  if (form.split) return name + "_" + std::to_string(index.constant.constant()) + component;
  return name + "[" + position(index) + "]" + component;
}

bool KernelEmitter::is_vector(const Expr& expr) {
  const ExprNode& node = *expr;
  if (node.dtype != DType::F32) return false;
  switch (node.op) {
    case ExprOp::Const: return std::isfinite(node.float_value);
    case ExprOp::Load: {
      const te::LinearIndex& flat = analysis_.access(node).flat;
      const bool same = te::variables_of(expr).count(lane_) == 0;
      return same || (forms_[node.buffer.index].vectors && is_along(flat, lane_));
    }
    case ExprOp::Add:
    case ExprOp::Sub:
    case ExprOp::Mul:
    case ExprOp::Neg:
    case ExprOp::Fma:
      return std::all_of(node.operands.begin(), node.operands.end(),
                         [this](const Expr& operand) { return is_vector(operand); });
    default: return false;
  }
}

std::string KernelEmitter::vector_value(const Expr& expr) {
  const ExprNode& node = *expr;
  if (te::variables_of(expr).count(lane_) == 0) {
    const kir::VarId lane = lane_;
    lane_ = {};
    std::string same = "vec4<f32>(" + value(expr) + ")";
    lane_ = lane;
    return same;
  }
  if (node.op == ExprOp::Load) return place(node.buffer, analysis_.access(node).flat);
  std::vector<std::string> operands;
  for (const Expr& operand : node.operands) operands.push_back(vector_value(operand));
  return operations_.arithmetic(node.op, DType::F32, operands);
}

std::string KernelEmitter::word_at(kir::BufferId buffer, const std::string& word) const {
  return atomic_[buffer.index] ? "atomicLoad(&" + word + ")" : word;
}

std::string KernelEmitter::load(const ExprNode& node) {
  const kir::Buffer& buffer = kernel_.buffer(node.buffer);
  if (auto known = loaded_.find(&node); known != loaded_.end() && !lane_.valid())
    return known->second + "." + "xyzw"[fixed_lane(node)];
  const te::LinearIndex& flat = analysis_.access(node).flat;
  if (is_private(buffer.scope) || bits_of(buffer.dtype) >= 32) return place(node.buffer, flat);
  const std::string at = position(flat);
  const std::string bits = std::to_string(bits_of(buffer.dtype)) + "u", bit = fresh_name();
  line("let " + bit + " = u32(" + at + ") * " + bits + ";");
  return operations_.decoded(
      buffer.dtype, word_at(node.buffer, buffer_name(node.buffer) + "[" + bit + " / 32u]"), bit + " % 32u");
}

std::size_t KernelEmitter::fixed_lane(const ExprNode& load) {
  for (const te::LinearIndex::Term& term : analysis_.access(load).flat.terms) {
    if (!term.coefficient.is(1) || term.atom->op != ExprOp::Var) continue;
    if (auto known = fixed_.find(term.atom->var.index); known != fixed_.end() && known->second < kVector)
      return static_cast<std::size_t>(known->second);
  }
  internal_error("wgsl: a vector that no lane walks along");
}

std::string KernelEmitter::load_or(const ExprNode& node) {
  const kir::Buffer& buffer = kernel_.buffer(node.buffer);
  const codegen::Access& access = analysis_.access(node);
  std::string inside;
  for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
    if (access.within[d]) continue;
    const Expr& index = node.operands[1 + d];
    const bool wide = !is_position(index);
    const std::string at = wide ? named(index) : position(index), bound = size(buffer.shape[d]);
    inside += (inside.empty() ? "" : " && ") + (wide ? "!(" + operations_.is_outside(at, bound) + ")"
                                                     : "(" + at + " >= 0 && " + at + " < " + bound + ")");
  }
  if (inside.empty()) return load(node);
  return either(
      operations_.type(node.dtype), inside, [&] { return load(node); },
      [&] { return value(node.operands[0]); });
}

// Each side is computed only where it is chosen, when reading for it elsewhere could be outside.
std::string KernelEmitter::select(const ExprNode& node) {
  const std::string condition = value(node.operands[0]);
  if (!analysis_.needs_guard(node.operands[1]) && !analysis_.needs_guard(node.operands[2])) {
    const std::string chosen = value(node.operands[1]), otherwise = value(node.operands[2]);
    return "select(" + otherwise + ", " + chosen + ", " + condition + ")";
  }
  return either(
      operations_.type(node.dtype), condition, [&] { return value(node.operands[1]); },
      [&] { return value(node.operands[2]); });
}

std::string KernelEmitter::either(const std::string& type, const std::string& condition,
                                  const std::function<std::string()>& when_true,
                                  const std::function<std::string()>& when_false) {
  const std::string name = fresh_name();
  line("var " + name + ": " + type + ";");
  auto side = [&](const std::string& head, const std::function<std::string()>& text) {
    static_cast<void>(block(head, [&]() -> Status {
      const std::string chosen = text();
      line(name + " = " + chosen + ";");
      return {};
    }));
  };
  side("if (" + condition + ")", when_true);
  side("else", when_false);
  return name;
}

}  // namespace xyntra::wgsl

namespace xyntra {

Result<ShaderKernel> emit_wgsl(const kir::Kernel& kernel, const WgslFeatures& features) {
  XYNTRA_CHECK_OK(kir::verify(kernel));
  return wgsl::KernelEmitter(kernel, features).emit();
}

}  // namespace xyntra
