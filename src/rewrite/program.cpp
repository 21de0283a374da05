#include "rewrite/program.h"

#include <algorithm>
#include <cmath>

#include "ops/infer.h"
#include "rewrite/keys.h"
#include "rewrite/normalize/fold.h"
#include "types/float_formats.h"

namespace xyntra {
namespace {

constexpr std::int64_t kEvaluatedElements = 16;  // constants up to here are evaluated as soon as they arise

}  // namespace

bool about(DType dtype, double value, double number) {
  if (value == number) return std::signbit(value) == std::signbit(number);
  if (!is_float(dtype)) return false;
  const double spacing = dtype == DType::F64 ? 0x1p-52 : dtype == DType::F32 ? 0x1p-23 : 0x1p-9;
  if (std::abs(value - number) > 2 * spacing * std::abs(number)) return false;
  // A number that the dtype can hold must be held; others may be rounded, and have been computed in a few steps.
  return splat(dtype, {}, number).element_as_f64(0) != number;
}

egraph::Head Program::head_of(const OpDef& def) {
  static const auto kHeads = [] {
    std::unordered_map<const OpDef*, egraph::Head> heads;
    for (const OpDef& op : all_ops()) heads.emplace(&op, kFirstOp + static_cast<egraph::Head>(heads.size()));
    return heads;
  }();
  return kHeads.at(&def);
}

const OpDef* Program::op_of(egraph::Head head) {
  return head < kFirstOp ? nullptr : &all_ops()[head - kFirstOp];
}

Program::Program() : graph_(this) {
  const AttributesId none = forms_.intern(nullptr, {});
  require(none.index == kDefaults, "Program: the first form is the one without attributes");
}

Tensor Program::scalar(DType dtype, double value) { return splat(dtype, {}, value); }

TermId Program::add_input(std::size_t position, ValueFacts facts) {
  next_facts_ = std::make_shared<ClassFacts>();
  next_facts_->outputs.push_back(std::move(facts));
  return graph_.add(kInput, static_cast<egraph::Payload>(position), {});
}

TermId Program::add_constant(Tensor tensor) {
  auto [found, fresh] =
      tensor_ids_.try_emplace(content_key(tensor), static_cast<egraph::Payload>(tensors_.size()));
  if (fresh) tensors_.push_back(tensor);
  auto facts = std::make_shared<ClassFacts>();
  facts->outputs.push_back({Type::tensor(tensor.dtype(), shape_of(tensor.dims())), tensor, {}, true});
  facts->constant = true;
  facts->splat = splat_value(tensor);
  if (is_float(tensor.dtype())) facts->magnitude = std::make_shared<MagnitudeSource>(std::move(tensor));
  next_facts_ = std::move(facts);
  return graph_.add(kConstant, found->second, {});
}

TermId Program::absent() {
  next_facts_ = std::make_shared<ClassFacts>();
  next_facts_->outputs.push_back({{}, {}, {}, false});
  next_facts_->constant = true;
  return graph_.add(kAbsent, 0, {});
}

TermId Program::add_projection(TermId tuple, std::size_t position) {
  const ClassFacts& all = facts(tuple);
  auto facts = std::make_shared<ClassFacts>();
  facts->outputs.push_back(all.outputs.at(position));
  facts->constant = all.constant;
  facts->stays_bytes = all.stays_bytes;
  next_facts_ = std::move(facts);
  return graph_.add(kProjection, static_cast<egraph::Payload>(position), {tuple});
}

TermId Program::add_outputs(std::span<const TermId> outputs) {
  next_facts_ = std::make_shared<ClassFacts>();
  next_facts_->outputs.emplace_back();
  return graph_.add(kOutputs, 0, outputs);
}

// Contents of what is small and known, so that rules see numbers that other rules made.
void Program::evaluate_small(const OpDef& def, const NodeForm& form, std::span<const TermId> operands,
                             ClassFacts& facts) {
  if (facts.outputs.size() != 1 || !facts.type().has_static_shape()) return;
  const Dim count = product(facts.shape());
  if (!count.is_constant() || count.constant() > kEvaluatedElements) return;
  std::vector<Tensor> contents;
  for (TermId operand : operands) {
    const ClassFacts& known = this->facts(operand);
    if (known.outputs[0].present && !known.contents().defined()) return;
    contents.push_back(known.contents());
  }
  auto evaluated = evaluate_node(def, form, contents);
  if (!evaluated) return;
  facts.outputs[0].constant = (*evaluated)[0];
  facts.splat = splat_value((*evaluated)[0]);
  facts.magnitude = std::make_shared<MagnitudeSource>((*evaluated)[0]);
}

std::optional<TermId> Program::add_op(const OpDef& def, NodeForm form, std::span<const TermId> operands,
                                      std::vector<ValueFacts> known) {
  while (!operands.empty() && graph_.head(operands.back()) == kAbsent)
    operands = operands.first(operands.size() - 1);
  const egraph::Head head = head_of(def);
  const egraph::Payload payload = forms_.intern(&def, std::move(form)).index;
  std::vector<ClassId> children;
  for (TermId operand : operands) children.push_back(graph_.class_of(operand));
  if (!graph_.lookup(head, payload, children).valid()) {
    const NodeForm& interned = this->form(payload);
    auto facts = std::make_shared<ClassFacts>();
    facts->outputs = std::move(known);
    if (facts->outputs.empty()) {
      Node node;
      node.op = def.name;
      node.attributes = interned.attributes;
      for (bool wanted : interned.outputs) node.outputs.push_back(wanted ? ValueId(0) : ValueId());
      std::vector<ValueFacts> inputs;
      for (TermId operand : operands) inputs.push_back(this->facts(operand).outputs.at(0));
      auto inferred = infer_node(def, node, inputs, "rewritten" + std::to_string(graph_.term_count()));
      if (!inferred) return std::nullopt;
      facts->outputs = std::move(*inferred);
    }
    facts->constant =
        !def.has(kRandom) && !def.has(kControlFlow) &&
        std::ranges::all_of(operands, [&](TermId operand) { return this->facts(operand).constant; });
    if (facts->constant) {
      facts->stays_bytes = stays_bytes(def, *facts, children);
      if (facts->is_tensor()) facts->magnitude = magnitude_of_op(def, facts->dtype(), children);
      evaluate_small(def, interned, operands, *facts);
    }
    next_facts_ = std::move(facts);
  }
  return graph_.add(head, payload, operands);
}

void Program::made(const EGraph&, ClassId id, const egraph::ENode&) {
  require(next_facts_ != nullptr, "Program: a term was added without facts");
  if (facts_.size() <= id.index) facts_.resize(id.index + 1);
  facts_[id.index] = std::move(next_facts_);
  next_facts_ = nullptr;
}

bool Program::merged(EGraph&, ClassId into, ClassId from) {
  ClassFacts& kept = *facts_[into.index];
  const ClassFacts& other = *facts_[from.index];
  bool changed = false;
  if (kept.stays_bytes && other.constant && !other.stays_bytes) {
    kept.stays_bytes = false;
    changed = true;
  }
  if (other.constant && !kept.constant) {
    kept.constant = changed = true;
    kept.stays_bytes = other.stays_bytes;
  }
  for (std::size_t i = 0; i < kept.outputs.size() && i < other.outputs.size(); ++i) {
    if (other.outputs[i].constant.defined() && !kept.outputs[i].constant.defined()) {
      kept.outputs[i].constant = other.outputs[i].constant;
      changed = true;
    }
    if (other.outputs[i].elements && !kept.outputs[i].elements) {
      kept.outputs[i].elements = other.outputs[i].elements;
      changed = true;
    }
  }
  if (other.splat && !kept.splat) {
    kept.splat = other.splat;
    changed = true;
  }
  if (other.magnitude && !kept.magnitude) {
    kept.magnitude = other.magnitude;
    changed = true;
  }
  return changed;
}

MagnitudeSource::Pointer Program::magnitude_of_op(const OpDef& def, DType dtype,
                                                  std::span<const ClassId> operands) const {
  if (!is_float(dtype)) return nullptr;
  std::vector<MagnitudeSource::Pointer> sources;
  for (ClassId operand : operands) sources.push_back(facts(operand).magnitude);
  return std::make_shared<MagnitudeSource>(def, dtype, std::move(sources));
}

bool Program::all_constant(const egraph::ENode& node) const {
  const OpDef* def = op_of(node.head);
  if (def != nullptr && (def->has(kRandom) || def->has(kControlFlow))) return false;
  return node.head != kInput && node.head != kOutputs &&
         std::ranges::all_of(node.children, [&](ClassId child) { return facts(child).constant; });
}

// Filters are widened, whatever their size: they are read at every position of a feature map.
bool Program::stays_bytes(const OpDef& def, const ClassFacts& facts,
                          std::span<const ClassId> operands) const {
  if (std::ranges::any_of(operands, [&](ClassId id) { return this->facts(id).stays_bytes; })) return true;
  if (def.name != "DequantizeLinear" || !facts.shaped() || facts.rank() > 2) return false;
  const Dim bits = product(facts.shape()) * Dim(bits_of(facts.dtype()));
  return bits.is_constant() && bits.constant() / 8 > kLargestWidened;
}

bool Program::remade(const EGraph&, ClassId id, const egraph::ENode& node) {
  ClassFacts& own = *facts_[graph_.find(id).index];
  if (own.constant || !all_constant(node)) return false;
  own.constant = true;
  const OpDef* def = op_of(node.head);
  if (def != nullptr) own.stays_bytes = stays_bytes(*def, own, node.children);
  if (def != nullptr && own.is_tensor() && !own.magnitude)
    own.magnitude = magnitude_of_op(*def, own.dtype(), node.children);
  return true;
}

void Program::settled(EGraph& graph, ClassId id) {
  const ClassFacts& known = facts(id);
  if (known.outputs.size() != 1 || !known.contents().defined()) return;
  if (known.contents().count() > kEvaluatedElements) return;
  for (const egraph::ENode& node : graph.nodes(id)) {
    if (node.head == kConstant) return;
  }
  const TermId term = graph.representative(id);
  graph.unite(term, add_constant(known.contents()), graph.reason("constant-folding"));
}

}  // namespace xyntra
