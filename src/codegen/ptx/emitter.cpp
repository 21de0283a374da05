#include "codegen/ptx/emitter.h"

#include <algorithm>

#include "codegen/ptx/units/swizzled.h"
#include "kir/effects.h"
#include "kir/intrinsics.h"
#include "kir/legalize/legalize.h"

namespace xyntra::ptx {

using kir::LoopKind;
using kir::Scope;
using kir::StmtNode;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

constexpr std::int64_t kMostPtxStatements = 200'000;  // after unrolling

// Threads of a block where each does a work item of its own: fewer where that leaves few blocks.
std::int64_t threads_for(const Dim& items) {
  if (!items.is_constant()) return 256;
  return items.constant() <= 8192 ? 64 : items.constant() <= 65536 ? 128 : 256;
}

// Whether something may have more elements than 32 bits count, as far as sizes are known.
bool outgrows_words(const kir::Kernel& kernel) {
  return std::ranges::any_of(kernel.buffers, [](const kir::Buffer& buffer) {
    const Dim count = product(buffer.shape);
    return count.is_constant() && count.constant() > kMostNarrow;
  });
}

kir::TargetOps words_of(const kir::Kernel& kernel) {
  return {.scaling = kernel.approximate ? te::Scaling::ByUnit : te::Scaling::ByArithmetic,
          .saturates = true,
          .shifts_far = true,
          .has_lanes = false};
}

}  // namespace

tl::unexpected<Error> unsupported(const std::string& what) {
  return failure(ErrorClass::Unsupported, "no PTX can be made of " + what);
}

KernelEmitter::KernelEmitter(const kir::Kernel& kernel, const PtxOptions& options)
    : GuardedExpressions(analysis_),
      StatementEmitter(kMostPtxStatements),
      options_(options),
      analysis_(kir::legalize(kernel, words_of(kernel))),
      kernel_(analysis_.kernel()),
      arithmetic_(code_),
      wide_(outgrows_words(kernel)) {}

// ---- module

Result<PtxKernel> KernelEmitter::emit() {
  XYNTRA_CHECK_OK(check_swizzled(kernel_));
  made_.wide = wide_;
  made_.overlaps = options_.overlaps;
  constant_indices_ = analysis_.constant_indices();
  kir::for_each_statement(kernel_.body, [this](const StmtNode& node) {
    made_.has_faults = made_.has_faults || node.kind == StmtNode::Kind::Check;
    if (node.kind != StmtNode::Kind::Call) return;
    by_warpgroups_ = by_warpgroups_ || kir::is_by_warpgroup(node.intrinsic);
    is_hopper_ = is_hopper_ || by_warpgroups_ || kir::has_barrier_object(node.intrinsic);
  });
  for (const kir::Buffer& buffer : kernel_.buffers) {
    const Dim elements = product(buffer.shape);
    if (buffer.scope == Scope::Global) made_.argument_elements.push_back(elements);
    if (buffer.scope == Scope::Workspace)
      made_.workspace_bytes.push_back(elements * Dim(std::max(8, bits_of(buffer.dtype)) / 8));
  }
  const std::vector<kir::Phase> phases = kir::phases_of(kernel_);
  // Sizes are parameters of all entries, and which there are is known when all are written.
  std::vector<std::string> bodies;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    XYNTRA_CHECK_OK(phase(phases[i], "phase" + std::to_string(i)));
    bodies.push_back(std::exchange(entries_, {}));
  }
  const PtxOptions hopper{"sm_90a", "8.0", options_.overlaps};
  const PtxOptions& made_for = is_hopper_ ? hopper : options_;
  made_.text = ".version " + made_for.version + "\n.target " + made_for.target + "\n.address_size 64\n";
  if (std::ranges::any_of(made_.phases, [](const PtxPhase& one) { return one.shared_bytes > 0; }))
    made_.text += "\n.extern .shared .align " +
                  std::to_string(by_warpgroups_ ? kSwizzleAlignment : kAlignment) + " .b8 shared[];\n";
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const PtxPhase& one = made_.phases[i];
    made_.text += "\n.visible .entry " + one.entry + "(" + parameters() + ")\n.reqntid " +
                  std::to_string(one.threads) + "\n" +
                  (kernel_.registers == 0 ? "" : ".maxnreg " + std::to_string(kernel_.registers) + "\n") +
                  "{\n" + bodies[i] + "}\n";
  }
  return std::move(made_);
}

