#include "passes/integer_products.h"

#include <algorithm>
#include <iterator>

#include "ops/op.h"
#include "passes/flatten_windows.h"
#include "schedule/contraction/tile_form.h"
#include "schedule/contraction/warp_units.h"

namespace xyntra {
namespace {

constexpr std::int64_t kLeastLength = 16;  // of a sum, and of columns: what tiles take
constexpr std::int64_t kHalf = 128;  // what a byte with a sign and one without differ by

class ProductsOfBytes {
 public:
  ProductsOfBytes(Graph& graph, const Target& target, FoldLog& folded)
      : graph_(graph), target_(target), folded_(folded) {}

  Result<IntegerProducts> run() {
    using Change = Status (ProductsOfBytes::*)(NodeId);
    static constexpr std::pair<std::string_view, Change> kChanges[] = {
        {"MatMulInteger", &ProductsOfBytes::matmul_integer},
        {"QLinearMatMul", &ProductsOfBytes::qlinear_matmul},
        {"com.microsoft.MatMulIntegerToFloat", &ProductsOfBytes::matmul_to_float},
        {"com.microsoft.DynamicQuantizeMatMul", &ProductsOfBytes::dynamic_quantize_matmul},
        {"ConvInteger", &ProductsOfBytes::conv_integer},
        {"QLinearConv", &ProductsOfBytes::qlinear_conv},
    };
    for (NodeId id : graph_.node_ids()) {
      for (const auto& [op, change] : kChanges) {
        if (graph_.node(id).op != op) continue;
        origin_ = graph_.node(id).origin;
        stem_ = graph_.value(graph_.node(id).outputs[0]).name;
        XYNTRA_CHECK_OK((this->*change)(id));
        break;
      }
    }
    return std::move(result_);
  }

 private:
  // ---- what is read of a node

  ValueId input(NodeId id, std::size_t i) const {
    const std::vector<ValueId>& inputs = graph_.node(id).inputs;
    return i < inputs.size() ? inputs[i] : ValueId();
  }
  DType dtype(ValueId value) const { return graph_.value(value).type.dtype; }
  const Shape* shape(ValueId value) const {
    const Type& type = graph_.value(value).type;
    return type.is_tensor() && type.shape ? &*type.shape : nullptr;
  }
  bool is_zero(ValueId value) const {
    if (!graph_.value(value).is_constant()) return false;
    const auto number = splat_value(graph_.value(value).constant);
    return number && *number == 0;
  }

  // Matrices of bytes with a sum and columns long enough.
  bool gains(ValueId a, ValueId b) const {
    const Shape *left = shape(a), *right = shape(b);
    if (left == nullptr || right == nullptr || left->size() < 2 || right->size() < 2) return false;
    auto is_long = [](const Dim& dim) { return dim.is_constant() && dim.constant() >= kLeastLength; };
    return is_byte(dtype(b)) && is_long(left->back()) && is_long(right->back()) &&
           (*right)[right->size() - 2] == left->back();
  }
  // One number, or one for each row or column of a matrix, of a rank that is known.
  bool is_parameter(ValueId value) const { return !value.valid() || shape(value) != nullptr; }

  // ---- what is added

  // The result of an op: at once where all operands are constants.
  Result<ValueId> made(const char* op, const std::vector<ValueId>& inputs, Attributes attributes = {}) {
    const bool known = std::ranges::all_of(
        inputs, [this](ValueId one) { return !one.valid() || graph_.value(one).is_constant(); });
    if (!known) {
      const NodeId added =
          graph_.add_node(op, inputs, {graph_.unique_name(stem_ + ".i8")}, std::move(attributes), origin_);
      return graph_.output_of(added);
    }
    FoldedNode node{find_op(op), {}, {}, {}};
    for (ValueId one : inputs) node.operands.push_back(graph_.value(one).constant);
    node.form.attributes = std::move(attributes);
    node.form.outputs = {true};
    XYNTRA_TRY(node.results, evaluate_node(*node.def, node.form, node.operands));
    const Tensor result = node.results[0];
    folded_.push_back(std::move(node));
    return graph_.add_constant(graph_.unique_name(stem_ + ".i8"), result);
  }
  // The node itself, as the last op of what stands for it.
  void become(NodeId id, const char* op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    Node& node = graph_.node(id);
    node.op = op;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    result_.certificate.push_back({"integer-matmuls", Exactness::Exact, {origin_}, stem_});
  }

