#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "kir/bounds.h"
#include "kir/effects.h"
#include "kir/intrinsics.h"
#include "kir/kernel.h"
#include "kir/text_words.h"
#include "kir/unproved.h"

namespace xyntra::kir {
namespace {

using te::ExprNode;
using te::ExprOp;
using Kind = StmtNode::Kind;

class Verifier {
 public:
  // Where `unproved` is given, loads and stores that may be out of bounds are noted there, and are no failure.
  explicit Verifier(const Kernel& kernel, Unproved* unproved = nullptr)
      : kernel_(kernel), prover_(kernel.variables), unproved_(unproved) {}

  Status run() {
    if (!is_plain_identifier(kernel_.name)) return fail("its name is not an identifier");
    if (!kernel_.body.defined()) return fail("it has no body");
    XYNTRA_CHECK_OK(buffers_ok());
    XYNTRA_CHECK_OK(ids_ok());
    for (const Phase& phase : phases_of(kernel_)) XYNTRA_CHECK_OK(phase_ok(phase));
    return {};
  }

 private:
  tl::unexpected<Error> fail(const std::string& what) const {
    return failure(ErrorClass::Internal, "kernel " + kernel_.name + ": " + what);
  }
  std::string quoted(VarId id) const { return "'" + kernel_.variable(id).name + "'"; }
  std::string quoted(BufferId id) const { return "'" + kernel_.buffer(id).name + "'"; }

  // ---- before anything is walked

  Status buffers_ok() const {
    std::set<std::string> names;
    for (const Buffer& buffer : kernel_.buffers) {
      if (!is_plain_identifier(buffer.name)) return fail("the name of a buffer is not an identifier");
      if (is_reserved(buffer.name))
        return fail("'" + buffer.name + "' is a word of its own, not a buffer's name");
      if (!names.insert(buffer.name).second) return fail("two buffers are named '" + buffer.name + "'");
      if (buffer.scope == Scope::Register && !is_static(buffer.shape)) {
        return fail("'" + buffer.name + "' is in registers: its shape must be constant");
      }
    }
    return {};
  }

  // Ids in range and no statement missing, so that everything after may look them up.
  Status ids_ok() {
    Status status;
    std::unordered_set<const ExprNode*> seen;
    auto buffer_ok = [&](BufferId id) {
      if (status && id.index >= kernel_.buffers.size())
        status = fail("it names a buffer that does not exist");
    };
    for_each_statement(kernel_.body, [&](const StmtNode& node) {
      for (const Stmt& inner : node.body) {
        if (status && !inner.defined()) status = fail("a statement is missing");
      }
      if (node.kind == Kind::Loop && status && node.var.index >= kernel_.variables.size()) {
        status = fail("a loop has a variable that does not exist");
      }
      if (node.kind == Kind::Store || node.kind == Kind::Check) buffer_ok(node.buffer);
      for (const Operand& operand : node.operands) {
        if (operand.buffer.valid()) buffer_ok(operand.buffer);
      }
      note_writes(node);
      for_each_expr(node, [&](const Expr& root) {
        std::vector<const ExprNode*> waiting{root.address()};
        while (!waiting.empty()) {
          const ExprNode* expr = waiting.back();
          waiting.pop_back();
          if (!seen.insert(expr).second) continue;
          if (te::is_load(*expr)) buffer_ok(expr->buffer);
          if (status && expr->op == ExprOp::Var && expr->var.index >= kernel_.variables.size()) {
            status = fail("it names a variable that does not exist");
          }
          if (status && expr->op == ExprOp::Accumulator) status = fail("an accumulator stands in it");
          for (const Expr& operand : expr->operands) waiting.push_back(operand.address());
        }
      });
    });
    return status;
  }

  void note_writes(const StmtNode& node) {
    if (node.kind != Kind::Call) return;
    std::size_t place = 0;
    for (const Operand& operand : node.operands) {
      if (!operand.buffer.valid() || place >= places_of(node.intrinsic).size()) continue;
      if (is_opaque_place(places_of(node.intrinsic)[place++])) opaque_.insert(operand.buffer);
    }
  }

  // ---- statements

