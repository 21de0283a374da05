#include "codegen/wgsl/storage.h"

#include <algorithm>

#include "kir/intrinsics.h"

namespace xyntra::wgsl {

using kir::LoopKind;
using kir::Scope;
using kir::StmtNode;

namespace {

bool is_multiple(const Dim& number) { return te::divides(Dim(kVector), number); }

// What the accesses of one buffer have in common.
struct Accesses {
  bool constant = true;  // once loops are unrolled
  bool along = false;  // some walk along the lanes of a vector loop
  bool across = false;  // some do not, inside one
};

class Looking {
 public:
  Looking(codegen::KernelAnalysis& analysis, const Operations& operations)
      : analysis_(analysis),
        kernel_(analysis.kernel()),
        operations_(operations),
        found_(kernel_.buffers.size()) {}

  std::vector<BufferForm> run() {
    kir::for_each_statement(kernel_.body, [this](const StmtNode& node) {
      if (node.kind == StmtNode::Kind::Loop) kinds_[node.var.index] = node.loop;
    });
    kir::for_each_statement(kernel_.body, [this](const StmtNode& node) {
      if (node.kind == StmtNode::Kind::Store) access(node.buffer, analysis_.access(node).flat);
      for (const kir::Operand& operand : node.operands) {
        if (operand.buffer.valid() && !kir::is_hint(node.intrinsic))
          access(operand.buffer, analysis_.access(operand).flat);
      }
      kir::for_each_expr(node, [this](const te::Expr& expr) {
        te::for_each_node(expr, [this](const te::ExprNode& inner) {
          if (te::is_load(inner)) access(inner.buffer, analysis_.access(inner).flat);
        });
      });
    });
    std::vector<BufferForm> forms;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const kir::Buffer& buffer = kernel_.buffers[i];
      const Dim count = product(buffer.shape);
      BufferForm form;
      form.split = buffer.scope == Scope::Register && found_[i].constant && count.is_constant() &&
                   !buffer.shape.empty();
      const bool whole = is_multiple(count) && !buffer.shape.empty();
      // Single elements of vectors in shared memory can be written too, at a small cost.
      const bool fits = !found_[i].across || buffer.scope == Scope::Shared;
      const bool floats = buffer.dtype == DType::F32 || operations_.is_half(buffer.dtype);
      form.vectors = floats && found_[i].along && fits && whole;
      forms.push_back(form);
    }
    return forms;
  }

 private:
  void access(kir::BufferId buffer, const te::LinearIndex& index) {
    Accesses& seen = found_[buffer.index];
    for (const te::LinearIndex::Term& term : index.terms) {
      const bool loop = term.atom->op == te::ExprOp::Var;
      auto kind = loop ? kinds_.find(term.atom->var.index) : kinds_.end();
      const bool known = kind != kinds_.end();
      const bool lane = known && kind->second == LoopKind::Vector;
      seen.constant = seen.constant && known && (lane || kind->second == LoopKind::Unrolled);
      if (!lane || !kernel_.variable(term.atom->var).extent.is(kVector)) continue;
      (is_along(index, term.atom->var) ? seen.along : seen.across) = true;
    }
  }

  codegen::KernelAnalysis& analysis_;
  const kir::Kernel& kernel_;
  const Operations& operations_;
  std::unordered_map<std::uint32_t, LoopKind> kinds_;  // by variable
  std::vector<Accesses> found_;
};

}  // namespace

bool is_along(const te::LinearIndex& index, kir::VarId lane) {
  const te::LinearIndex::Term* own = index.find(lane);
  if (own == nullptr || !own->coefficient.is(1) || !is_multiple(index.constant)) return false;
  return std::all_of(index.terms.begin(), index.terms.end(), [own](const te::LinearIndex::Term& term) {
    return &term == own || is_multiple(term.coefficient);
  });
}

std::vector<BufferForm> forms_of(codegen::KernelAnalysis& analysis, const Operations& operations) {
  return Looking(analysis, operations).run();
}

}  // namespace xyntra::wgsl
