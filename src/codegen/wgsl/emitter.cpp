#include "codegen/wgsl/emitter.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/real_numbers.h"
#include "codegen/wgsl/passes/halves.h"
#include "kir/effects.h"
#include "kir/intrinsics.h"
#include "kir/legalize/legalize.h"

namespace xyntra::wgsl {

using kir::LoopKind;
using kir::Scope;
using kir::StmtNode;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

constexpr std::int64_t kGroupsInOneDimension = 65535;  // on every device
// Invocations of a workgroup where each does a work item of its own: fewer where that leaves few workgroups.
std::int64_t invocations_for(const Dim& items) {
  if (!items.is_constant()) return 256;
  return items.constant() <= 2048 ? 32 : items.constant() <= 16384 ? 64 : 256;
}

// Iterations of all loops of an invocation that are written as loops, at most.
Dim iterations_of(const kir::Kernel& kernel, const kir::Stmt& given) {
  if (!given.defined()) return 0;
  Dim iterations = 0;
  for (const kir::Stmt& inner : given->body) iterations = iterations + iterations_of(kernel, inner);
  if (given->kind != StmtNode::Kind::Loop) return iterations;
  const Dim& extent = kernel.variable(given->var).extent;
  switch (given->loop) {
    case LoopKind::Serial: return extent * (iterations + 1);
    case LoopKind::Unrolled:
    case LoopKind::Vector: return extent * iterations;
    case LoopKind::Grid:
    case LoopKind::Cluster:
    case LoopKind::Thread: return iterations;
  }
  return iterations;
}

constexpr std::size_t kBindingsEverywhere = 8;  // storage buffers that every browser binds to a shader
constexpr std::int64_t kMostPrivateBytes = 16 << 10;

Status unsupported(const std::string& what) {
  return failure(ErrorClass::Unsupported, "no shader can be made of " + what);
}

}  // namespace

// ---- module

std::set<DType> dtypes_of(const kir::Kernel& kernel) {
  std::set<DType> used;
  for (const kir::Buffer& buffer : kernel.buffers) used.insert(buffer.dtype);
  kir::for_each_statement(kernel.body, [&used](const StmtNode& node) {
    kir::for_each_expr(node, [&used](const Expr& root) {
      te::for_each_node(root, [&used](const ExprNode& inner) { used.insert(inner.dtype); });
    });
  });
  return used;
}

bool shuffles(const kir::Kernel& kernel) {
  bool found = false;
  kir::for_each_statement(kernel.body, [&found](const StmtNode& node) {
    found = found || (node.kind == StmtNode::Kind::Call && node.intrinsic == kir::Intrinsic::ShuffleXor);
  });
  return found;
}

Result<ShaderKernel> KernelEmitter::emit(std::span<const ArgumentPack> packs) {
  XYNTRA_CHECK_OK(supported());
  join_workspaces();
  join_arguments(packs);
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
  made_.has_faults =
      has_checks(kernel_.body);  // of phases, too, whose loops are never entered: they bind the record
  if (made_.has_faults) bind("storage, read_write", "fault: array<atomic<u32>, 4>");
  if (!made_.sizes.empty()) {
    const std::size_t rows = (made_.sizes.size() + 3) / 4;
    bind("uniform", "sizes: array<vec4<i32>, " + std::to_string(rows) + ">");
  }
  const bool halves = operations_.is_half(DType::F16) && dtypes_of(kernel_).contains(DType::F16);
  made_.text = std::string(halves ? "enable f16;\n" : "") +
               (shuffles_ && features_.subgroup_directive ? "enable subgroups;\n" : "") + bindings_ +
               shared_ + "\n" + operations_.functions() + entries;
  return std::move(made_);
}

Status KernelEmitter::supported() const {
  for (DType dtype : dtypes_of(kernel_)) XYNTRA_CHECK_OK(operations_.supports(dtype));
  return {};
}

// Where there are more buffers than every browser binds, workspaces of one dtype are ranges of one array.
void KernelEmitter::join_workspaces() {
  joined_.resize(kernel_.buffers.size());
  std::size_t bindings = 0;
  kir::for_each_statement(kernel_.body, [&bindings](const StmtNode& node) {
    if (node.kind == StmtNode::Kind::Check) bindings = 1;  // the record of faults
  });
  const std::vector<bool> accessed = accessed_buffers(kernel_);
  for (std::size_t i = 0; i < accessed.size(); ++i)
    bindings += accessed[i] && !is_private(kernel_.buffers[i].scope) ? 1 : 0;
  if (bindings <= kBindingsEverywhere) return;
  std::map<DType, kir::BufferId> firsts;
  for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const kir::Buffer& buffer = kernel_.buffers[i];
    if (buffer.scope != Scope::Workspace || bits_of(buffer.dtype) < 32) continue;
    const kir::BufferId first = firsts.try_emplace(buffer.dtype, i).first->second;
    Dim& all = joined_[first.index].all;
    joined_[i].first = first;
    joined_[i].offset = all;
    all = all + product(buffer.shape);
    forms_[i].vectors = false;
  }
}

