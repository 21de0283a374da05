#include "rewrite/cost.h"

#include <algorithm>
#include <map>

#include "rewrite/normalize/fold.h"

namespace xyntra {
namespace {

using egraph::Cost;

constexpr Cost kLaunch = 100'000;
constexpr Cost kPresence = 64;              // of an op that fuses
constexpr Cost kFlopsPerUnit = 32;          // a unit is the time of moving one byte
constexpr Cost kIntegerGain = 4;  // of int8 GEMMs on a unit for them; as much is lost without one
constexpr Cost kScatteredShare = 4;  // of products is lost where each is asked for whether it is there
constexpr Cost kFusedShare = 16;  // an op that fuses costs this part of the bytes it would move
constexpr std::int64_t kNominalSize = 64;  // stands for a size that is not known
constexpr Cost kMost = Cost{1} << 50;

std::int64_t nominal(const Dim& size) {
  if (size.is_constant()) return std::max<std::int64_t>(size.constant(), 1);
  std::vector<std::string> symbols;
  size.collect_symbols(symbols);
  SymbolBindings bindings;
  for (const std::string& symbol : symbols) bindings[symbol] = kNominalSize;
  const auto value = size.evaluate(bindings);
  return value ? std::max<std::int64_t>(*value, 1) : kNominalSize;
}

Cost elements(const Type& type) {
  if (!type.is_tensor() || !type.shape) return kNominalSize;
  Cost count = 1;
  for (const Dim& size : *type.shape)
    count = std::min(kMost, count * static_cast<Cost>(std::min<std::int64_t>(nominal(size), 1 << 20)));
  return count;
}

Cost bytes(const ClassFacts& facts) {
  Cost sum = 0;
  for (const ValueFacts& output : facts.outputs) {
    if (output.present)
      sum += elements(output.type) * static_cast<Cost>(std::max(bits_of(output.type.dtype), 8)) / 8;
  }
  return sum;
}

std::int64_t last_size(const ClassFacts& facts) {
  return facts.shaped() && facts.rank() > 0 ? nominal(facts.shape().back()) : kNominalSize;
}

// Matmuls and convolutions: which operand has the weights, and what is multiplied. A unit for integers is reached by
// matmuls of plain integers alone.
struct MatmulKind {
  enum class Factors : std::uint8_t { Floats, Integers, Quantized, Scattered };
  std::size_t weights = 1;
  bool window = false;
  std::size_t filters = 0;  // the axis of a window's weights
  Factors factors = Factors::Floats;
};

const MatmulKind* matmul_kind(const OpDef& def) {
  using enum MatmulKind::Factors;
  static const std::map<std::string_view, MatmulKind> kMatmuls = {
      {"MatMul", {}},
      {"Gemm", {}},
      {"com.microsoft.FusedMatMul", {}},
      {"Conv", {1, true}},
      {"ConvTranspose", {1, true, 1, Scattered}},  // as a sum over the whole window at every element
      {"MatMulInteger", {1, false, 0, Integers}},
      {"ConvInteger", {1, true, 0, Integers}},
      {"QLinearMatMul", {3, false, 0, Quantized}},
      {"QLinearConv", {3, true, 0, Quantized}},
      {"com.microsoft.QGemm", {3, false, 0, Quantized}},
  };
  auto found = kMatmuls.find(def.name);
  return found == kMatmuls.end() ? nullptr : &found->second;
}

// Of an image with few channels, lines of a window are taken as one axis where they are long (passes/flatten_windows.h).
bool has_long_lines(const ClassFacts& x, const Shape& window) {
  constexpr std::int64_t kFew = 4, kShortest = 7;
  if (window.size() != 4 || !window[1].is_constant() || !window[3].is_constant() || !x.shaped()) return false;
  const bool sizes = std::ranges::all_of(x.shape().begin() + 1, x.shape().end(),
                                         [](const Dim& size) { return size.is_constant(); });
  return sizes && window[1].constant() > 1 && window[1].constant() <= kFew &&
         window[3].constant() >= kShortest;
}

// Units take sums and rows of results that are long enough, and windows over all channels with weights around zero.
bool reaches_unit(const Program& program, const MatmulKind& product, const egraph::ENode& node,
                  bool integer_units) {
  constexpr std::int64_t kLeast = 16;
  const ClassFacts& weights = program.facts(node.children[product.weights]);
  if (!integer_units || product.factors != MatmulKind::Factors::Integers || !weights.shaped()) return false;
  const Shape& shape = weights.shape();
  const auto is_long = [](const Dim& size) { return size.is_constant() && size.constant() >= kLeast; };
  if (shape.size() < 2) return false;
  if (!product.window) return is_long(shape[shape.size() - 2]) && is_long(shape.back());
  const Attributes& attributes = program.form(node.payload).attributes;
  const auto group = attributes.find("group");
  const bool grouped = group != attributes.end() && std::get<std::int64_t>(group->second) != 1;
  const bool around_zero = node.children.size() < 4 || program.facts(node.children[3]).splat == 0.0;
  const bool fills = is_long(shape[1]) || has_long_lines(program.facts(node.children[0]), shape);
  return !grouped && around_zero && is_long(shape[0]) && fills;
}

// Multiplications and additions, for the ops that do more than a few per element they read.
Cost flops(const Program& program, const OpDef& def, const egraph::ENode& node, const ClassFacts& out,
           bool integer_units) {
  const auto operand = [&](std::size_t i) -> const ClassFacts& { return program.facts(node.children[i]); };
  const Cost results = elements(out.outputs[0].type);
  if (const MatmulKind* product = matmul_kind(def)) {
    Cost count = 2 * results * static_cast<Cost>(last_size(operand(0)));
    const ClassFacts& weights = operand(product->weights);
    if (product->window && weights.shaped() && weights.rank() > 1) {
      const auto outputs = static_cast<Cost>(nominal(weights.shape()[product->filters]));
      count = 2 * results * elements(weights.type()) / std::max<Cost>(outputs, 1);
    }
    if (product->factors == MatmulKind::Factors::Floats) return count;
    if (product->factors == MatmulKind::Factors::Scattered) return count / kScatteredShare + count;
    return reaches_unit(program, *product, node, integer_units) ? count / kIntegerGain : count * kIntegerGain;
  }
  Cost read = 0;
  for (ClassId child : node.children) {
    for (const ValueFacts& value : program.facts(child).outputs) {
      if (value.present) read += elements(value.type);
    }
  }
  return results + read;
}

// Ops that only say where elements come from, beside the views.
bool only_moves(const OpDef& def) {
  static const std::map<std::string_view, bool> kMoving = {
      {"Transpose", true}, {"Expand", true}, {"Slice", true},       {"Concat", true},
      {"Split", true},     {"Pad", true},    {"DepthToSpace", true}};
  return kMoving.contains(def.name);
}

// What one element takes beyond an addition, where rules choose between such ops.
Cost effort(const OpDef& def) {
  static const std::map<std::string_view, Cost> kEfforts = {
      {"Div", 2}, {"Pow", 12}, {"Exp", 4}, {"Log", 4}, {"Tanh", 6}, {"Erf", 6}, {"Sqrt", 2}, {"Sigmoid", 5}};
  auto found = kEfforts.find(def.name);
  return found == kEfforts.end() ? 1 : found->second;
}

// Dividing by a scale that is not 1.
Cost effort_of_quantizing(const Program& program, const OpDef& def, const egraph::ENode& node) {
  constexpr Cost kDivision = 16;  // in bytes of its result, which are few
  if (def.name != "QuantizeLinear") return effort(def);
  return program.facts(node.children[1]).splat == 1.0 ? 1 : kDivision;
}

// Scales and offsets of quantized values are elementwise work, too.
bool is_elementwise(const OpDef& def) {
  return def.has(kElementwise) || def.name == "QuantizeLinear" || def.name == "DequantizeLinear";
}

// Whether its result is known before the run.
bool folds(const Program& program, ClassId id, const OpDef& def, const egraph::ENode& node) {
  if (!program.facts(id).constant) return false;
  if (def.name == "DequantizeLinear") return bytes(program.facts(id)) <= kLargestWidened;
  return std::ranges::none_of(node.children, [&](ClassId child) { return program.facts(child).stays_bytes; });
}

Cost cost_of(const Program& program, ClassId id, const egraph::ENode& node, bool integer_units) {
  const OpDef* def = Program::op_of(node.head);
  const ClassFacts& facts = program.facts(id);
  if (def == nullptr) return 0;
  const Cost written = bytes(facts);
  if (folds(program, id, *def, node)) return 1;  // of equal constants, the one that takes fewer steps to fold
  // Where integers and what they stand for are moved alike, numbers are: whoever reads these reads through the movement.
  const bool int8 = facts.is_tensor() && bits_of(facts.dtype()) == 8;
  if (def->has(kView)) return kPresence / 4 + (int8 ? 1 : 0);
  if (def->name.starts_with("com.microsoft.") && def->has(kElementwise)) return kLaunch / 2 + written;
  // Whoever reads numbers that stand in bytes reads the bytes.
  if (facts.stays_bytes && def->name == "DequantizeLinear") return kPresence + written / 4 / kFusedShare;
  if (is_elementwise(*def)) {
    const Cost taken = effort_of_quantizing(program, *def, node);
    return kPresence + taken + written * taken / kFusedShare;
  }
  if (only_moves(*def)) return 2 * kPresence + (int8 ? written * 4 / kFusedShare + 1 : written / kFusedShare);
  Cost moved = written / kFusedShare;  // what it writes may be read within its own kernel
  for (ClassId child : node.children) {
    if (!program.facts(child).constant) moved += bytes(program.facts(child));
  }
  Cost total = kLaunch + moved + flops(program, *def, node, facts, integer_units) / kFlopsPerUnit;
  // Composites that fuse better as their parts.
  if (def->name == "Gemm" || def->name.starts_with("com.microsoft.")) total += kLaunch / 2 + written;
  if (def->name == "Einsum") total *= 16;
  // Integers that reach no unit, however few they are.
  const MatmulKind* product = matmul_kind(*def);
  if (product != nullptr && product->factors != MatmulKind::Factors::Floats &&
      !reaches_unit(program, *product, node, integer_units)) {
    total += kLaunch;
  }
  return std::min(total, kMost);
}

std::uint64_t hash_text(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

egraph::CostModel cost_model(const Program& program, bool integer_units) {
  egraph::CostModel model;
  model.cost = [&program, integer_units](ClassId id, const egraph::ENode& node) {
    return cost_of(program, id, node, integer_units);
  };
  model.key = [&program](egraph::Head head, egraph::Payload payload) {
    const OpDef* def = Program::op_of(head);
    if (def == nullptr) return (std::uint64_t{head} << 32) + payload;
    std::uint64_t hash = hash_text(0xcbf29ce484222325, def->name);
    for (const auto& [name, attribute] : program.form(payload).attributes) {
      hash = hash_text(hash_text(hash, name), to_text(attribute));
    }
    return hash | std::uint64_t{1} << 63;
  };
  return model;
}

}  // namespace xyntra