  static Attributes cast_to(DType to) { return {{"to", static_cast<std::int64_t>(onnx_code_of(to))}}; }
  Result<ValueId> cast(ValueId value, DType to) { return made("Cast", {value}, cast_to(to)); }
  ValueId integer(std::int64_t value) {
    return graph_.add_constant(graph_.unique_name(stem_ + ".i8"),
                               splat(DType::I32, {1}, static_cast<double>(value)));
  }
  ValueId real(std::int64_t value) {
    return graph_.add_constant(graph_.unique_name(stem_ + ".i8"),
                               splat(DType::F32, {}, static_cast<double>(value)));
  }
  ValueId axes(std::vector<std::int64_t> which) {
    return graph_.add_constant(graph_.unique_name(stem_ + ".axes"), Tensor::of_integers(which));
  }
  Result<ValueId> sum(ValueId bytes, std::int64_t axis) {
    XYNTRA_TRY(const ValueId wide, cast(bytes, DType::I32));
    return made("ReduceSum", {wide, axes({axis})}, {{"keepdims", std::int64_t{1}}});
  }

  // ---- zero points

  // i32, or undefined where it is zero. One for each row stands in a column.
  Result<ValueId> zero_point(ValueId value, bool of_rows) {
    if (!value.valid() || is_zero(value)) return ValueId();
    XYNTRA_TRY(const ValueId wide, cast(value, DType::I32));
    return of_rows ? in_a_column(wide, *shape(value)) : Result<ValueId>(wide);
  }
  Result<ValueId> in_a_column(ValueId value, const Shape& given) {
    const bool many = given.size() == 1 && !given[0].is(1);
    return many ? made("Unsqueeze", {value, axes({1})}) : Result<ValueId>(value);
  }
  Result<ValueId> moved(ValueId value, std::int64_t by) {
    const ValueId step = integer(by);
    if (!value.valid()) return step;
    XYNTRA_TRY(const ValueId sum_of_both, made("Add", {value, step}));
    return is_zero(sum_of_both) ? ValueId() : sum_of_both;
  }

  struct Factors {
    ValueId a, b, p, q;  // p and q are zero points; undefined ones are zero
  };

  bool takes_all_signs() const {
    return product_unit(target_, DType::I8) == ProductUnit::Tiles || multiplies_bytes(target_);
  }
  // With the signs that the unit wants.
  Result<Factors> with_signs(Factors f) {
    const ProductUnit unit = product_unit(target_, DType::I8);
    if (takes_all_signs()) return f;
    const bool a_has = dtype(f.a) == DType::I8, b_has = dtype(f.b) == DType::I8;
    if (a_has && unit == ProductUnit::Lines) {
      XYNTRA_TRY(f.a, flipped(f.a, DType::U8, kHalf));
      XYNTRA_TRY(f.p, moved(f.p, kHalf));
    }
    if (!b_has && (a_has || unit == ProductUnit::Lines)) {
      XYNTRA_TRY(f.b, flipped(f.b, DType::I8, -kHalf));
      XYNTRA_TRY(f.q, moved(f.q, -kHalf));
    }
    return f;
  }
  Result<ValueId> flipped(ValueId value, DType to, std::int64_t by) {
    XYNTRA_TRY(ValueId wide, cast(value, DType::I32));
    XYNTRA_TRY(wide, made("Add", {wide, integer(by)}));
    return cast(wide, to);
  }

  // What the zero points take from the product of the bytes; undefined where that is nothing.
  Result<ValueId> offset(const Factors& f, std::int64_t k) {
    ValueId taken;
    if (f.p.valid()) {
      XYNTRA_TRY(ValueId of_b, sum(f.b, -2));
      if (f.q.valid()) {
        XYNTRA_TRY(const ValueId all, made("Mul", {f.q, integer(k)}));
        XYNTRA_TRY(of_b, made("Sub", {of_b, all}));
      }
      XYNTRA_TRY(taken, made("Mul", {of_b, f.p}));
    }
    if (!f.q.valid()) return taken;
    XYNTRA_TRY(ValueId of_a, sum(f.a, -1));
    XYNTRA_TRY(of_a, made("Mul", {of_a, f.q}));
    return taken.valid() ? made("Add", {taken, of_a}) : Result<ValueId>(of_a);
  }
  // The sums, less what the zero points take.
  Result<ValueId> product(Factors f) {
    const std::int64_t k = shape(f.a)->back().constant();
    XYNTRA_TRY(f, with_signs(f));
    XYNTRA_TRY(const ValueId taken, offset(f, k));
    const ValueId sums = multiplied(f);
    return taken.valid() ? made("Sub", {sums, taken}) : Result<ValueId>(sums);
  }
  ValueId multiplied(const Factors& f) {
    return graph_.output_of(
        graph_.add_node("MatMulInteger", {f.a, f.b}, {graph_.unique_name(stem_ + ".sums")}, {}, origin_));
  }