void KernelEmitter::join_arguments(std::span<const ArgumentPack> packs) {
  for (const ArgumentPack& pack : packs) {
    for (std::size_t i = 0; i < pack.arguments.size(); ++i) {
      const std::size_t argument = pack.arguments[i].index;
      joined_[argument] = {pack.arguments.front(), pack.offsets[i], pack.elements};
      forms_[argument].vectors = false;
    }
  }
}

Status KernelEmitter::bind_buffers() {
  const std::vector<bool> accessed = accessed_buffers(kernel_);
  for (Scope scope : {Scope::Global, Scope::Workspace}) {
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const kir::Buffer& buffer = kernel_.buffers[i];
      const Joined& joined = joined_[i];
      if (scope == Scope::Global && !accessed[i]) continue;  // bindings.h
      if (buffer.scope != scope || (joined.first.valid() && joined.first.index != i)) continue;
      const Dim elements = joined.first.valid() ? joined.all : product(buffer.shape);
      const bool written = buffer.written || scope == Scope::Workspace;
      if (scope == Scope::Workspace)
        made_.workspace_bytes.push_back(ceil_div(elements * Dim(bits_of(buffer.dtype)), Dim(8)));
      numbers_.emplace(i, static_cast<std::uint32_t>(binding_count_));
      bindings_ += "@group(0) @binding(" + std::to_string(binding_count_++) + ") var<storage, read_write> " +
                   buffer_name(kir::BufferId(i)) + ": array<" +
                   (forms_[i].vectors ? operations_.vector_type(buffer.dtype)
                                      : operations_.storage_type(buffer.dtype, written)) +
                   array_count(kir::BufferId(i), elements) + ">;" +
                   (operations_.is_packed(buffer.dtype) ? "  // " + std::string(name_of(buffer.dtype)) : "") +
                   "\n";
    }
  }
  for (const kir::Buffer& buffer : kernel_.buffers) {
    const bool written = buffer.written || buffer.scope == Scope::Workspace;
    atomic_.push_back(!is_private(buffer.scope) && written && operations_.is_packed(buffer.dtype));
  }
  return {};
}

// Where the size is known it is said: a browser then need not ask for it whenever it checks an index.
std::string KernelEmitter::array_count(kir::BufferId id, const Dim& elements) const {
  const kir::Buffer& buffer = kernel_.buffer(id);
  if (!elements.is_constant() || elements.constant() <= 0) return "";
  const std::int64_t bits = bits_of(buffer.dtype);
  const std::int64_t per_word = forms_[id.index].vectors              ? kVector
                                : operations_.is_packed(buffer.dtype) ? 32 / bits
                                                                      : 1;
  return ", " + std::to_string((elements.constant() + per_word - 1) / per_word);
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
  if (!grouped) count = invocations_for(kir::work_items(kernel_, phase));
  body_ += "\n@compute @workgroup_size(" + std::to_string(count) + ")\nfn " + entry +
           "(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, "
           "@builtin(local_invocation_index) lane: u32) {\n";
  // Groups are dispatched in two dimensions where one has no room for them: then there can be too many.
  const Dim items = kir::work_items(kernel_, phase);
  const bool exact = grouped && items.is_constant() && items.constant() <= kGroupsInOneDimension;
  const std::string number = exact ? "group.x" : "group.y * groups.x + group.x";
  line("var item = i32(" + (grouped ? number : "(" + number + ") * " + std::to_string(count) + "u + lane") +
       ");");
  if (!exact) line("if (item >= " + size(items) + ") { return; }");
  known_.clear();
  auto digits = [this](const std::string& of, const std::vector<kir::VarId>& variables) {
    for (std::size_t d = variables.size(); d-- > 0;) {
      const std::string extent = size(kernel_.variable(variables[d]).extent);
      line("let " + variable(variables[d]) + " = " + (d == 0 ? of : rest_text(of, extent)) + ";");
      if (d != 0) line(of + " = " + quotient_text(of, extent) + ";");
    }
  };
  digits("item", phase.grid);
  if (grouped) line("var thread = i32(lane);");
  digits("thread", threads);
  XYNTRA_CHECK_OK(own_buffers(body, grouped));
  has_barriers_ = kir::has_barrier(body);
  XYNTRA_CHECK_OK(statement(body));
  body_ += "}\n";
  return ShaderPhase{entry, kir::work_items(kernel_, phase), grouped ? 1 : count,
                     iterations_of(kernel_, body), bindings_of(body)};
}