  Status phase_ok(const Phase& phase) {
    std::size_t before = prover_.mark();
    goes_on_ = has_barrier(phase.body);
    for (VarId var : phase.grid) XYNTRA_CHECK_OK(enter(var));
    std::vector<VarId> entered = phase.grid;
    Stmt body = phase.body;
    threads_.clear();
    cluster_.reset();
    if (body->kind == Kind::Loop && body->loop == LoopKind::Cluster) {
      XYNTRA_CHECK_OK(cluster_ok(phase, *body));
      entered.push_back(body->var);
      body = body->body.front();
    }
    while (body->kind == Kind::Loop && body->loop == LoopKind::Thread) {
      if (phase.grid.empty()) return fail("thread loop " + quoted(body->var) + " stands outside of a grid");
      XYNTRA_CHECK_OK(constant_extent(*body));
      XYNTRA_CHECK_OK(enter(body->var));
      threads_.push_back(body->var);
      entered.push_back(body->var);
      body = body->body.front();
    }
    XYNTRA_CHECK_OK(registers_ok());
    XYNTRA_CHECK_OK(statement_ok(body));
    for (VarId var : entered) scope_.erase(var);
    prover_.release(before);
    return {};
  }

  Status cluster_ok(const Phase& phase, const StmtNode& loop) {
    const std::string name = "cluster loop " + quoted(loop.var);
    const StmtNode& inner = *loop.body.front();
    if (phase.grid.empty() || inner.kind != Kind::Loop || inner.loop != LoopKind::Thread)
      return fail(name + " must stand directly inside grid loops and around thread loops");
    const Dim& extent = kernel_.variable(loop.var).extent;
    if (!extent.is_constant() || extent.constant() < 1 || extent.constant() > kMostInCluster)
      return fail("the extent of " + name + " must be a constant from 1 to " +
                  std::to_string(kMostInCluster));
    cluster_ = loop.var;
    return enter(loop.var);
  }

  Status enter(VarId var) {
    if (!scope_.insert(var).second)
      return fail("two loops, one in the other, share the variable " + quoted(var));
    prover_.assume_inside_loop(kernel_.variable(var).extent);
    return {};
  }

  Status constant_extent(const StmtNode& loop) const {
    if (kernel_.variable(loop.var).extent.is_constant()) return {};
    return fail(std::string("the extent of ") + name_of(loop.loop) + " loop " + quoted(loop.var) +
                " must be constant");
  }

  Status statement_ok(const Stmt& statement) {
    const StmtNode& node = *statement;
    switch (node.kind) {
      case Kind::Block: return block_ok(node);
      case Kind::Loop: return loop_ok(node);
      case Kind::If: return branch_ok(node);
      case Kind::Store: return store_ok(node);
      case Kind::Check: return check_ok(node);
      case Kind::Call: return call_ok(node);
    }
    return {};
  }

  Status block_ok(const StmtNode& node) {
    std::size_t before = prover_.mark();
    for (const Stmt& inner : node.body) XYNTRA_CHECK_OK(statement_ok(inner));
    prover_.release(before);
    return {};
  }

  Status loop_ok(const StmtNode& node) {
    switch (node.loop) {
      case LoopKind::Grid:
        return fail("grid loop " + quoted(node.var) +
                    " must stand at the top, directly inside grid loops alone");
      case LoopKind::Cluster:
        return fail("cluster loop " + quoted(node.var) + " must stand directly inside the grid loops");
      case LoopKind::Thread:
        return fail("thread loop " + quoted(node.var) + " must stand directly inside the grid loops");
      case LoopKind::Vector:
        if (in_vector_) return fail("vector loop " + quoted(node.var) + " stands inside another");
        XYNTRA_CHECK_OK(constant_extent(node));
        break;
      case LoopKind::Unrolled: XYNTRA_CHECK_OK(constant_extent(node)); break;
      case LoopKind::Serial: break;
    }
    for (BufferId buffer : buffers_written(node.body.front())) prover_.forget(buffer);
    std::size_t before = prover_.mark();
    bool outer_vector = in_vector_;
    in_vector_ = in_vector_ || node.loop == LoopKind::Vector;
    XYNTRA_CHECK_OK(enter(node.var));
    XYNTRA_CHECK_OK(statement_ok(node.body.front()));
    scope_.erase(node.var);
    in_vector_ = outer_vector;
    prover_.release(before);
    return {};
  }

  Status branch_ok(const StmtNode& node) {
    if (node.condition.dtype() != DType::Bool) return fail("the condition of an if must be bool");
    XYNTRA_CHECK_OK(expr_ok(node.condition));
    const Divergence outer = divergence_;
    std::string why = text(node.condition);
    if (differs_in_cluster(node.condition)) divergence_.cluster = &why;
    if (differs_between(thread_count(), node.condition)) divergence_.item = &why;
    if (differs_between(kWarpgroupThreads, node.condition)) divergence_.warpgroup = &why;
    if (differs_between(kWarpThreads, node.condition)) divergence_.warp = &why;
    for (std::size_t i = 0; i < node.body.size(); ++i) {
      std::size_t before = prover_.mark();
      prover_.assume(node.condition, i == 0);
      XYNTRA_CHECK_OK(statement_ok(node.body[i]));
      prover_.release(before);
    }
    divergence_ = outer;
    return {};
  }