  // ---- the ops

  Status matmul_integer(NodeId id) {
    const ValueId a = input(id, 0), b = input(id, 1), p = input(id, 2), q = input(id, 3);
    if (!gains(a, b) || !is_parameter(p) || !is_parameter(q)) return {};
    Factors f{a, b, {}, {}};
    XYNTRA_TRY(f.p, zero_point(p, true));
    XYNTRA_TRY(f.q, zero_point(q, false));
    const std::int64_t k = shape(a)->back().constant();
    XYNTRA_TRY(f, with_signs(f));
    XYNTRA_TRY(const ValueId taken, offset(f, k));
    if (taken.valid()) {
      become(id, "Sub", {multiplied(f), taken});
    } else if (f.b != b || p.valid() || q.valid()) {
      become(id, "MatMulInteger", {f.a, f.b});
    }
    return {};
  }

  // Conversions to bytes wrap, quantized numbers end at the smallest and the largest.
  Status become_byte(NodeId id, ValueId y, DType to) {
    const bool has_sign = to == DType::I8;
    XYNTRA_TRY(y, made("Clip", {y, real(has_sign ? -kHalf : 0), real(has_sign ? kHalf - 1 : 2 * kHalf - 1)}));
    become(id, "Cast", {y}, cast_to(to));
    return {};
  }

  // A scale in f32, that of a's rows times that of b's columns.
  Result<ValueId> scale(ValueId of_a, ValueId of_b) {
    XYNTRA_TRY(ValueId rows, cast(of_a, DType::F32));
    XYNTRA_TRY(rows, in_a_column(rows, *shape(of_a)));
    XYNTRA_TRY(const ValueId columns, cast(of_b, DType::F32));
    return made("Mul", {rows, columns});
  }

  Status qlinear_matmul(NodeId id) {
    const ValueId a = input(id, 0), b = input(id, 3);
    if (!gains(a, b) || !is_byte(dtype(a)) || !is_byte(dtype(graph_.node(id).outputs[0]))) return {};
    for (std::size_t i : {1, 2, 4, 5, 6, 7}) {
      if (!input(id, i).valid() || shape(input(id, i)) == nullptr) return {};
    }
    const ValueId a_scale = input(id, 1), b_scale = input(id, 4), y_scale = input(id, 6),
                  y_zero = input(id, 7);
    const DType to = dtype(y_zero);
    Factors f{a, b, {}, {}};
    XYNTRA_TRY(f.p, zero_point(input(id, 2), true));
    XYNTRA_TRY(f.q, zero_point(input(id, 5), false));
    XYNTRA_TRY(const ValueId sums, product(f));
    XYNTRA_TRY(ValueId factor, scale(a_scale, b_scale));
    XYNTRA_TRY(ValueId divisor, cast(y_scale, DType::F32));
    XYNTRA_TRY(divisor, in_a_column(divisor, *shape(y_scale)));
    XYNTRA_TRY(factor, made("Div", {factor, divisor}));
    XYNTRA_TRY(ValueId y, cast(sums, DType::F32));
    XYNTRA_TRY(y, made("Mul", {y, factor}));
    XYNTRA_TRY(y, made("Round", {y}));
    XYNTRA_TRY(ValueId zero, cast(y_zero, DType::F32));
    XYNTRA_TRY(zero, in_a_column(zero, *shape(y_zero)));
    XYNTRA_TRY(y, made("Add", {y, zero}));
    return become_byte(id, y, to);
  }

  // sums * scale + bias, in f32.
  Status become_real(NodeId id, ValueId sums, ValueId factor, ValueId bias) {
    XYNTRA_TRY(ValueId y, cast(sums, DType::F32));
    if (!bias.valid()) {
      become(id, "Mul", {y, factor});
      return {};
    }
    XYNTRA_TRY(y, made("Mul", {y, factor}));
    become(id, "Add", {y, bias});
    return {};
  }

  Status matmul_to_float(NodeId id) {
    const ValueId a = input(id, 0), b = input(id, 1), a_scale = input(id, 2), b_scale = input(id, 3),
                  bias = input(id, 6);
    const bool plain = gains(a, b) && dtype(graph_.node(id).outputs[0]) == DType::F32;
    if (!plain || shape(a_scale) == nullptr || shape(b_scale) == nullptr) return {};
    if (!is_parameter(input(id, 4)) || !is_parameter(input(id, 5))) return {};
    Factors f{a, b, {}, {}};
    XYNTRA_TRY(f.p, zero_point(input(id, 4), true));
    XYNTRA_TRY(f.q, zero_point(input(id, 5), false));
    XYNTRA_TRY(const ValueId sums, product(f));
    XYNTRA_TRY(const ValueId factor, scale(a_scale, b_scale));
    return become_real(id, sums, factor, bias);
  }