std::string KernelEmitter::parameters() const {
  std::string text;
  auto add = [&text](const std::string& name) {
    text += (text.empty() ? "" : ", ") + (".param .u64 " + name);
  };
  for (const Scope scope : {Scope::Global, Scope::Workspace}) {
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
      if (kernel_.buffers[i].scope == scope) add("b" + std::to_string(i));
    }
  }
  if (made_.has_faults) add("fault");
  for (std::size_t i = 0; i < made_.sizes.size(); ++i) add("size" + std::to_string(i));
  return text;
}

Status KernelEmitter::phase(const kir::Phase& phase, const std::string& entry) {
  kir::Stmt body = phase.body;
  std::vector<kir::VarId> threads;
  std::int64_t count = 1;
  while (body->kind == StmtNode::Kind::Loop && body->loop == LoopKind::Thread) {
    threads.push_back(body->var);
    count *= kernel_.variable(body->var).extent.constant();
    body = body->body.front();
  }
  const Dim items = kir::work_items(kernel_, phase);
  const bool grouped = !threads.empty();
  threads_ = grouped ? count : threads_for(items);
  constexpr std::int64_t kSpareRegisters = 16384, kMostSpare = 16;  // of a thread block, of a thread
  code_.spare_registers(
      static_cast<std::size_t>(std::min(kMostSpare, kSpareRegisters / std::max<std::int64_t>(threads_, 1))));
  variables_.assign(kernel_.variables.size(), "");
  bases_.assign(kernel_.buffers.size(), "");
  elements_.clear();
  sizes_.clear();
  local_.clear();
  prologue_.clear();
  arithmetic_.begin_function();
  end_ = "$END";
  PtxPhase made{entry, items, threads_, grouped ? 1 : threads_, 0};
  made_.phases.push_back(made);
  XYNTRA_CHECK_OK(own_buffers(body, grouped));
  // What launches write is not looked at before the one that was launched before this one is done, nor is anything written. The next launch is
  // let in when blocks end, or at once where they are few: its own wait where there is room, and ask for constants meanwhile. Beside many
  // blocks they would be put where there is room now, some cores would have more of them than others.
  waits_ = options_.overlaps;
  const Dim blocks = grouped ? items : ceil_div(items, threads_);
  if (options_.overlaps && blocks.is_constant() && blocks.constant() <= options_.cores)
    code_.line("griddepcontrol.launch_dependents");

  std::string item = code_.word("mov.u32", {"%ctaid.x"});
  if (!grouped) {
    item = code_.word("mad.lo.s32", {item, std::to_string(threads_), code_.word("mov.u32", {"%tid.x"})});
    const bool exact = items.is_constant() && items.constant() % threads_ == 0;
    if (!exact) {
      const std::string beyond = code_.predicate("setp.ge.s32", {item, size(items, false)});
      code_.line("@" + beyond + " bra " + end_);
    }
  }
  digits(item, phase.grid);
  if (grouped) digits(code_.word("mov.u32", {"%tid.x"}), threads);
  has_barriers_ = kir::has_barrier(body);
  XYNTRA_CHECK_OK(statement(body));
  if (waits_) code_.line("griddepcontrol.wait");  // who waits for this launch counts on those before it
  code_.label(end_);
  code_.line("ret");
  std::string text = code_.take_body();
  // Declarations come first, then what is read of the parameters.
  const std::size_t declared = text.rfind("  .reg ");
  const std::size_t after = declared == std::string::npos ? 0 : text.find('\n', declared) + 1;
  entries_ += text.substr(0, after) + local_ + prologue_ + text.substr(after);
  return {};
}