  std::int64_t thread_count() const { return threads_inside(threads_.begin()); }
  std::int64_t threads_inside(std::vector<VarId>::const_iterator first) const {
    std::int64_t count = 1;
    for (; first != threads_.end(); ++first) count *= kernel_.variable(*first).extent.constant();
    return count;
  }

  // Among so many threads with neighbouring numbers, from a multiple of it on.
  bool differs_between(std::int64_t together, const Expr& condition) const {
    if (threads_.empty() || together == 0) return false;
    bool differs = false;
    te::for_each_node(condition, [&](const ExprNode& node) {
      const auto at = node.op == ExprOp::Var ? std::ranges::find(threads_, node.var) : threads_.end();
      if (at != threads_.end() && threads_inside(std::next(at)) % together != 0) differs = true;
      if (te::is_load(node) && kernel_.buffer(node.buffer).scope == Scope::Register) differs = true;
    });
    return differs;
  }

  // What each work item has of its own may differ, too.
  bool differs_in_cluster(const Expr& condition) const {
    bool differs = differs_between(thread_count(), condition);
    te::for_each_node(condition, [&](const ExprNode& node) {
      differs = differs || (node.op == ExprOp::Var && node.var == cluster_) ||
                (te::is_load(node) && kernel_.buffer(node.buffer).scope == Scope::Shared);
    });
    return differs;
  }

  Status store_ok(const StmtNode& node) {
    const Buffer& buffer = kernel_.buffer(node.buffer);
    const std::string what = "store to " + quoted(node.buffer);
    if (buffer.scope == Scope::Global && !buffer.written) return fail(what + ", which is an input");
    if (opaque_.count(node.buffer) != 0) return fail(what + ", which only intrinsics reach");
    if (node.value.dtype() != buffer.dtype) {
      return fail(what + " of " + std::string(name_of(node.value.dtype())) + " where it holds " +
                  std::string(name_of(buffer.dtype)));
    }
    XYNTRA_CHECK_OK(stream_ok(node));
    XYNTRA_CHECK_OK(expr_ok(node.value));
    Status in_bounds = index_ok(what, node.buffer, node.index);
    if (!in_bounds && unproved_ != nullptr) {
      unproved_->stores.insert(&node);
    } else {
      XYNTRA_CHECK_OK(in_bounds);
    }
    prover_.forget(node.buffer);
    return {};
  }

  Status stream_ok(const StmtNode& node) {
    if (!node.condition.defined()) return {};
    const std::string what = "stream of a store to " + quoted(node.buffer);
    if (kernel_.buffer(node.buffer).scope != Scope::Global) return fail(what + ", which is no argument");
    if (node.condition.dtype() != DType::Bool) return fail(what + " on a condition that is not bool");
    bool of_sizes = true;
    te::for_each_node(node.condition, [&](const ExprNode& part) {
      of_sizes = of_sizes && part.op != ExprOp::Var && !te::is_load(part);
    });
    return of_sizes ? Status{} : fail(what + " on a condition that depends on more than sizes");
  }

  Status check_ok(const StmtNode& node) {
    const Buffer& buffer = kernel_.buffer(node.buffer);
    if (node.dimension >= buffer.shape.size() || node.index.size() != 1) {
      return fail("check of " + quoted(node.buffer) + " names a dimension that does not exist");
    }
    if (node.index[0].dtype() != DType::I64) return fail("an index must be i64");
    XYNTRA_CHECK_OK(expr_ok(node.index[0]));
    if (!goes_on_) prover_.assume_within(node.index[0], buffer.shape[node.dimension]);
    return {};
  }

  // ---- intrinsics