// Of what lies at one place of a work item's own memory.
std::string KernelEmitter::element_type(kir::BufferId id) const {
  const DType dtype = kernel_.buffer(id).dtype;
  if (is_shared_bool(id)) return "u32";
  return forms_[id.index].vectors ? operations_.vector_type(dtype) : operations_.type(dtype);
}

std::vector<std::uint32_t> KernelEmitter::bindings_of(const kir::Stmt& body) const {
  const std::vector<bool> accessed = accessed_buffers(kernel_, body);
  std::set<std::uint32_t> used;
  for (std::size_t i = 0; i < accessed.size(); ++i) {
    if (accessed[i] && !is_private(kernel_.buffers[i].scope))
      used.insert(numbers_.at(joined_[i].first.valid() ? joined_[i].first.index : i));
  }
  if (has_checks(body)) used.insert(static_cast<std::uint32_t>(numbers_.size()));  // the record of faults
  return {used.begin(), used.end()};
}

std::string KernelEmitter::array_type(kir::BufferId id) const {
  const kir::Buffer& buffer = kernel_.buffer(id);
  const std::string type = element_type(id);
  if (buffer.shape.empty()) return type;
  const std::int64_t elements = product(buffer.shape).constant() / (forms_[id.index].vectors ? kVector : 1);
  return "array<" + type + ", " + std::to_string(std::max<std::int64_t>(elements, 1)) + ">";
}