// The variables are the digits of a number, the last one the lowest.
void KernelEmitter::digits(std::string number, const std::vector<kir::VarId>& variables) {
  for (std::size_t d = variables.size(); d-- > 0;) {
    const Dim& extent = kernel_.variable(variables[d]).extent;
    std::string& digit = variables_[variables[d].index];
    if (extent.is(1)) {
      digit = "0";
      continue;
    }
    const bool last =
        std::ranges::all_of(variables.begin(), variables.begin() + static_cast<std::ptrdiff_t>(d),
                            [this](kir::VarId id) { return kernel_.variable(id).extent.is(1); });
    if (last) {
      digit = number;
      number = "0";
      continue;
    }
    const std::string divisor = size(extent, false);
    digit = arithmetic_.rest(number, divisor);
    number = arithmetic_.quotient(number, divisor);
  }
}

// ---- statements

// Whether a statement, or one inside it, reads or writes memory that launches write.
bool KernelEmitter::looks_at_results(const StmtNode& node) const {
  auto is_written = [this](kir::BufferId id) {
    const kir::Scope scope = kernel_.buffer(id).scope;
    if (scope != Scope::Global) return scope == Scope::Workspace;
    const auto argument = static_cast<std::size_t>(
        std::count_if(kernel_.buffers.begin(), kernel_.buffers.begin() + id.index,
                      [](const kir::Buffer& one) { return one.scope == Scope::Global; }));
    return argument >= options_.constants.size() || !options_.constants[argument];
  };
  bool found =
      node.kind == StmtNode::Kind::Check || (node.kind == StmtNode::Kind::Store && is_written(node.buffer));
  for (const kir::Operand& operand : node.operands)
    found = found || (operand.buffer.valid() && is_written(operand.buffer));
  kir::for_each_expr(node, [&](const Expr& expr) {
    te::for_each_node(expr, [&](const ExprNode& inner) {
      found = found || (te::is_load(inner) && is_written(inner.buffer));
    });
  });
  return found || std::ranges::any_of(node.body, [this](const kir::Stmt& inner) {
           return inner.defined() && looks_at_results(*inner);
         });
}

void KernelEmitter::begin_statement(const StmtNode& node) {
  begin_expressions("");
  static const std::unordered_set<const ExprNode*> none;
  settled_ = kernel_.approximate ? &none : &analysis_.settled(node);
  seen_ = kernel_.approximate ? none : codegen::moved_nans(node);
}

void KernelEmitter::before(const StmtNode& statement) {
  if (!waits_ || !looks_at_results(statement)) return;
  code_.line("griddepcontrol.wait");
  waits_ = false;
}

Status KernelEmitter::loop(const StmtNode& node) {
  switch (node.loop) {
    case LoopKind::Grid: return unsupported("a grid loop inside another loop");
    case LoopKind::Cluster: return unsupported("a cluster of thread blocks");
    case LoopKind::Thread: return unsupported("a thread loop inside another loop");
    case LoopKind::Unrolled: return written_out(node);
    case LoopKind::Vector: return lanes(node);
    case LoopKind::Serial: break;
  }
  return serial(node);
}

Status KernelEmitter::serial(const StmtNode& node) {
  const Dim& extent = kernel_.variable(node.var).extent;
  if (extent.is_constant() && extent.constant() < 1) return {};
  if (extent.is(1)) {
    variables_[node.var.index] = "0";
    return statement(node.body.front());
  }
  const std::string trip_count = size(extent, false), counter = code_.fresh(Size::Word);
  const std::string head = code_.fresh_label(), after = code_.fresh_label();
  code_.line("mov.u32 " + counter + ", 0");
  if (!extent.is_constant()) {
    const std::string none = code_.predicate("setp.le.s32", {trip_count, "0"});
    code_.line("@" + none + " bra " + after);
  }
  code_.open_loop(counter);
  code_.label(head);
  variables_[node.var.index] = counter;
  XYNTRA_CHECK_OK(statement(node.body.front()));
  code_.close_loop();
  code_.line("add.s32 " + counter + ", " + counter + ", 1");
  code_.line("@" + code_.predicate("setp.lt.s32", {counter, trip_count}) + " bra " + head);
  code_.label(after);
  return {};
}

