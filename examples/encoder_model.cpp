#include "encoder_model.h"

#include <cmath>

namespace xyntra::examples {
namespace {

constexpr std::int64_t kHidden = 64, kHeads = 4, kHeadSize = kHidden / kHeads, kInner = 256;

// Builds the graph in the order in which it computes. Weights come from a counter, so they are the same everywhere.
class EncoderBuilder {
 public:
  EncoderBuilder() {
    graph_.name = "encoder";
    const Dim batch = Dim::symbol("batch"), seq = Dim::symbol("seq");
    const ValueId x = graph_.add_input("x", Type::tensor(DType::F32, Shape{batch, seq, kHidden}));
    const ValueId mask = graph_.add_input("mask", Type::tensor(DType::Bool, Shape{batch, seq}));
    const ValueId attended = op("Add", "attention/residual", {x, attention(layer_norm(x, "norm1"), mask)});
    const ValueId out = op("Add", "y", {attended, feed_forward(layer_norm(attended, "norm2"))});
    graph_.value(out).type = Type::tensor(DType::F32, Shape{batch, seq, kHidden});
    graph_.outputs = {out};
  }

  Graph take() { return std::move(graph_); }

 private:
  ValueId op(const char* name, const std::string& output, std::vector<ValueId> inputs,
             Attributes attributes = {}) {
    return graph_.output_of(
        graph_.add_node(name, std::move(inputs), {output}, std::move(attributes), output));
  }

  // Uniform in ±1/sqrt(fan in), as frameworks initialise linear layers.
  ValueId weight(const std::string& name, Dims dims) {
    auto tensor = Tensor::allocate(DType::F32, dims);
    require(tensor.has_value(), "the weights of the example are small");
    const double range = 1.0 / std::sqrt(static_cast<double>(dims.front()));
    for (std::int64_t i = 0; i < tensor->count(); ++i) tensor->set_element_f64(i, range * next_uniform());
    return graph_.add_constant(name, std::move(*tensor));
  }
  double next_uniform() {  // in [-1, 1), by SplitMix64
    std::uint64_t z = counter_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return static_cast<double>((z ^ (z >> 31)) >> 40) * 0x1p-23 - 1.0;
  }
  ValueId scalar(const std::string& name, float value) {
    return graph_.add_constant(name, Tensor::scalar_f32(value));
  }
  ValueId integers(const std::string& name, std::vector<std::int64_t> values) {
    return graph_.add_constant(name, Tensor::of_integers(values));
  }

  ValueId linear(ValueId x, const std::string& name, std::int64_t in, std::int64_t out) {
    const ValueId product = op("MatMul", name + "/matmul", {x, weight(name + ".weight", {in, out})});
    return op("Add", name, {product, weight(name + ".bias", {out})});
  }

  // (x - mean) / sqrt(variance + epsilon) * scale + bias over the last axis
  ValueId layer_norm(ValueId x, const std::string& name) {
    const ValueId axis = integers(name + ".axis", {-1});
    const ValueId mean = op("ReduceMean", name + "/mean", {x, axis});
    const ValueId centred = op("Sub", name + "/centred", {x, mean});
    const ValueId squared = op("Mul", name + "/squared", {centred, centred});
    const ValueId variance = op("ReduceMean", name + "/variance", {squared, axis});
    const ValueId shifted = op("Add", name + "/shifted", {variance, scalar(name + ".epsilon", 1e-5F)});
    const ValueId deviation = op("Sqrt", name + "/deviation", {shifted});
    const ValueId normalized = op("Div", name + "/normalized", {centred, deviation});
    const ValueId scaled = op("Mul", name + "/scaled", {normalized, weight(name + ".weight", {kHidden})});
    return op("Add", name, {scaled, weight(name + ".bias", {kHidden})});
  }

  // [batch, seq, hidden] → [batch, heads, seq, size of a head], or its last two axes swapped
  ValueId heads(ValueId x, const std::string& name, std::vector<std::int64_t> order) {
    const ValueId shape = integers(name + ".shape", {0, 0, kHeads, kHeadSize});
    const ValueId split = op("Reshape", name + "/split", {x, shape});
    return op("Transpose", name + "/heads", {split}, {{"perm", std::move(order)}});
  }

  ValueId attention(ValueId x, ValueId mask) {
    const ValueId query = heads(linear(x, "query", kHidden, kHidden), "query", {0, 2, 1, 3});
    const ValueId key = heads(linear(x, "key", kHidden, kHidden), "key", {0, 2, 3, 1});
    const ValueId value = heads(linear(x, "value", kHidden, kHidden), "value", {0, 2, 1, 3});
    const ValueId scale = scalar("attention.scale", 1.0F / std::sqrt(static_cast<float>(kHeadSize)));
    const ValueId scores =
        op("Mul", "attention/scores", {op("MatMul", "attention/products", {query, key}), scale});
    const ValueId wide_mask =
        op("Unsqueeze", "attention/mask", {mask, integers("attention.mask_axes", {1, 2})});
    const ValueId masked =
        op("Where", "attention/masked", {wide_mask, scores, scalar("attention.masked", -10000.0F)});
    const ValueId weights = op("Softmax", "attention/weights", {masked}, {{"axis", std::int64_t{-1}}});
    const ValueId mixed = op("MatMul", "attention/mixed", {weights, value});
    const ValueId merged =
        op("Transpose", "attention/merged", {mixed}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
    const ValueId flat =
        op("Reshape", "attention/flat", {merged, integers("attention.shape", {0, 0, kHidden})});
    return linear(flat, "attention/output", kHidden, kHidden);
  }

  // GELU by its definition, x/2 * (1 + erf(x / sqrt 2)), between two linear layers
  ValueId feed_forward(ValueId x) {
    const ValueId h = linear(x, "inner", kHidden, kInner);
    const ValueId root = scalar("gelu.sqrt2", std::sqrt(2.0F));
    const ValueId error = op("Erf", "gelu/erf", {op("Div", "gelu/scaled", {h, root})});
    const ValueId shifted = op("Add", "gelu/shifted", {error, scalar("gelu.one", 1.0F)});
    const ValueId product = op("Mul", "gelu/product", {h, shifted});
    const ValueId gelu = op("Mul", "gelu", {product, scalar("gelu.half", 0.5F)});
    return linear(gelu, "outer", kInner, kHidden);
  }

  Graph graph_;
  std::uint64_t counter_ = 0;
};

}  // namespace

Module make_encoder() {
  Module module;
  module.graph = EncoderBuilder().take();
  module.metadata["producer_name"] = "xyntra examples/make_model";
  return module;
}

}  // namespace xyntra::examples