// What invocations keep for themselves, and what those of a work item share.
Status KernelEmitter::own_buffers(const kir::Stmt& body, bool threads) {
  std::vector<bool> used(kernel_.buffers.size(), false);
  kir::for_each_statement(body, [&](const StmtNode& node) {
    if (node.kind == StmtNode::Kind::Store) used[node.buffer.index] = true;
    for (kir::BufferId written : kir::buffers_written(node)) used[written.index] = true;
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
      for (std::int64_t k = 0; k < count; k += step)
        line("var " + buffer_name(id) + "_" + std::to_string(k / step) + ": " + element_type(id) + ";");
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

void KernelEmitter::begin_statement(const StmtNode& node) {
  known_.clear();
  vectors_.clear();
  uses_.clear();
  settled_ = &analysis_.settled(node);
  rounded_ = codegen::rounded_quotients(node);
  cancelling_ = codegen::cancelling(kernel_, node);
  kir::for_each_expr(node, [this](const Expr& root) {
    ++uses_[root.address()];
    te::for_each_node(root, [this](const ExprNode& inner) {
      for (const Expr& operand : inner.operands) ++uses_[operand.address()];
    });
  });
  const bool narrows = node.kind == StmtNode::Kind::Store && node.value->op == ExprOp::Cast &&
                       operations_.is_half(node.value.dtype()) &&
                       node.value->operands[0].dtype() == DType::F32 && features_.float16_rounds;
  const bool stays = narrows && !reads_back_ && uses_[node.value.address()] == 1 &&
                     !is_private(kernel_.buffer(node.buffer).scope);
  stored_half_ = stays ? node.value.address() : nullptr;
}

Status KernelEmitter::call(const StmtNode& node) {
  if (kir::is_hint(node.intrinsic)) return {};
  if (node.intrinsic == kir::Intrinsic::ShuffleXor) return shuffle(node);
  if (node.intrinsic != kir::Intrinsic::Barrier)
    return unsupported(std::string("'") + kir::spelling_of(node.intrinsic) + "'");
  if (reads_back_) line("storageBarrier();");
  line("workgroupBarrier();");
  return {};
}

Status KernelEmitter::shuffle(const StmtNode& node) {
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  const std::int64_t mask = node.operands[2].value->int_value;
  const DType dtype = kernel_.buffer(to.buffer).dtype;
  const bool word = dtype == DType::F32 || dtype == DType::I32 || dtype == DType::U32;
  if (mask >= features_.subgroup_lanes || !word)
    return unsupported("an exchange between threads that the adapter does not have");
  shuffles_ = true;
  line(place(to.buffer, analysis_.access(to).flat) + " = subgroupShuffleXor(" +
       place(from.buffer, analysis_.access(from).flat) + ", " + std::to_string(mask) + "u);");
  return {};
}

Status KernelEmitter::loop(const StmtNode& node) {
  switch (node.loop) {
    case LoopKind::Grid: return unsupported("a grid loop inside another loop");
    case LoopKind::Cluster: return unsupported("a cluster of thread blocks");
    case LoopKind::Thread: return unsupported("a thread loop inside another loop");
    case LoopKind::Unrolled: return unrolled(node);
    case LoopKind::Vector: return lanes(node);
    case LoopKind::Serial: break;
  }
  return serial(node);
}

Status KernelEmitter::serial(const StmtNode& node) {
  const std::string name = variable(node.var), extent = size(kernel_.variable(node.var).extent);
  loops_.push_back({node.var, depth_, {}, {}});
  std::string before;
  std::swap(body_, before);
  Status done = block("for (var " + name + " = 0; " + name + " < " + extent + "; " + name + "++)",
                      [&] { return statement(node.body.front()); });
  body_ = before + loops_.back().before + body_;
  loops_.pop_back();
  return done;
}

Status KernelEmitter::unrolled(const StmtNode& node) {
  const std::int64_t iterations = kernel_.variable(node.var).extent.constant();
  for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
    fixed_[node.var.index] = iteration;
    XYNTRA_CHECK_OK(statement(node.body.front()));
  }
  fixed_.erase(node.var.index);
  return {};
}

// At once where the language has it, else one lane after another.
Status KernelEmitter::lanes(const StmtNode& loop) {
  const kir::Stmt& body = loop.body.front();
  const bool stores = body->kind == StmtNode::Kind::Store;
  if (stores && (vector_store(*body, loop.var) || packed_store(*body, loop.var))) return {};
  return unrolled(loop);
}

bool KernelEmitter::vector_store(const StmtNode& node, kir::VarId lane) {
  if (!kernel_.variable(lane).extent.is(kVector) || !forms_[node.buffer.index].vectors) return false;
  const te::LinearIndex& flat = analysis_.access(node).flat;
  if (!is_along(flat, lane)) return false;
  lane_ = lane;
  begin_statement(node);
  const bool settles = settled_->count(node.value.address()) != 0;
  const bool narrow =
      std::ranges::any_of(cancelling_, [](const ExprNode* one) { return one->dtype != DType::F32; });
  if (!narrow && settled_->size() == (settles ? 1U : 0U) && is_vector(node.value)) {
    const std::string stored = vector_value(node.value);
    line(place(node.buffer, flat) + " = " +
         (settles ? operations_.settled_vector(node.value.dtype(), stored) : stored) + ";");
  } else {
    assemble(node, lane);
  }
  lane_ = {};
  return true;
}

// Four lanes that fill whole words: nobody else writes to these.
bool KernelEmitter::packed_store(const StmtNode& node, kir::VarId lane) {
  const int bits = bits_of(kernel_.buffer(node.buffer).dtype);
  const te::LinearIndex& flat = analysis_.access(node).flat;
  if (!kernel_.variable(lane).extent.is(kVector) || !atomic_[node.buffer.index] || bits < 8 ||
      !is_along(flat, lane))
    return false;
  std::vector<std::string> words;
  for (std::int64_t one = 0; one < kVector; ++one) {
    fixed_[lane.index] = one;
    begin_statement(node);
    const std::string name = fresh_name(),
                      stored = operations_.encoded(node.value.dtype(), value(node.value));
    const int shift = static_cast<int>(one) * bits % 32;
    line("let " + name + " = " + stored + (shift == 0 ? "" : " << " + std::to_string(shift) + "u") + ";");
    if (shift == 0) words.emplace_back();
    words.back() += (shift == 0 ? "" : " | ") + name;
  }
  fixed_[lane.index] = 0;
  const std::string first = quotient_text(position(flat), std::to_string(32 / bits));
  for (std::size_t i = 0; i < words.size(); ++i) {
    line("atomicStore(&" + buffer_name(node.buffer) + "[" + first +
         (i == 0 ? "" : " + " + std::to_string(i)) + "], " + words[i] + ");");
  }
  fixed_.erase(lane.index);
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
  std::string stored = operations_.vector_type(node.value.dtype()) + "(";
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
  // A tensor of no elements is never written, but its index may be a number that no shader takes: b2[-1].
  if (std::ranges::any_of(buffer.shape, [](const Dim& extent) { return extent.is(0); })) return;
  const std::string stored = value(node.value);
  const te::LinearIndex& flat = analysis_.access(node).flat;
  if (!atomic_[node.buffer.index]) {
    line(place(node.buffer, flat) + " = " +
         (is_shared_bool(node.buffer) ? operations_.encoded(DType::Bool, stored) : stored) + ";");
    return;
  }
  const std::string name = buffer_name(node.buffer), at = position(flat);
  // Other invocations write other elements of the same word.
  const std::string bits = std::to_string(bits_of(buffer.dtype)) + "u", bit = fresh_name();
  line("let " + bit + " = u32(i32(" + at + ")) * " + bits + ";");
  const std::string word = "&" + name + "[" + bit + " / 32u]", shift = "(" + bit + " % 32u)";
  line("atomicAnd(" + word + ", ~(" + std::to_string((1U << bits_of(buffer.dtype)) - 1) + "u << " + shift +
       "));");
  line("atomicOr(" + word + ", " + operations_.encoded(buffer.dtype, stored) + " << " + shift + ");");
}

// The first index outside ends the run; what it was is stored.
Status KernelEmitter::check(const StmtNode& node) {
  begin_statement(node);
  const Expr& index = node.index.front();
  const std::string bound = size(kernel_.buffer(node.buffer).shape.at(node.dimension));
  const bool wide = !is_position(index);
  const std::string at = wide ? named(index) : position(index);
  const std::string outside =
      wide ? operations_.is_outside(at, bound) : at + " < 0 || " + at + " >= " + bound;
  return block("if (" + outside + ")", [&]() -> Status {
    static_cast<void>(block("if (atomicExchange(&fault[0], 1u) == 0u)", [&]() -> Status {
      line("atomicStore(&fault[1], " + std::to_string(node.buffer.index) + "u);");
      line("atomicStore(&fault[2], " + std::to_string(node.dimension) + "u);");
      const std::string narrow = wide ? operations_.cast(DType::I64, DType::I32, at) : at;
      line("atomicStore(&fault[3], bitcast<u32>(i32(" + narrow + ")));");
      return {};
    }));
    if (!has_barriers_) line("return;");  // others wait for this thread, and loads after it have conditions
    return {};
  });
}

// ---- names

std::string KernelEmitter::variable(kir::VarId id) const {
  if (auto fixed = fixed_.find(id.index); fixed != fixed_.end()) return std::to_string(fixed->second);
  return kernel_.variable(id).name + "_" + std::to_string(id.index);
}

std::string KernelEmitter::buffer_name(kir::BufferId id) const {
  static constexpr std::array kPrefixes{"b", "w", "s", "r"};  // by scope
  if (joined_[id.index].first.valid()) id = joined_[id.index].first;
  return kPrefixes.at(static_cast<std::size_t>(kernel_.buffer(id).scope)) + std::to_string(id.index);
}

std::string KernelEmitter::size(const Dim& dim) {
  if (dim.is_constant()) return std::to_string(dim.constant());
  const std::size_t number = codegen::number_of(made_.sizes, dim);
  return "sizes[" + std::to_string(number / 4) + "]." + component_name(number);
}

}  // namespace xyntra::wgsl

namespace xyntra {
namespace {

kir::Kernel in_words_of_shaders(const kir::Kernel& kernel, const WgslFeatures& features) {
  return kir::legalize(features.float16_adds ? wgsl::with_halves(kernel) : kernel,
                       {.fuses = false,
                        .adds_halves = features.float16 && features.float16_adds,
                        .saturates = true,
                        .divides = true,
                        .shifts_far = true,
                        .has_lanes = false,
                        .keeps_specials = false});
}

}  // namespace

// Bindings are those of the legal kernel: what is legalised to a constant reads nothing.
Result<ShaderKernel> emit_wgsl(const kir::Kernel& kernel, const WgslFeatures& features) {
  XYNTRA_CHECK_OK(kir::verify(kernel));
  wgsl::BoundKernel bound = wgsl::with_bindings(in_words_of_shaders(kernel, features), features);
  XYNTRA_TRY(ShaderKernel made, wgsl::KernelEmitter(bound.kernel, features).emit(bound.packs));
  made.bindings = std::move(bound.bindings);
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.scope == kir::Scope::Global) made.argument_elements.push_back(product(buffer.shape));
  }
  return made;
}

}  // namespace xyntra