Status KernelEmitter::written_out(const StmtNode& loop) {
  const std::int64_t iterations = kernel_.variable(loop.var).extent.constant();
  for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
    variables_[loop.var.index] = std::to_string(iteration);
    XYNTRA_CHECK_OK(statement(loop.body.front()));
  }
  return {};
}

// Memory is read and written for several lanes at once.
Status KernelEmitter::lanes(const StmtNode& loop) {
  const StmtNode& body = *loop.body.front();
  return body.kind == StmtNode::Kind::Store && vector_store(body, loop.var) ? Status() : written_out(loop);
}

Status KernelEmitter::branch(const StmtNode& node) {
  begin_statement(node);
  const std::string condition = value(node.condition);
  const kir::Stmt otherwise = node.body.size() > 1 ? node.body[1] : kir::Stmt();
  if (condition == kTrue) return statement(node.body[0]);
  if (condition == kFalse) return statement(otherwise);
  const std::string other = code_.fresh_label();
  code_.line("@!" + condition + " bra " + other);
  XYNTRA_CHECK_OK(statement(node.body[0]));
  if (!otherwise.defined()) {
    code_.label(other);
    return {};
  }
  const std::string after = code_.fresh_label();
  code_.line("bra " + after);
  code_.label(other);
  XYNTRA_CHECK_OK(statement(otherwise));
  code_.label(after);
  return {};
}

void KernelEmitter::store(const StmtNode& node) {
  begin_statement(node);
  if (std::ranges::any_of(kernel_.buffer(node.buffer).shape, [](const Dim& extent) { return extent.is(0); }))
    return;
  const std::string stored = value(node.value);
  store_at(node.buffer, analysis_.access(node).flat, stored);
}

// The first index outside ends the run; what it was is stored.
Status KernelEmitter::check(const StmtNode& node) {
  begin_statement(node);
  const Expr& index = node.index.front();
  const Dim& bound = kernel_.buffer(node.buffer).shape.at(node.dimension);
  const bool narrow = is_position(index);
  const std::string at = narrow ? position(index) : value(index);
  const std::string inside =
      code_.predicate(narrow ? "setp.lt.u32" : "setp.lt.u64", {at, size(bound, !narrow)});
  const std::string after = code_.fresh_label(), known = code_.fresh_label();
  code_.line("@" + inside + " bra " + after);
  const std::string record = code_.wide("ld.param.u64", {"[fault]"});
  const std::string before = code_.word("atom.global.exch.b32", {"[" + record + "]", "1"});
  code_.line("@" + code_.predicate("setp.ne.s32", {before, "0"}) + " bra " + known);
  code_.line("st.global.b32 [" + record + "+4], " + std::to_string(node.buffer.index));
  code_.line("st.global.b32 [" + record + "+8], " + std::to_string(node.dimension));
  const std::string found = narrow ? code_.wide("cvt.s64.s32", {at}) : at;
  code_.line("st.global.b64 [" + record + "+16], " + found);
  code_.label(known);
  if (!has_barriers_)
    code_.line("bra " + end_);  // others wait for this thread, and loads after it have conditions
  code_.label(after);
  return {};
}

namespace {

// What takes one line: a number at its end is the intrinsic's only operand.
struct LineRow {
  kir::Intrinsic intrinsic;
  const char* line;
  bool has_number = false;
};
constexpr LineRow kLines[] = {
    {kir::Intrinsic::AsyncCommit, "cp.async.commit_group"},
    {kir::Intrinsic::AsyncWait, "cp.async.wait_group ", true},
    {kir::Intrinsic::AsyncFence, "fence.proxy.async.shared::cta"},
    {kir::Intrinsic::WarpgroupFence, "wgmma.fence.sync.aligned"},
    {kir::Intrinsic::WarpgroupCommit, "wgmma.commit_group.sync.aligned"},
    {kir::Intrinsic::WarpgroupWait, "wgmma.wait_group.sync.aligned ", true},
};

}  // namespace