  Status call_ok(const StmtNode& node) {
    const std::string name = spelling_of(node.intrinsic), signature = signature_of(node.intrinsic);
    if (in_vector_) return fail(name + " stands inside a vector loop");
    if (node.operands.size() != signature.size()) {
      return fail(name + " takes " + std::to_string(signature.size()) + " operands, not " +
                  std::to_string(node.operands.size()));
    }
    for (std::size_t i = 0; i < signature.size(); ++i) {
      const Operand& operand = node.operands[i];
      if (operand.buffer.valid() != (signature[i] == 'p')) {
        return fail("operand " + std::to_string(i + 1) + " of " + name + " must be a " +
                    (signature[i] == 'p' ? "place in a buffer" : "number"));
      }
      if (signature[i] == 'p') continue;
      if (!operand.value.defined() || operand.value.dtype() != DType::I64) {
        return fail("the numbers of " + name + " must be i64");
      }
      if (signature[i] == 'c' && operand.value->op != ExprOp::Const)
        return fail("operand " + std::to_string(i + 1) + " of " + name + " must be a constant");
      XYNTRA_CHECK_OK(expr_ok(operand.value));
    }
    XYNTRA_CHECK_OK(all_reach(node.intrinsic));
    XYNTRA_CHECK_OK(numbers_ok(node));
    std::size_t place = 0;
    for (const Operand& operand : node.operands) {
      if (!operand.buffer.valid()) continue;
      const PlaceRule& rule = places_of(node.intrinsic)[place++];
      const std::size_t before = prover_.mark();
      const bool reads = rule.access == PlaceAccess::Read;
      if (reads && node.intrinsic == Intrinsic::AsyncCopy && condition_of_copy(node).defined())
        prover_.assume(condition_of_copy(node), true);
      XYNTRA_CHECK_OK(place_ok(node, operand, rule));
      prover_.release(before);
    }
    if (node.intrinsic == Intrinsic::Barrier || node.intrinsic == Intrinsic::NamedBarrier ||
        node.intrinsic == Intrinsic::MbarrierWait || node.intrinsic == Intrinsic::ClusterBarrier)
      forget_shared();
    for (BufferId buffer : buffers_written(node)) prover_.forget(buffer);
    return {};
  }

  // Those who do it as one are there, and no condition tells them apart.
  Status all_reach(Intrinsic intrinsic) const {
    const std::string name = spelling_of(intrinsic);
    if (!cluster_ && (by_whom(intrinsic) == By::Cluster || reaches_cluster(intrinsic)))
      return fail(name + " stands outside of a cluster loop");
    auto reach = [&](const std::string* divergence) {
      if (divergence == nullptr) return Status{};
      return Status(fail((intrinsic == Intrinsic::Barrier ? "a barrier" : name) +
                         " stands where threads differ: under if " + *divergence));
    };
    switch (by_whom(intrinsic)) {
      case By::Thread: return {};
      case By::Item: return reach(divergence_.item);
      case By::Cluster: return reach(divergence_.cluster);
      case By::Warp:
        if (thread_count() % kWarpThreads != 0) return fail(name + " needs whole warps of 32 threads");
        return reach(divergence_.warp);
      case By::Warpgroup:
        if (thread_count() % kWarpgroupThreads != 0)
          return fail(name + " needs whole warpgroups of 128 threads");
        return reach(divergence_.warpgroup);
    }
    return {};
  }

  Status numbers_ok(const StmtNode& node) {
    if (reaches_cluster(node.intrinsic)) return in_cluster_ok(node);
    switch (node.intrinsic) {
      case Intrinsic::ShuffleXor:
      case Intrinsic::ShuffleIdx:
      case Intrinsic::ShuffleDown: return shuffle_ok(node);
      case Intrinsic::AsyncCopy: return copy_ok(node);
      case Intrinsic::NamedBarrier: return named_barrier_ok(node);
      case Intrinsic::SetRegisters: return set_registers_ok(node);
      case Intrinsic::AtomicAdd:
      case Intrinsic::AtomicMin:
      case Intrinsic::AtomicMax:
      case Intrinsic::AtomicAnd:
      case Intrinsic::AtomicOr: return atomic_ok(node);
      case Intrinsic::MmlaI8:
        if (dtype_of(node, 1) != dtype_of(node, 2)) return fail("the rows of mmla_i8 must have one dtype");
        return {};
      default: return {};
    }
  }

  // The work items that it reaches are of the cluster, and values are what a thread moves at once.
  Status in_cluster_ok(const StmtNode& node) {
    const std::string name = spelling_of(node.intrinsic);
    const std::int64_t items = kernel_.variable(*cluster_).extent.constant();
    if (is_multicast(node.intrinsic)) {
      const std::int64_t mask = node.operands.back().value->int_value;
      if (mask > 0 && mask < std::int64_t{1} << items) return {};
      return fail(name + ": " + std::to_string(mask) + " are not the bits of work items of a cluster of " +
                  std::to_string(items));
    }
    const std::size_t place = node.intrinsic == Intrinsic::ClusterLoad ? 1 : 0;
    const Expr& rank = node.operands[static_cast<std::size_t>(places_of(node.intrinsic)[place].rank)].value;
    if (!prover_.never_negative(rank) || !prover_.never_negative(Expr::index(items - 1) - rank))
      return fail(name + ": " + text(rank) + " is not shown to be a work item of a cluster of " +
                  std::to_string(items));
    if (node.intrinsic == Intrinsic::ClusterArrive) return {};
    const DType dtype = dtype_of(node, 0);
    if (dtype != dtype_of(node, 1)) return fail(name + " moves values of one dtype");
    if (bits_of(dtype) >= 32) return {};
    return fail(name + " moves elements of 32 or 64 bits, not " + std::string(name_of(dtype)));
  }
  DType dtype_of(const StmtNode& call, std::size_t operand) const {
    return kernel_.buffer(call.operands[operand].buffer).dtype;
  }

