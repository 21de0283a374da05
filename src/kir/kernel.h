// Kernel IR: loops, loads, stores, barriers, memory scopes, matrix tiles. Close to a machine, still one form for all.
//
// A Kernel is what one launch does. Scalar expressions are those of te (te/expr.h), with the same meaning; buffers have
// shapes and are read and written at one index per dimension. What te leaves open is said here: which loops run in which
// order and where, what lives in which memory, when threads wait for one another.
//
//   kernel add_rows(x: f32[N, 64] global, y: f32[N, 64] global out) {
//     grid i < N {
//       for j < 4 {
//         vector l < 16 { y[i, j*16 + l] = x[i, j*16 + l] + 1 }
//       }
//     }
//   }
//
// Loops run from 0 to their variable's extent less one. Extents are Dims: constants or expressions of the model's symbolic
// sizes, never of other loops, so every loop is bounded.
//   Serial    one iteration after another
//   Unrolled  the same, written out by the code generator; its extent is a constant
//   Vector    all iterations at once, in the lanes of a vector: each statement runs for every lane before the next one
//             does. The extent is a constant; no Vector loop stands inside another; loops inside have the same trip count
//             in every lane; an If whose condition differs between lanes masks stores.
//   Grid      independent work items: tasks of the CPU's pool, workgroups or thread blocks of a GPU. Grid loops stand at the top of
//             a kernel, nested perfectly. Several nests one after another are phases: a phase begins when the one
//             before it has ended. A statement at the top outside any Grid loop is a phase of one work item.
//   Cluster   work items that run at the same time, each with threads and shared memory of its own, which the others reach by intrinsics
//             (thread block clusters); constant extent of 1 to 8, directly inside Grid loops and around Thread loops.
//   Thread    the threads of one work item, which run at the same time; constant extent, inside Grid only. A CPU has one.
//
// Every load and store is in bounds, which the verifier proves from the loops' extents, or from what stands around it:
//   - select(c, x[i], f) reads x only where c holds; the conditions of c (joined by &) and those of enclosing Ifs count;
//   - after `check x.0 : i`, index i is within dimension 0 of x: the run ends in an error otherwise. Not so in a work item
//     whose threads meet at barriers: the run ends in an error there, too, but threads go on, since others wait for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "te/formula.h"

namespace xyntra::kir {

using te::BufferId;
using te::Expr;
using te::VarId;

enum class Scope : std::uint8_t {
  Global,  // an argument of the kernel
  Workspace,  // memory of one launch: lives through its phases, zero cost to ask for, not initialised
  Shared,  // memory of one work item, seen by its threads; on a CPU the worker's scratch, in cache
  Register  // of one thread; with constant indices after unrolling it never reaches memory
};
const char* name_of(Scope scope);  // "shared"

// How a shared buffer's innermost rows are permuted so that threads meet no bank conflicts. The meaning of an index does
// not change with it.
enum class Swizzle : std::uint8_t { None, Bytes32, Bytes64, Bytes128 };

struct Buffer {
  std::string name;  // generated: nothing of the model's own strings
  DType dtype = DType::F32;
  Shape shape;
  Scope scope = Scope::Global;
  bool written = false;  // Global: an output; it may be read back after it was written
  Swizzle swizzle = Swizzle::None;
};

enum class LoopKind : std::uint8_t { Serial, Unrolled, Vector, Grid, Cluster, Thread };
// Loops whose iterations are places where work is done, not steps that follow one another.
constexpr bool is_placed(LoopKind kind) { return kind >= LoopKind::Grid; }
const char* name_of(LoopKind kind);  // "for", "unrolled", "vector", "grid", "cluster", "thread"
inline constexpr std::int64_t kMostInCluster = 8;  // work items that every machine with clusters has room for

// What machines do beyond scalar arithmetic; see intrinsics.def.
enum class Intrinsic : std::uint8_t {
#define INTRINSIC(enumerator, ...) enumerator,
#include "kir/intrinsics.def"
#undef INTRINSIC
};
inline constexpr std::size_t kIntrinsicCount = 0
#define INTRINSIC(...) +1
#include "kir/intrinsics.def"
#undef INTRINSIC
    ;
const char* spelling_of(Intrinsic intrinsic);
const char* signature_of(Intrinsic intrinsic);

// A place in a buffer that an intrinsic starts from, or a number.
struct Operand {
  BufferId buffer;  // invalid: `value` alone
  std::vector<Expr> index;
  Expr value;
};

struct StmtNode;

// An immutable statement shared by handle.
class Stmt {
 public:
  Stmt() = default;  // null; an absent else
  static Stmt block(std::vector<Stmt> statements);
  static Stmt loop(LoopKind kind, VarId var, Stmt body);
  static Stmt branch(Expr condition, Stmt when_true, Stmt when_false = {});
  // The value has the buffer's dtype. `stream`: where it holds, a condition on sizes, nobody reads the element soon, and
  // a non-temporal store may bypass the caches. A hint, which machines may drop.
  static Stmt store(BufferId buffer, std::vector<Expr> index, Expr value, Expr stream = {});
  static Stmt check(BufferId buffer, std::size_t dimension, Expr index);
  static Stmt call(Intrinsic intrinsic, std::vector<Operand> operands);
  static Stmt of(StmtNode node);

