// com.microsoft.MatMulNBits: a matmul whose weights are packed integers of a few bits, quantized in
// blocks along k, each block with its scale and zero point.
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/quantization.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace rule {

Status matmul_nbits(InferenceContext& c) {
  std::int64_t bits = c.integer("bits"), block = c.integer("block_size");
  if (bits != 2 && bits != 4 && bits != 8) return c.unsupported("bits = " + std::to_string(bits));
  if (block < 16 || (block & (block - 1)) != 0) {
    return c.fail("block_size must be a power of two, at least 16, not " + std::to_string(block));
  }
  if (c.integer("N") < 0 || c.integer("K") < 0) return c.fail("N and K must not be negative");
  if (c.integer("weight_prepacked") != 0) return c.unsupported("weights packed for one device");
  if (c.rank(0) == 0) return c.fail("operand 0 (a) must have at least one dimension");
  const Dim& inner = c.shape(0).back();
  if (inner.is_constant() && !inner.is(c.integer("K"))) {
    return c.fail("the last dimension of operand 0 (a) is " + inner.to_string() + ", K is " +
                  std::to_string(c.integer("K")));
  }
  Shape shape = c.shape(0);
  shape.back() = c.integer("N");
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace formula {
namespace {

// The weights of one call: k is split into block, byte within the block and part within the byte, so that
// nothing is divided.
class PackedWeights {
 public:
  PackedWeights(FormulaContext& c, const Expr& column)
      : c_(c), bits_(c.integer("bits")), per_byte_(8 / bits_), column_(column) {
    std::int64_t block_size = c.integer("block_size");
    block_count_ = ceil_div(Dim(c.integer("K")), block_size);
    block_ = c.axis(block_count_, "block");
    byte_ = c.axis(block_size / per_byte_, "byte");
    part_ = c.axis(per_byte_, "part");
    k_ = block_.expr() * block_size + byte_.expr() * per_byte_ + part_.expr();
    group_ = c.has_input(4) ? cast(DType::I64, load_k(4, Expr::number(c.dtype(4), 0))) : block_.expr();
  }

  Axes loops() const { return {block_, byte_, part_}; }
  const Expr& k() const { return k_; }
  bool padded() const { return c_.integer("K") % c_.integer("block_size") != 0; }

  Expr weight(DType type) {
    Expr packed = cast(DType::I32, c_.in(1)(column_, block_, byte_));
    Expr scale = cast(type, per_block(c_.in(2), group_));
    return (cast(type, field(packed, part_)) - zero_point(type)) * scale;
  }

 private:
  Expr field(const Expr& packed, const Expr& position) const {
    if (bits_ == 8) return packed;
    return (packed >> (cast(DType::I32, position) * bits_)) & ((1 << bits_) - 1);
  }

  // Operand n at k; k runs past the end in the last block.
  Expr load_k(std::size_t n, const Expr& otherwise) {
    return padded() ? c_.in(n).load_or(otherwise, {k_}) : c_.in(n)(k_);
  }

  // Scales and unpacked zero points are [N, blocks], or that flattened.
  Expr per_block(const Buffer& x, const Expr& group) const {
    if (x.rank() == 1) return x(column_ * Expr::size(block_count_) + group);
    return x(column_, group);
  }

  Expr zero_point(DType type) {
    if (!c_.has_input(3)) return Expr::number(type, static_cast<double>(1 << (bits_ - 1)));
    Buffer zero_points = c_.in(3);
    if (zero_points.dtype() != DType::U8) return cast(type, per_block(zero_points, group_));
    Expr byte = floor_div(group_, Expr::index(per_byte_)), part = mod(group_, Expr::index(per_byte_));
    Dim row = ceil_div(block_count_, per_byte_);
    Expr packed =
        zero_points.rank() == 1 ? zero_points(column_ * Expr::size(row) + byte) : zero_points(column_, byte);
    return cast(type, field(cast(DType::I32, packed), part));
  }

  FormulaContext& c_;
  std::int64_t bits_, per_byte_;
  Expr column_;
  Dim block_count_;
  Axis block_, byte_, part_;
  Expr k_, group_;
};

}  // namespace

// y[…, n] = sum(k) a[…, k] * (q[n, k] - zero_point[n, k / block]) * scale[n, k / block] + bias[n]
Status matmul_nbits(FormulaContext& c) {
  Buffer a = c.in(0);
  Axes out = c.axes(c.out_shape());
  PackedWeights weights(c, out.back());
  Index at = replaced(to_index(out), out.size() - 1, weights.k());
  Expr left = wide(weights.padded() ? a.load_or(Expr::number(a.dtype(), 0), at) : a(at));
  c.write_reduced(c.out(), out, Reducer::Sum, weights.loops(), left * weights.weight(left.dtype()),
                  [&](const Expr& sum) { return c.has_input(5) ? sum + wide(c.in(5)(out.back())) : sum; });
  return {};
}

}  // namespace formula
}  // namespace xyntra