  Status shuffle_ok(const StmtNode& node) {
    const std::string name = spelling_of(node.intrinsic);
    const Expr& which = node.operands[2].value;
    if (node.intrinsic == Intrinsic::ShuffleXor) {
      const bool fits = which->int_value > 0 &&
                        std::has_single_bit(static_cast<std::uint64_t>(which->int_value)) &&
                        thread_count() % (2 * which->int_value) == 0;
      if (!fits)
        return fail("the mask of shuffle_xor must be a constant power of two, and threads come in pairs");
    } else {
      const std::int64_t least = node.intrinsic == Intrinsic::ShuffleDown ? 1 : 0;
      if (!prover_.never_negative(which - least) ||
          !prover_.never_negative(Expr::index(kWarpThreads - 1) - which))
        return fail(name + ": " + text(which) + " is not shown to be from " + std::to_string(least) +
                    " to 31");
    }
    if (dtype_of(node, 0) != dtype_of(node, 1)) return fail(name + " moves values of one dtype");
    return {};
  }

  Status named_barrier_ok(const StmtNode& node) {
    constexpr std::int64_t kLast = 15;
    const Expr& number = node.operands[0].value;
    if (!prover_.never_negative(number - 1) || !prover_.never_negative(Expr::index(kLast) - number))
      return fail("named_barrier: " + text(number) + " is not shown to be from 1 to 15");
    const std::int64_t threads = node.operands[1].value->int_value;
    if (threads < kWarpThreads || threads % kWarpThreads != 0 || threads > thread_count())
      return fail("the threads of named_barrier must be whole warps, and no more than there are");
    return {};
  }

  Status atomic_ok(const StmtNode& node) const {
    const std::string name = spelling_of(node.intrinsic);
    const DType dtype = dtype_of(node, 0);
    if (dtype != dtype_of(node, 1)) return fail(name + " takes values of one dtype");
    if (is_integer(dtype) && bits_of(dtype) >= 32) return {};
    if (node.intrinsic != Intrinsic::AtomicAdd || dtype != DType::F32)
      return fail(name + " takes integers of 32 or 64 bits, not " + std::string(name_of(dtype)));
    if (kernel_.approximate) return {};
    return fail(
        "atomic_add of f32: the sum depends on the order in which threads come, which only a kernel that is "
        "approximate allows");
  }

  Status set_registers_ok(const StmtNode& node) const {
    constexpr std::int64_t kLeast = 24, kMost = 256, kStep = 8;
    const std::int64_t count = node.operands[0].value->int_value;
    if (count < kLeast || count > kMost || count % kStep != 0)
      return fail("set_registers: " + std::to_string(count) + " is no multiple of 8 from 24 to 256");
    if (kernel_.registers == 0) return fail("set_registers in a kernel that does not say how many there are");
    return {};
  }

  // A multiprocessor has as many for the threads of one work item.
  Status registers_ok() const {
    constexpr std::int64_t kLeast = 24, kMost = 255, kOfItem = 65536;
    if (kernel_.registers == 0) return {};
    const std::string count = std::to_string(kernel_.registers) + " registers";
    if (kernel_.registers < kLeast || kernel_.registers > kMost)
      return fail("a thread cannot have " + count + ": from 24 to 255");
    if (kernel_.registers * thread_count() > kOfItem)
      return fail(std::to_string(thread_count()) + " threads of " + count + " are more than 65536");
    return {};
  }

  Status copy_ok(const StmtNode& node) const {
    const Expr& count = node.operands[2].value;
    const bool chosen = count->op == ExprOp::Select && count->operands[2].is_integer_constant(0);
    const Expr& all = chosen ? count->operands[1] : count;
    if (dtype_of(node, 0) != dtype_of(node, 1)) return fail("async_copy moves elements of one dtype");
    const std::string elements = std::to_string(kChunkBytes * 8 / bits_of(dtype_of(node, 0)));
    if (!all.is_integer_constant(kChunkBytes * 8 / bits_of(dtype_of(node, 0))))
      return fail("async_copy moves " + elements + " elements, or select(condition, " + elements + ", 0)");
    return {};
  }

