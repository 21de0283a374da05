// A graph as terms of an e-graph, with what is known of every class.
//
// A term is an op with its attributes, a graph input, a constant, or an operand that is not given. A node of several
// outputs is one term, a tuple, and each output that is used is a projection of it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "egraph/egraph.h"
#include "ops/op.h"
#include "rewrite/attributes.h"
#include "rewrite/normalize/magnitude.h"

namespace xyntra {

using egraph::ClassId;
using egraph::EGraph;
using egraph::TermId;

// Facts of the values that a class computes: one, or those of a tuple.
struct ClassFacts {
  std::vector<ValueFacts> outputs;
  bool constant = false;  // computed from constants alone; its contents may not be known yet
  bool stays_bytes =
      false;  // a constant matrix of bytes, too large to be widened before the run, or what is made of it
  std::optional<double> splat;  // the value of all its elements, when they are known and the same
  MagnitudeSource::Pointer magnitude;  // of a constant; null: nothing is known

  const Type& type() const { return outputs[0].type; }
  const Tensor& contents() const { return outputs[0].constant; }
  bool is_tensor() const { return outputs.size() == 1 && outputs[0].present && type().is_of_numbers(); }
  bool shaped() const { return is_tensor() && type().shape.has_value(); }
  const Shape& shape() const { return *type().shape; }
  std::size_t rank() const { return shape().size(); }
  DType dtype() const { return type().dtype; }
};

class Program final : public egraph::Analysis {
 public:
  // Heads below kFirstOp are leaves, projections and the list of a graph's outputs; op number i of all_ops() is kFirstOp + i.
  static constexpr egraph::Head kInput = 0, kConstant = 1, kAbsent = 2, kProjection = 3, kOutputs = 4,
                                kFirstOp = 5;
  static egraph::Head head_of(const OpDef& def);
  static const OpDef* op_of(egraph::Head head);  // null for leaves and projections
  static constexpr egraph::Payload kDefaults = 0;  // of an op without attributes

  Program();

  EGraph& graph() { return graph_; }
  const EGraph& graph() const { return graph_; }

  TermId add_input(std::size_t position, ValueFacts facts);
  TermId add_constant(Tensor tensor);
  TermId add_number(DType dtype, double value) { return add_constant(scalar(dtype, value)); }
  TermId absent();
  // Nothing when the operands do not fit the op. `known` are facts of its outputs; without them they are inferred.
  std::optional<TermId> add_op(const OpDef& def, NodeForm form, std::span<const TermId> operands,
                               std::vector<ValueFacts> known = {});
  TermId add_projection(TermId tuple, std::size_t position);
  TermId add_outputs(std::span<const TermId> outputs);

  const ClassFacts& facts(ClassId id) const { return *facts_[graph_.find(id).index]; }
  const ClassFacts& facts(TermId term) const { return facts(graph_.class_of(term)); }
  const NodeForm& form(egraph::Payload payload) const { return forms_.at(AttributesId(payload)); }
  const Tensor& tensor(egraph::Payload payload) const { return tensors_[payload]; }

  void made(const EGraph& graph, ClassId id, const egraph::ENode& node) override;
  bool merged(EGraph& graph, ClassId into, ClassId from) override;
  bool remade(const EGraph& graph, ClassId id, const egraph::ENode& node) override;
  void settled(EGraph& graph, ClassId id) override;

 private:
  static Tensor scalar(DType dtype, double value);
  bool all_constant(const egraph::ENode& node) const;
  bool stays_bytes(const OpDef& def, const ClassFacts& facts, std::span<const ClassId> operands) const;
  MagnitudeSource::Pointer magnitude_of_op(const OpDef& def, DType dtype,
                                           std::span<const ClassId> operands) const;
  void evaluate_small(const OpDef& def, const NodeForm& form, std::span<const TermId> operands,
                      ClassFacts& facts);

  EGraph graph_;
  AttributeTable forms_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, egraph::Payload> tensor_ids_;
  std::vector<std::shared_ptr<ClassFacts>> facts_;  // by class
  std::shared_ptr<ClassFacts> next_facts_;  // of the term that is being added
};

// True when a constant of this dtype that holds `value` is what a rule means by `number`.
bool about(DType dtype, double value, double number);

}  // namespace xyntra
