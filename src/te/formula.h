// A Formula: an operation as stages over indices. It is the one definition of an op; the reference
// evaluator, the generic kernel of every backend, fusion and most gradients come from it.
//
//   matmul     y[i, j] = sum(k < K) a[i, k] * b[k, j]                            map-reduce
//   softmax    m[i] = max(k < N) x[i, k]
//              s[i] = sum(k < N) exp(x[i, k] - m[i])
//              y[i, j] = exp(x[i, j] - m[i]) / s[i]
//   cumsum     s = 0;  scan t < T { s' = s + x[t];  y[t] = s' }                  scan
//   scatter    y[i] = x[i];  scatter k < K: y[index[k]] += u[k]                  scatter
//
// Stages run in order. A MapReduce stage computes its body for every point of `axes`, reduced over
// `reduction` in a fixed order, and stores it at `store` (its axes unless said otherwise), converted to the
// target's dtype. Several stages may write disjoint parts of one buffer (concat). A Scatter stage visits its
// axes in row-major order, one after another, and combines into `store`. A Scan stage runs its inner stages
// for step = 0, 1, … and then, at the end of each step, `next` becomes `state`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "te/expr.h"

namespace xyntra::te {

enum class Reducer : std::uint8_t {
  None,
  Sum,
  Product,
  Max,
  Min,
  Largest  // as Max, but where one element is a NaN the result is any of them
};
enum class Combiner : std::uint8_t { Replace, Add, Multiply, Max, Min };
const char* name_of(Reducer reducer);    // "sum"
const char* name_of(Combiner combiner);  // "+="-like spelling

struct Variable {
  std::string name;
  Dim extent;
};

enum class BufferRole : std::uint8_t { Input, Output, Temporary };

struct BufferInfo {
  BufferId id;
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  BufferRole role = BufferRole::Temporary;
  int position = -1;  // operand or result number, for Input and Output
};

struct Carried {
  BufferId state;
  BufferId next;
};

struct Stage {
  enum class Kind : std::uint8_t { MapReduce, Scatter, Scan };
  Kind kind = Kind::MapReduce;
  BufferId target;          // MapReduce, Scatter
  std::vector<VarId> axes;  // MapReduce, Scatter
  std::vector<Expr> store;  // MapReduce, Scatter: index into target
  Expr body;                // MapReduce, Scatter
  Reducer reducer = Reducer::None;
  std::vector<VarId> reduction;  // MapReduce
  Expr finish;  // MapReduce: the epilogue, applied to the reduced value (Expr::accumulator); may be null
  Combiner combiner = Combiner::Replace;  // Scatter
  Expr guard;  // Scatter: bool, skip the update where false; may be null
  VarId step;  // Scan
  std::vector<Carried> carried;  // Scan
  std::vector<Stage> stages;  // Scan: the inner ones, never Scan themselves
};

struct Formula {
  std::string name;
  std::vector<Variable> variables;
  std::vector<BufferInfo> buffers;
  std::vector<Stage> stages;

  const Variable& variable(VarId id) const { return variables.at(id.index); }
  const BufferInfo& buffer(BufferId id) const { return buffers.at(id.index); }
};

std::string to_string(const Formula& formula);
std::string to_string(const Formula& formula, const Expr& expr);

// Ids in range, dtypes agree, ranks of loads and stores agree, axes defined before use, bodies defined, every
// output written. An InternalError-class Error: a formula is our own making.
Status verify(const Formula& formula);

// ---- Building -------------------------------------------------------------------------------------------

// A loop variable with its extent; converts to the Expr that reads it.
struct Axis {
  VarId id;
  Dim extent;
  operator Expr() const { return Expr::variable(id); }  // NOLINT: an axis is used as an index
  Expr expr() const { return Expr::variable(id); }
};
using Axes = std::vector<Axis>;
using Index = std::vector<Expr>;

Index to_index(const Axes& axes);
Axes concat(const Axes& a, const Axes& b);
Axes without(Axes axes, std::size_t position);
Index replaced(Index index, std::size_t position, Expr with);
Index inserted(Index index, std::size_t position, Expr with);
Index removed(Index index, std::size_t position);

// A buffer of a formula under construction: x(i, j) loads.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(BufferInfo info) : info_(std::move(info)) {}
  bool defined() const { return info_.id.valid(); }
  BufferId id() const { return info_.id; }
  DType dtype() const { return info_.dtype; }
  const Shape& shape() const { return info_.shape; }
  std::size_t rank() const { return info_.shape.size(); }
  const Dim& dim(std::size_t axis) const { return info_.shape.at(axis); }

  Expr operator()(Index index) const { return Expr::load(id(), dtype(), std::move(index)); }
  Expr operator()(const Axes& axes) const { return (*this)(to_index(axes)); }
  template <class... Rest>
  Expr operator()(Expr first, Rest... rest) const {
    return (*this)(Index{std::move(first), Expr(rest)...});
  }
  Expr operator()() const { return (*this)(Index{}); }
  // The element, or `fallback` where the index lies outside: padding.
  Expr load_or(Expr fallback, Index index) const {
    return Expr::load_or(std::move(fallback), id(), std::move(index));
  }

 private:
  BufferInfo info_;
};

class Builder {
 public:
  explicit Builder(std::string name) { formula_.name = std::move(name); }

  Buffer input(int position, std::string name, DType dtype, Shape shape);
  Buffer output(int position, std::string name, DType dtype, Shape shape);
  Buffer temporary(std::string name, DType dtype, Shape shape);

  Axis axis(Dim extent, std::string name = {});
  Axes axes(const Shape& shape);  // one per dimension

  // A new temporary over `axes`, of the body's dtype.
  Buffer map(std::string name, const Axes& axes, Expr body);
  using Finish = std::function<Expr(Expr)>;
  Buffer reduce(std::string name, const Axes& axes, Reducer reducer, const Axes& reduction, Expr body,
                const Finish& finish = {});

  // Into an existing buffer; the value is converted to its dtype.
  void write(const Buffer& target, const Axes& axes, Expr body);
  void write_at(const Buffer& target, const Axes& axes, Index store, Expr body);
  void write_reduced(const Buffer& target, const Axes& axes, Reducer reducer, const Axes& reduction,
                     Expr body, const Finish& finish = {});
  void write_reduced_at(const Buffer& target, const Axes& axes, Index store, Reducer reducer,
                        const Axes& reduction, Expr body, const Finish& finish = {});
  void scatter(const Buffer& target, const Axes& axes, Index store, Combiner combiner, Expr body,
               Expr guard = {});

  // Scan: carry() the states (with their initial values) first, then everything between begin and end runs
  // once per step; next() gives a state its value for the following step.
  Buffer carry(const std::string& name, DType dtype, const Axes& axes, Expr initial);
  Axis begin_scan(Dim steps, const std::vector<Buffer>& states, std::string name = "t");
  void next(const Buffer& state, const Axes& axes, Expr body);
  // The buffer that next() writes: read it to use the new value within the same step.
  Buffer next_of(const Buffer& state) const;
  void end_scan();

  Formula finish() &&;
  const Formula& formula() const { return formula_; }

 private:
  Buffer add_buffer(BufferInfo info);
  void add_stage(Stage stage);

  Formula formula_;
  bool in_scan_ = false;
  Stage scan_;
  std::vector<std::pair<BufferId, Buffer>> next_buffers_;
};

}  // namespace xyntra::te