  // Other threads may have written what is not this thread's own.
  void forget_shared() {
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const Buffer& buffer = kernel_.buffers[i];
      bool constant = buffer.scope == Scope::Register || (buffer.scope == Scope::Global && !buffer.written);
      if (!constant) prover_.forget(BufferId(i));
    }
  }

  Status place_ok(const StmtNode& call, const Operand& operand, const PlaceRule& rule) {
    const Buffer& buffer = kernel_.buffer(operand.buffer);
    const std::string what = std::string(spelling_of(call.intrinsic)) + " at " + quoted(operand.buffer);
    bool scope_fits = buffer.scope == Scope::Register ? rule.registers
                      : buffer.scope == Scope::Shared ? rule.shared
                                                      : rule.memory;
    if (!scope_fits) return fail(what + ": it does not take a buffer in " + name_of(buffer.scope) + " scope");
    if (!rule.takes(buffer.dtype)) {
      const std::string other = rule.or_dtype ? " or " + std::string(name_of(*rule.or_dtype)) : "";
      const std::string one = rule.dtype ? std::string(name_of(*rule.dtype)) : "elements of 8 to 32 bits";
      return fail(what + ": it takes " + one + other + ", not " + std::string(name_of(buffer.dtype)));
    }
    bool writes = rule.access == PlaceAccess::Write || rule.access == PlaceAccess::Accumulate;
    if (writes && buffer.scope == Scope::Global && !buffer.written) return fail(what + ", which is an input");
    if (!is_opaque_place(rule) && opaque_.count(operand.buffer) != 0) {
      return fail(what + ": the buffer is also used as a tile or a barrier");
    }
    std::size_t rank = buffer.shape.size();
    if (rule.box == PlaceBox::Rows) return rows_ok(what, call, operand, rule);
    if (rule.box == PlaceBox::Run) return run_ok(what, call, operand, rule);
    std::size_t boxed = rule.box == PlaceBox::Element ? 0
                        : rule.box == PlaceBox::Row   ? 1
                        : rule.box == PlaceBox::Given ? rule.extents
                                                      : 2;
    if (rank < boxed) return fail(what + ": its rank must be at least " + std::to_string(boxed));
    XYNTRA_CHECK_OK(rank_ok(what, operand.buffer, operand.index));
    for (std::size_t d = 0; d < rank; ++d) {
      XYNTRA_CHECK_OK(expr_ok(operand.index[d]));
      if (rule.access == PlaceAccess::Hint) continue;
      bool in_box = d + boxed >= rank;
      if (!in_box) {
        XYNTRA_CHECK_OK(within_ok(what, operand.buffer, d, operand.index[d]));
      } else if (rule.box == PlaceBox::Given) {
        const Expr& count = call.operands[rule.extent_operand(rank - 1 - d)].value;
        XYNTRA_CHECK_OK(box_ok(what, operand, d, count, rule.overhangs));
      } else if (!operand.index[d].is_integer_constant(0)) {
        return fail(what + ": index " + std::to_string(d) + " must be 0, the first element of the tile");
      }
    }
    return {};
  }

  // Rows along one dimension, columns along those that follow it.
  Status rows_ok(const std::string& what, const StmtNode& call, const Operand& operand,
                 const PlaceRule& rule) {
    const Shape& shape = kernel_.buffer(operand.buffer).shape;
    XYNTRA_CHECK_OK(rank_ok(what, operand.buffer, operand.index));
    const auto along = row_dimension(call, rule, shape.size());
    if (!along) {
      return fail(what + ": the dimension of its rows and their step must be constants");
    }
    const Expr& rows = call.operands[static_cast<std::size_t>(rule.rows)].value;
    const Expr& columns = call.operands[static_cast<std::size_t>(rule.columns)].value;
    for (const Expr& count : {rows, columns}) {
      if (!prover_.never_negative(count - 1)) {
        return fail(what + ": " + text(count) +
                    " is not shown to be 1 or more, and no machine moves a box of nothing");
      }
    }
    Expr place = Expr::index(0);
    Dim room = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Expr& index = operand.index[d];
      XYNTRA_CHECK_OK(expr_ok(index));
      XYNTRA_CHECK_OK(within_ok(what, operand.buffer, d, index));
      if (d == along->dimension) {
        Expr last = index + (rows - 1) * Expr::index(along->step);
        if (d + 1 == shape.size()) last = last + columns - 1;  // rows that overlap
        if (!prover_.never_negative(Expr::size(shape[d]) - last - 1))
          return out_of_bounds(what, operand.buffer, d, text(last));
      } else if (d > along->dimension) {
        place = place * Expr::size(shape[d]) + index;
        room = room * shape[d];
      }
    }
    const bool overlap = along->dimension + 1 == shape.size();
    if (overlap || prover_.never_negative(Expr::size(room) - place - columns)) return {};
    return out_of_bounds(what, operand.buffer, along->dimension + 1,
                         text(place) + " with " + text(columns) + " elements");
  }

