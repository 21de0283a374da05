#include "te/expr.h"

#include <array>
#include <cmath>

#include "support/limits/current_budget.h"

namespace xyntra::te {
namespace {

struct ExprTraits {
  const char* spelling;
  int operands;
  ExprKind kind;
};

constexpr auto kTraits = std::to_array<ExprTraits>({
#define EXPR(enumerator, spelling, operands, kind) {spelling, operands, ExprKind::kind},
#include "te/exprs.def"
#undef EXPR
});

const ExprTraits& traits_of(ExprOp op) { return kTraits[static_cast<std::size_t>(op)]; }

}  // namespace

const char* spelling_of(ExprOp op) { return traits_of(op).spelling; }
ExprKind kind_of(ExprOp op) { return traits_of(op).kind; }
int operand_count_of(ExprOp op) { return traits_of(op).operands; }

namespace {

// Blocks of memory that nodes have left, for those that a thread makes next. Rewriting a formula makes thousands of nodes and drops as
// many, which is more than an allocator keeps at hand.
class LeftBlocks {
 public:
  LeftBlocks() = default;
  LeftBlocks(const LeftBlocks&) = delete;
  LeftBlocks& operator=(const LeftBlocks&) = delete;
  ~LeftBlocks() {
    is_gone = true;
    for (void* block : blocks_) ::operator delete(block);
  }

  void* take(std::size_t size) {
    if (blocks_.empty()) return ::operator new(size);
    void* block = blocks_.back();
    blocks_.pop_back();
    return block;
  }
  void give(void* block) {
    constexpr std::size_t kMost = 1 << 14;
    if (blocks_.capacity() == 0) blocks_.reserve(kMost);
    if (blocks_.size() == kMost) return ::operator delete(block);
    blocks_.push_back(block);
  }

  static constinit thread_local bool
      is_gone;  // expressions that outlive it, such as those of tables, are freed as usual

 private:
  std::vector<void*> blocks_;
};
constinit thread_local bool LeftBlocks::is_gone = false;

template <class Node>
struct NodeAllocator {
  using value_type = Node;
  NodeAllocator() = default;
  template <class Other>
  NodeAllocator(const NodeAllocator<Other>&) {}  // NOLINT: as the standard has it

  Node* allocate(std::size_t count) {
    if (count != 1 || LeftBlocks::is_gone) return static_cast<Node*>(::operator new(count * sizeof(Node)));
    return static_cast<Node*>(left().take(sizeof(Node)));
  }
  void deallocate(Node* node, std::size_t count) {
    if (count != 1 || LeftBlocks::is_gone) return ::operator delete(node);
    left().give(node);
  }
  template <class Other>
  bool operator==(const NodeAllocator<Other>&) const {
    return true;
  }