Status KernelEmitter::call(const StmtNode& node) {
  using kir::Intrinsic;
  if (kir::is_hint(node.intrinsic)) return {};
  if (node.intrinsic == Intrinsic::Barrier) {
    if (threads_ > 1) code_.line("bar.sync 0");
    return {};
  }
  if (kir::is_atomic(node.intrinsic)) return atomic_update(node);
  if (const LineRow* row = std::ranges::find(kLines, node.intrinsic, &LineRow::intrinsic);
      row != std::end(kLines)) {
    code_.line(row->line + (row->has_number ? std::to_string(node.operands[0].value->int_value) : ""));
    return {};
  }
  struct Row {
    Intrinsic intrinsic;
    Status (KernelEmitter::*emit)(const StmtNode&);
  };
  constexpr Row kRows[] = {
      {Intrinsic::NamedBarrier, &KernelEmitter::named_barrier},
      {Intrinsic::ShuffleXor, &KernelEmitter::shuffle},
      {Intrinsic::ShuffleIdx, &KernelEmitter::shuffle},
      {Intrinsic::ShuffleDown, &KernelEmitter::shuffle},
      {Intrinsic::VoteAny, &KernelEmitter::vote},
      {Intrinsic::VoteAll, &KernelEmitter::vote},
      {Intrinsic::Ballot, &KernelEmitter::vote},
      {Intrinsic::AsyncCopy, &KernelEmitter::async_copy},
      {Intrinsic::LoadFragment, &KernelEmitter::load_fragment},
      {Intrinsic::LoadFragmentTransposed, &KernelEmitter::load_fragment},
      {Intrinsic::WarpMultiplyBf16, &KernelEmitter::warp_multiply},
      {Intrinsic::WarpMultiplyF16, &KernelEmitter::warp_multiply},
      {Intrinsic::WarpMultiplyTf32, &KernelEmitter::warp_multiply},
      {Intrinsic::WarpMultiplyI8, &KernelEmitter::warp_multiply},
      {Intrinsic::WarpMultiplyU8, &KernelEmitter::warp_multiply},
      {Intrinsic::WarpMultiplyU8I8, &KernelEmitter::warp_multiply},
      {Intrinsic::WarpMultiplyI8U8, &KernelEmitter::warp_multiply},
      {Intrinsic::RoundWordsBf16, &KernelEmitter::round_words},
      {Intrinsic::RoundWordsF16, &KernelEmitter::round_words},
      {Intrinsic::RoundWordsTf32, &KernelEmitter::round_words_tf32},
      {Intrinsic::MbarrierInit, &KernelEmitter::barrier_object},
      {Intrinsic::MbarrierArrive, &KernelEmitter::barrier_object},
      {Intrinsic::MbarrierExpect, &KernelEmitter::barrier_object},
      {Intrinsic::MbarrierWait, &KernelEmitter::barrier_object},
      {Intrinsic::SetRegisters, &KernelEmitter::set_registers},
      {Intrinsic::WarpgroupMultiply, &KernelEmitter::warpgroup_multiply},
      {Intrinsic::WarpgroupMultiplyTurned, &KernelEmitter::warpgroup_multiply},
      {Intrinsic::WarpgroupMultiplyRs, &KernelEmitter::warpgroup_multiply_rs},
      {Intrinsic::WarpgroupMultiplyRsTurned, &KernelEmitter::warpgroup_multiply_rs},
  };
  const Row* row = std::ranges::find(kRows, node.intrinsic, &Row::intrinsic);
  if (row != std::end(kRows)) return (this->*row->emit)(node);
  return unsupported(std::string("'") + kir::spelling_of(node.intrinsic) + "'");
}

}  // namespace xyntra::ptx

namespace xyntra {

Result<PtxKernel> emit_ptx(const kir::Kernel& kernel, const PtxOptions& options) {
  XYNTRA_CHECK_OK(kir::verify(kernel));
  return ptx::KernelEmitter(kernel, options).emit();
}

}  // namespace xyntra