  Status dynamic_quantize_matmul(NodeId id) {
    const ValueId x = input(id, 0), b = input(id, 1), b_scale = input(id, 2), bias = input(id, 4);
    if (!gains(x, b) || shape(b_scale) == nullptr || !is_parameter(input(id, 3))) return {};
    auto name = [&](const char* what) { return graph_.unique_name(stem_ + what); };
    const NodeId quantize = graph_.add_node("DynamicQuantizeLinear", {x},
                                            {name(".a"), name(".scale"), name(".zero")}, {}, origin_);
    const std::vector<ValueId> outputs = graph_.node(quantize).outputs;
    graph_.value(outputs[0]).type = Type::tensor(DType::U8, *shape(x));
    graph_.value(outputs[1]).type = Type::tensor(DType::F32, Shape());
    graph_.value(outputs[2]).type = Type::tensor(DType::U8, Shape());
    Factors f{outputs[0], b, {}, {}};
    XYNTRA_TRY(f.p, zero_point(outputs[2], true));
    XYNTRA_TRY(f.q, zero_point(input(id, 3), false));
    XYNTRA_TRY(const ValueId sums, product(f));
    XYNTRA_TRY(const ValueId factor, scale(outputs[1], b_scale));
    return become_real(id, sums, factor, bias);
  }

  // ---- convolutions

  std::vector<std::int64_t> pads(NodeId id) const {
    const Attributes& attributes = graph_.node(id).attributes;
    auto found = attributes.find("pads");
    return found == attributes.end() ? std::vector<std::int64_t>()
                                     : std::get<std::vector<std::int64_t>>(found->second);
  }
  // Channels and filters that fill a step, one group, a border that is given, weights around zero, one zero point of the picture.
  bool gains(NodeId id, ValueId x, ValueId w, ValueId x_zero, ValueId w_zero) const {
    const Shape *picture = shape(x), *weight = shape(w);
    if (picture == nullptr || weight == nullptr || weight->size() < 3) return false;
    auto is_long = [](const Dim& dim) { return dim.is_constant() && dim.constant() >= kLeastLength; };
    Node flat = graph_.node(id);
    flat.op = "ConvInteger";
    flat.inputs = {x, w};
    if (!is_long((*weight)[0]) || (!is_long((*weight)[1]) && !can_be_flattened_bytes(graph_, flat)))
      return false;
    const Attributes& attributes = graph_.node(id).attributes;
    auto group = attributes.find("group"), border = attributes.find("auto_pad");
    if (group != attributes.end() && std::get<std::int64_t>(group->second) != 1) return false;
    if (border != attributes.end() && std::get<std::string>(border->second) != "NOTSET") return false;
    if (w_zero.valid() && !is_zero(w_zero)) return false;
    const ProductUnit unit = product_unit(target_, DType::I8);
    const bool signs =
        dtype(w) == DType::I8 || takes_all_signs() || (unit == ProductUnit::Squares && dtype(x) == DType::U8);
    if (!signs) return false;
    return !x_zero.valid() || (shape(x_zero) != nullptr && xyntra::product(*shape(x_zero)).is(1));
  }