  // Elements one after another.
  Status run_ok(const std::string& what, const StmtNode& call, const Operand& operand,
                const PlaceRule& rule) {
    const Shape& shape = kernel_.buffer(operand.buffer).shape;
    XYNTRA_CHECK_OK(rank_ok(what, operand.buffer, operand.index));
    const auto length = run_length(call, rule, kernel_.buffer(operand.buffer).dtype);
    if (!length) {
      return fail(what + ": how many elements it takes must be a constant from 1 to " +
                  std::to_string(rule.length));
    }
    const std::size_t first = run_dimension(shape, *length);
    Expr place = Expr::index(0);
    Dim room = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      XYNTRA_CHECK_OK(expr_ok(operand.index[d]));
      XYNTRA_CHECK_OK(within_ok(what, operand.buffer, d, operand.index[d]));
      if (d < first) continue;
      place = place * Expr::size(shape[d]) + operand.index[d];
      room = room * shape[d];
    }
    if (rule.bytes != 0 && !is_aligned(kernel_, operand, *length))
      return fail(what + ": it is not shown to begin at a multiple of " + std::to_string(*length) +
                  " elements");
    if (prover_.never_negative(Expr::size(room) - place - *length)) return {};
    const std::string run = text(place) + " with " + std::to_string(*length) + " elements";
    return fail(what + ": index " + run + " is not shown to stay within " + room.to_string());
  }

  Status box_ok(const std::string& what, const Operand& operand, std::size_t dimension, const Expr& count,
                bool overhangs) {
    if (!prover_.never_negative(count - 1)) {
      return fail(what + ": " + text(count) +
                  " is not shown to be 1 or more, and no machine moves a box of nothing");
    }
    if (overhangs) return {};
    const Expr& index = operand.index[dimension];
    Expr room = Expr::size(kernel_.buffer(operand.buffer).shape[dimension]) - index - count;
    if (prover_.never_negative(index) && prover_.never_negative(room)) return {};
    return out_of_bounds(what, operand.buffer, dimension, text(index) + " with " + text(count) + " elements");
  }

  // ---- expressions

  Status rank_ok(const std::string& what, BufferId buffer, std::span<const Expr> index) const {
    if (index.size() != kernel_.buffer(buffer).shape.size()) {
      return fail(what + " has " + std::to_string(index.size()) + " indices, the buffer " +
                  std::to_string(kernel_.buffer(buffer).shape.size()) + " dimensions");
    }
    for (const Expr& i : index) {
      if (i.dtype() != DType::I64) return fail(what + ": an index must be i64");
    }
    return {};
  }

  Status index_ok(const std::string& what, BufferId buffer, std::span<const Expr> index) {
    XYNTRA_CHECK_OK(rank_ok(what, buffer, index));
    for (std::size_t d = 0; d < index.size(); ++d) {
      XYNTRA_CHECK_OK(expr_ok(index[d]));
      XYNTRA_CHECK_OK(within_ok(what, buffer, d, index[d]));
    }
    return {};
  }

  Status within_ok(const std::string& what, BufferId buffer, std::size_t dimension, const Expr& index) {
    if (prover_.within(index, kernel_.buffer(buffer).shape[dimension])) return {};
    return out_of_bounds(what, buffer, dimension, text(index));
  }

  tl::unexpected<Error> out_of_bounds(const std::string& what, BufferId buffer, std::size_t dimension,
                                      const std::string& index) const {
    return fail(what + ": dimension " + std::to_string(dimension) + ": index " + index +
                " is not shown to be within 0 and " + kernel_.buffer(buffer).shape[dimension].to_string());
  }

  std::string text(const Expr& expr) const { return to_string(kernel_, expr); }

  // Parts that several others share are looked at once per set of facts. What holds without the facts of a select's
  // condition holds with them, so these are tried only when needed.
  struct Frame {
    std::unordered_set<const ExprNode*> good;
    std::unordered_map<const ExprNode*, Error> bad;
  };

  Status expr_ok(const Expr& expr) {
    frames_.assign(1, {});
    return part_ok(expr);
  }

  Status part_ok(const Expr& expr) {
    for (const Frame& frame : frames_) {
      if (frame.good.count(expr.address()) != 0) return {};
    }
    if (auto known = frames_.back().bad.find(expr.address()); known != frames_.back().bad.end()) {
      return failure(known->second);
    }
    Status status = node_ok(expr);
    if (status) {
      frames_.back().good.insert(expr.address());
    } else {
      frames_.back().bad.emplace(expr.address(), status.error());
    }
    return status;
  }

  Status node_ok(const Expr& expr) {
    const ExprNode& node = *expr;
    if (node.op == ExprOp::Var && scope_.count(node.var) == 0) {
      return fail("variable " + quoted(node.var) + " is used outside its loop");
    }
    if (node.op == ExprOp::Select) {
      XYNTRA_CHECK_OK(part_ok(node.operands[0]));
      for (std::size_t i : {std::size_t{1}, std::size_t{2}}) {
        if (part_ok(node.operands[i])) continue;
        std::size_t before = prover_.mark();
        prover_.assume(node.operands[0], i == 1);
        frames_.emplace_back();
        Status status = part_ok(node.operands[i]);
        frames_.pop_back();
        prover_.release(before);
        XYNTRA_CHECK_OK(status);
      }
      return {};
    }
    if (const char* wanted = wrong_operands(node)) {
      return fail(std::string("'") + te::spelling_of(node.op) + "' takes " + wanted + ", not " +
                  std::string(name_of(node.operands[0].dtype())));
    }
    for (const Expr& operand : node.operands) XYNTRA_CHECK_OK(part_ok(operand));
    return te::is_load(node) ? load_ok(node) : Status();
  }

  // What an operation takes, when it is given something else.
  static const char* wrong_operands(const ExprNode& node) {
    if (node.operands.empty()) return nullptr;
    const DType dtype = node.operands[0].dtype();
    switch (node.op) {
      case ExprOp::And:
      case ExprOp::Or:
      case ExprOp::Xor:
      case ExprOp::Not: return is_float(dtype) ? "integers or bool" : nullptr;
      case ExprOp::ShiftLeft:
      case ExprOp::ShiftRight: return is_integer(dtype) ? nullptr : "integers";
      case ExprOp::Sqrt: return is_float(dtype) ? nullptr : "floats";
      default: break;
    }
    bool math = te::kind_of(node.op) == te::ExprKind::Math;
    return math && !is_float(dtype) ? "floats" : nullptr;
  }

  Status load_ok(const ExprNode& node) {
    const Buffer& buffer = kernel_.buffer(node.buffer);
    const std::string what = "load of " + quoted(node.buffer);
    if (buffer.dtype != node.dtype) {
      return fail(what + " as " + std::string(name_of(node.dtype)) + " where it holds " +
                  std::string(name_of(buffer.dtype)));
    }
    if (opaque_.count(node.buffer) != 0) return fail(what + ", which only intrinsics reach");
    bool guarded = node.op == ExprOp::LoadOr;
    std::span<const Expr> index = std::span(node.operands).subspan(guarded ? 1 : 0);
    XYNTRA_CHECK_OK(rank_ok(what, node.buffer, index));
    for (std::size_t d = 0; d < index.size() && !guarded; ++d) {
      Status in_bounds = within_ok(what, node.buffer, d, index[d]);
      if (!in_bounds && unproved_ != nullptr) {
        unproved_->loads.insert(&node);
        return {};
      }
      XYNTRA_CHECK_OK(in_bounds);
    }
    return {};
  }

  const Kernel& kernel_;
  BoundsProver prover_;
  Unproved* unproved_ = nullptr;
  std::set<VarId> scope_;
  std::vector<VarId> threads_;  // thread loops, the outermost first
  std::optional<VarId> cluster_;
  std::set<BufferId> opaque_;
  bool in_vector_ = false, goes_on_ = false;  // goes_on_: after a check that failed
  // The condition on which threads have parted: those of a cluster, of a work item, of a warpgroup, of a warp.
  struct Divergence {
    const std::string *cluster = nullptr, *item = nullptr, *warpgroup = nullptr, *warp = nullptr;
  };
  Divergence divergence_;
  std::vector<Frame> frames_;
};

}  // namespace

Status verify(const Kernel& kernel) { return Verifier(kernel).run(); }

Status verify(const Kernel& kernel, Unproved& unproved) { return Verifier(kernel, &unproved).run(); }

}  // namespace xyntra::kir
