#include "rewrite/cost.h"

#include <algorithm>
#include <map>

namespace xyntra {
namespace {

using egraph::Cost;

constexpr Cost kLaunch = 100'000;
constexpr Cost kPresence = 64;              // of an op that fuses
constexpr Cost kFlopsPerUnit = 32;          // a unit is the time of moving one byte
constexpr Cost kFusedShare = 16;            // an op that fuses costs this part of the bytes it would move
constexpr std::int64_t kNominalSize = 64;   // stands for a size that is not known
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

// Multiplications and additions, for the ops that do more than a few per element they read.
Cost flops(const Program& program, const OpDef& def, const egraph::ENode& node, const ClassFacts& out) {
  const auto operand = [&](std::size_t i) -> const ClassFacts& { return program.facts(node.children[i]); };
  const Cost results = elements(out.outputs[0].type);
  if (def.name == "MatMul" || def.name == "Gemm" || def.name == "com.microsoft.FusedMatMul") {
    return 2 * results * static_cast<Cost>(last_size(operand(0)));
  }
  const bool transposed = def.name == "ConvTranspose";  // as a sum over the whole window at every element
  if ((def.name == "Conv" || transposed) && operand(1).shaped() && operand(1).rank() > 1) {
    const auto outputs = static_cast<Cost>(nominal(operand(1).shape()[transposed ? 1 : 0]));
    return 2 * results * elements(operand(1).type()) / std::max<Cost>(outputs, 1);
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

Cost cost_of(const Program& program, ClassId id, const egraph::ENode& node) {
  const OpDef* def = Program::op_of(node.head);
  const ClassFacts& facts = program.facts(id);
  if (def == nullptr) return 0;
  if (facts.constant) return 1;  // of equal constants, the one that takes fewer steps to fold
  const Cost written = bytes(facts);
  if (def->has(kView)) return kPresence / 4;
  if (def->name.starts_with("com.microsoft.") && def->has(kElementwise)) return kLaunch / 2 + written;
  if (def->has(kElementwise)) return kPresence + effort(*def) + written * effort(*def) / kFusedShare;
  if (only_moves(*def)) return 2 * kPresence + written / kFusedShare;
  Cost moved = written / kFusedShare;  // what it writes may be read within its own kernel
  for (ClassId child : node.children) {
    if (!program.facts(child).constant) moved += bytes(program.facts(child));
  }
  Cost total = kLaunch + moved + flops(program, *def, node, facts) / kFlopsPerUnit;
  // Composites that fuse better as their parts.
  if (def->name == "Gemm" || def->name.starts_with("com.microsoft.")) total += kLaunch / 2 + written;
  if (def->name == "Einsum") total *= 16;
  return std::min(total, kMost);
}

std::uint64_t hash_text(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

egraph::CostModel cost_model(const Program& program) {
  egraph::CostModel model;
  model.cost = [&program](ClassId id, const egraph::ENode& node) { return cost_of(program, id, node); };
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