  // The sums of all windows, one for each filter and place. What flattening looks at has types.
  Result<ValueId> convolved(NodeId id, ValueId x, ValueId w, ValueId x_zero) {
    const std::size_t rank = shape(w)->size();
    Attributes attributes = graph_.node(id).attributes;
    for (const char* name : {"kernel_shape", "auto_pad"}) attributes.erase(name);
    Factors f{x, w, {}, {}};
    XYNTRA_TRY(f.p, zero_point(x_zero, false));
    XYNTRA_TRY(f, with_signs(f));
    const DType byte = f.a == x ? dtype(x) : DType::U8;
    Shape sizes = *shape(x);
    graph_.value(f.a).type = Type::tensor(byte, sizes);
    // What lies around the picture is its zero.
    std::vector<std::int64_t> around = pads(id);
    const bool bordered = std::ranges::any_of(around, [](std::int64_t one) { return one != 0; });
    if (f.p.valid() && bordered) {
      std::vector<std::int64_t> all{0, 0};
      for (std::size_t i = 0; i < around.size(); ++i) {
        if (i == around.size() / 2) all.insert(all.end(), {0, 0});
        all.push_back(around[i]);
      }
      XYNTRA_TRY(ValueId value, cast(f.p, byte));
      XYNTRA_TRY(value, made("Reshape", {value, axes({})}));
      XYNTRA_TRY(f.a, made("Pad", {f.a, axes(all), value}));
      for (std::size_t d = 0; d < sizes.size(); ++d) sizes[d] = sizes[d] + all[d] + all[d + sizes.size()];
      graph_.value(f.a).type = Type::tensor(byte, sizes);
      attributes.erase("pads");
    }
    const ValueId sums = graph_.output_of(graph_.add_node(
        "ConvInteger", {f.a, f.b}, {graph_.unique_name(stem_ + ".sums")}, std::move(attributes), origin_));
    graph_.value(sums).type = Type::tensor(DType::I32, *shape(graph_.node(id).outputs[0]));
    const NodeId convolution = graph_.value(sums).producer;
    if (can_be_flattened_bytes(graph_, graph_.node(convolution))) {
      XYNTRA_TRY(FlattenedWindows flat, flatten_bytes(graph_, convolution, folded_));
      std::ranges::move(flat.certificate, std::back_inserter(result_.certificate));
      std::ranges::move(flat.pictures, std::back_inserter(result_.copies));
    }
    if (!f.p.valid()) return sums;
    XYNTRA_TRY(const ValueId wide, cast(w, DType::I32));
    std::vector<std::int64_t> summed;
    for (std::size_t d = 1; d < rank; ++d) summed.push_back(static_cast<std::int64_t>(d));
    XYNTRA_TRY(ValueId filters, made("ReduceSum", {wide, axes(summed)}, {{"keepdims", std::int64_t{0}}}));
    XYNTRA_TRY(filters, made("Mul", {filters, f.p}));
    XYNTRA_TRY(filters, of_channels(filters, rank));
    return made("Sub", {sums, filters});
  }
  // One number for each channel, or one for all.
  Result<ValueId> of_channels(ValueId value, std::size_t rank) {
    std::vector<std::int64_t> sizes(rank - 1, 1);
    sizes[0] = -1;
    return made("Reshape", {value, axes(sizes)});
  }

  Status conv_integer(NodeId id) {
    const ValueId x = input(id, 0), w = input(id, 1), x_zero = input(id, 2);
    if (!gains(id, x, w, x_zero, input(id, 3)) || graph_.node(id).inputs.size() < 3) return {};
    XYNTRA_TRY(const ValueId sums, convolved(id, x, w, x_zero));
    become(id, "Identity", {sums});
    return {};
  }

  Status qlinear_conv(NodeId id) {
    const ValueId x = input(id, 0), x_zero = input(id, 2), w = input(id, 3), w_scale = input(id, 4),
                  y_zero = input(id, 7), bias = input(id, 8);
    if (!gains(id, x, w, x_zero, input(id, 5))) return {};
    const std::size_t rank = shape(w)->size();
    const DType to = dtype(y_zero);
    XYNTRA_TRY(ValueId sums, convolved(id, x, w, x_zero));
    if (bias.valid()) {
      XYNTRA_TRY(const ValueId added, of_channels(bias, rank));
      XYNTRA_TRY(sums, made("Add", {sums, added}));
    }
    XYNTRA_TRY(ValueId factor, made("Mul", {input(id, 1), w_scale}));
    XYNTRA_TRY(factor, made("Div", {factor, input(id, 6)}));
    XYNTRA_TRY(factor, of_channels(factor, rank));
    XYNTRA_TRY(ValueId y, cast(sums, DType::F32));
    XYNTRA_TRY(y, made("Mul", {y, factor}));
    XYNTRA_TRY(y, made("Round", {y}));
    XYNTRA_TRY(ValueId zero, cast(y_zero, DType::F32));
    XYNTRA_TRY(zero, made("Reshape", {zero, axes({1})}));
    XYNTRA_TRY(y, made("Add", {y, zero}));
    return become_byte(id, y, to);
  }

  Graph& graph_;
  const Target& target_;
  FoldLog& folded_;
  std::string origin_, stem_;  // of the node that is changed, and of its result
  IntegerProducts result_;
};

}  // namespace

Result<IntegerProducts> integer_products(Graph& graph, const Target& target, FoldLog& folded) {
  if (product_unit(target, DType::I8) == ProductUnit::None && !multiplies_bytes(target))
    return IntegerProducts();
  return ProductsOfBytes(graph, target, folded).run();
}

}  // namespace xyntra