  bool defined() const { return node_ != nullptr; }
  const StmtNode& operator*() const { return *node_; }
  const StmtNode* operator->() const { return node_.get(); }
  const StmtNode* address() const { return node_.get(); }

 private:
  std::shared_ptr<const StmtNode> node_;
};

struct StmtNode {
  enum class Kind : std::uint8_t { Block, Loop, If, Store, Check, Call };
  Kind kind = Kind::Block;
  std::vector<Stmt>
      body;  // Block: its statements. Loop: one. If: what is done when true, and, if given, when false
  LoopKind loop = LoopKind::Serial;
  VarId var;  // Loop
  Expr condition;  // If. Store: when it streams; undefined where it never does
  BufferId buffer;  // Store, Check
  std::vector<Expr> index;  // Store: one per dimension. Check: the one that is looked at
  std::size_t dimension = 0;  // Check
  Expr value;  // Store
  Intrinsic intrinsic = {};  // Call
  std::vector<Operand> operands;  // Call
  std::uint32_t line = 0;  // of the text it was read from; 0 when it was made
};

struct Kernel {
  std::string name;  // generated; an identifier in every language
  std::vector<te::Variable> variables;  // by VarId
  std::vector<Buffer> buffers;  // by BufferId; the Global ones are the arguments, in this order
  Stmt body;
  // Results are rounded to 16 bits, and sums may be in another order: functions need no more than 20 bits (kir/approximate.h).
  bool approximate = false;
  std::int64_t registers =
      0;  // of a thread when it starts, on machines that share them out; 0: as many as the code takes

  const te::Variable& variable(VarId id) const { return variables.at(id.index); }
  const Buffer& buffer(BufferId id) const { return buffers.at(id.index); }
};

// One phase of a kernel: the Grid loops from the outside in, and what each work item does.
struct Phase {
  std::vector<VarId> grid;
  Stmt body;
};
std::vector<Phase> phases_of(const Kernel& kernel);
Dim work_items(const Kernel& kernel, const Phase& phase);  // product of the grid's extents

// Building: adds a loop variable or a buffer and returns its id.
VarId add_variable(Kernel& kernel, std::string name, Dim extent);
BufferId add_buffer(Kernel& kernel, Buffer buffer);

// ---- Walking -------------------------------------------------------------------------------------------------------

// Every statement, outer ones first.
template <class Visit>
void for_each_statement(const Stmt& root, Visit visit) {
  if (!root.defined()) return;
  visit(*root);
  for (const Stmt& inner : root->body) for_each_statement(inner, visit);
}

// Every expression that a statement itself holds: not those of statements inside it.
template <class Visit>
void for_each_expr(const StmtNode& node, Visit visit) {
  if (node.condition.defined()) visit(node.condition);
  for (const Expr& index : node.index) visit(index);
  if (node.value.defined()) visit(node.value);
  for (const Operand& operand : node.operands) {
    for (const Expr& index : operand.index) visit(index);
    if (operand.value.defined()) visit(operand.value);
  }
}

// The statement with other expressions and other statements inside, in the places of the old ones.
Stmt with_parts(const Stmt& statement, const std::function<Expr(const Expr&)>& expression,
                const std::function<Stmt(const Stmt&)>& inner);

// ---- Text and checks (text.cpp, parse.cpp, verify.cpp) ---------------------------------------------------------------

std::string to_string(const Kernel& kernel);
// Lines of the statements in the text they were read from, or else in to_string(kernel).
std::unordered_map<const StmtNode*, std::uint32_t> lines_of(const Kernel& kernel);
std::string to_string(const Kernel& kernel, const Expr& expr);  // one expression, for messages
Result<Kernel> parse_kernel(std::string_view text, const std::string& file = "<kernel>");
Result<std::vector<Kernel>> parse_kernels(std::string_view text, const std::string& file);  // one or more

// Types, ranks, bounds, loops where they may stand, barriers that every thread of a work item reaches.
Status verify(const Kernel& kernel);

}  // namespace xyntra::kir