 private:
  static LeftBlocks& left() {  // one for each size
    thread_local LeftBlocks blocks;
    return blocks;
  }
};

}  // namespace

struct ExprFactory {
  static Expr wrap(ExprNode node) {
    poll_limits();  // whatever works on formulas or kernels makes expressions
    Expr expr;
    expr.node_ = std::allocate_shared<const ExprNode>(NodeAllocator<ExprNode>(), std::move(node));
    return expr;
  }
};

namespace {

ExprNode leaf(ExprOp op, DType dtype) {
  ExprNode node;
  node.op = op;
  node.dtype = dtype;
  return node;
}

// Index arithmetic is simplified as it is built: i + 0, i * 1, i * 0, constants.
Expr simplified_index(ExprOp op, const std::vector<Expr>& operands) {
  if (operands.size() != 2 || operands[0].dtype() != DType::I64) return {};
  const Expr &a = operands[0], &b = operands[1];
  bool both = a->op == ExprOp::Const && b->op == ExprOp::Const;
  switch (op) {
    case ExprOp::Add:
      if (both)
        return Expr::index(static_cast<std::int64_t>(static_cast<std::uint64_t>(a->int_value) +
                                                     static_cast<std::uint64_t>(b->int_value)));
      if (a.is_integer_constant(0)) return b;
      if (b.is_integer_constant(0)) return a;
      return {};
    case ExprOp::Sub: return b.is_integer_constant(0) ? a : Expr();
    case ExprOp::Mul:
      if (both)
        return Expr::index(static_cast<std::int64_t>(static_cast<std::uint64_t>(a->int_value) *
                                                     static_cast<std::uint64_t>(b->int_value)));
      if (a.is_integer_constant(1)) return b;
      if (b.is_integer_constant(1)) return a;
      if (a.is_integer_constant(0) || b.is_integer_constant(0)) return Expr::index(0);
      return {};
    case ExprOp::FloorDiv: return b.is_integer_constant(1) ? a : Expr();
    case ExprOp::Mod: return b.is_integer_constant(1) ? Expr::index(0) : Expr();
    default: return {};
  }
}

}  // namespace

Expr Expr::floating(DType dtype, double value) {
  require(is_float(dtype), "te: floating constant of a non-float dtype");
  ExprNode node = leaf(ExprOp::Const, dtype);
  node.float_value = dtype == DType::F32 ? static_cast<double>(static_cast<float>(value)) : value;
  return ExprFactory::wrap(std::move(node));
}

Expr Expr::integer(DType dtype, std::int64_t value) {
  require(!is_float(dtype), "te: integer constant of a float dtype");
  ExprNode node = leaf(ExprOp::Const, dtype);
  node.int_value = value;
  return ExprFactory::wrap(std::move(node));
}

Expr Expr::number(DType dtype, double value) {
  if (is_float(dtype)) return floating(dtype, value);
  require(std::floor(value) == value && std::abs(value) <= 0x1p63,
          "te: a fraction where an integer is needed");
  if (value >= 0x1p63) return integer(dtype, INT64_MIN);
  return integer(dtype, static_cast<std::int64_t>(value));
}

Expr Expr::variable(VarId var) {
  ExprNode node = leaf(ExprOp::Var, DType::I64);
  node.var = var;
  return ExprFactory::wrap(std::move(node));
}

Expr Expr::size(const Dim& dim) {
  if (dim.is_constant()) return index(dim.constant());
  ExprNode node = leaf(ExprOp::Size, DType::I64);
  node.size = dim;
  return ExprFactory::wrap(std::move(node));
}

Expr Expr::accumulator(DType dtype) { return ExprFactory::wrap(leaf(ExprOp::Accumulator, dtype)); }

Expr Expr::load(BufferId buffer, DType dtype, std::vector<Expr> index) {
  for (const Expr& i : index) require(i.dtype() == DType::I64, "te: an index must be i64");
  ExprNode node = leaf(ExprOp::Load, dtype);
  node.buffer = buffer;
  node.operands = std::move(index);
  return ExprFactory::wrap(std::move(node));
}

Expr Expr::load_or(Expr fallback, BufferId buffer, std::vector<Expr> index) {
  for (const Expr& i : index) require(i.dtype() == DType::I64, "te: an index must be i64");
  ExprNode node = leaf(ExprOp::LoadOr, fallback.dtype());
  node.buffer = buffer;
  node.operands.push_back(std::move(fallback));
  for (Expr& i : index) node.operands.push_back(std::move(i));
  return ExprFactory::wrap(std::move(node));
}

Expr Expr::make(ExprOp op, std::vector<Expr> operands) {
  const ExprTraits& traits = traits_of(op);
  require(traits.operands == static_cast<int>(operands.size()), "te: wrong number of operands");
  for (const Expr& operand : operands) require(operand.defined(), "te: undefined operand");
  if (op == ExprOp::Select) return select(operands[0], operands[1], operands[2]);
  if (op == ExprOp::IsNan || op == ExprOp::IsInf) {
    require(is_float(operands[0].dtype()), "te: isnan and isinf take floats");
    ExprNode node = leaf(op, DType::Bool);
    node.operands = std::move(operands);
    return ExprFactory::wrap(std::move(node));
  }
  require(traits.kind == ExprKind::Arithmetic || traits.kind == ExprKind::Compare ||
              traits.kind == ExprKind::Math,
          "te: this operation has its own constructor");
  for (const Expr& operand : operands) {
    require(operand.dtype() == operands[0].dtype(), "te: operands differ in dtype");
  }
  if (Expr simple = simplified_index(op, operands); simple.defined()) return simple;
  ExprNode node = leaf(op, traits.kind == ExprKind::Compare ? DType::Bool : operands[0].dtype());
  node.operands = std::move(operands);
  return ExprFactory::wrap(std::move(node));
}

DType Expr::dtype() const { return node_->dtype; }
bool Expr::is_constant() const { return node_->op == ExprOp::Const; }
bool Expr::is_integer_constant(std::int64_t value) const {
  return node_->op == ExprOp::Const && !is_float(node_->dtype) && node_->int_value == value;
}

Expr cast(DType dtype, Expr value, CastMode mode) {
  if (value.dtype() == dtype) return value;
  ExprNode node = leaf(ExprOp::Cast, dtype);
  node.cast = mode;
  node.operands.push_back(std::move(value));
  return ExprFactory::wrap(std::move(node));
}

Expr bitcast(DType dtype, Expr value) {
  require(bits_of(dtype) == bits_of(value.dtype()), "te: bitcast between different widths");
  if (value.dtype() == dtype) return value;
  ExprNode node = leaf(ExprOp::Bitcast, dtype);
  node.operands.push_back(std::move(value));
  return ExprFactory::wrap(std::move(node));
}

Expr select(Expr condition, Expr when_true, Expr when_false) {
  require(condition.dtype() == DType::Bool, "te: the condition of select must be bool");
  require(when_true.dtype() == when_false.dtype(), "te: the branches of select differ in dtype");
  if (condition.is_constant()) return condition->int_value != 0 ? when_true : when_false;
  ExprNode node = leaf(ExprOp::Select, when_true.dtype());
  node.operands = {std::move(condition), std::move(when_true), std::move(when_false)};
  return ExprFactory::wrap(std::move(node));
}

Expr fma(Expr a, Expr b, Expr c) {
  return Expr::make(ExprOp::Fma, {std::move(a), std::move(b), std::move(c)});
}

}  // namespace xyntra::te
