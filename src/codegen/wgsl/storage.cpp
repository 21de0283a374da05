#include "codegen/wgsl/storage.h"

#include <algorithm>

namespace xyntra::wgsl {

using kir::LoopKind;
using kir::Scope;

namespace {

bool is_multiple(const Dim& number) { return te::divides(Dim(kVector), number); }

// How the accesses of one buffer lie inside vector loops of four lanes.
struct Accesses {
  bool along = false;  // some walk along the lanes
  bool across = false;  // some do not
};

std::vector<Accesses> accesses_of(codegen::KernelAnalysis& analysis) {
  const kir::Kernel& kernel = analysis.kernel();
  const codegen::KernelAnalysis::LoopKinds kinds = analysis.loop_kinds();
  std::vector<Accesses> found(kernel.buffers.size());
  analysis.for_each_access([&](kir::BufferId buffer, const te::LinearIndex& index) {
    for (const te::LinearIndex::Term& term : index.terms) {
      if (term.atom->op != te::ExprOp::Var || !kernel.variable(term.atom->var).extent.is(kVector)) continue;
      const auto kind = kinds.find(term.atom->var.index);
      if (kind == kinds.end() || kind->second != LoopKind::Vector) continue;
      Accesses& seen = found[buffer.index];
      (is_along(index, term.atom->var) ? seen.along : seen.across) = true;
    }
  });
  return found;
}

}  // namespace

bool is_along(const te::LinearIndex& index, kir::VarId lane) {
  const te::LinearIndex::Term* own = index.find(lane);
  if (own == nullptr || !own->coefficient.is(1) || !is_multiple(index.constant)) return false;
  return std::all_of(index.terms.begin(), index.terms.end(), [own](const te::LinearIndex::Term& term) {
    return &term == own || is_multiple(term.coefficient);
  });
}

std::vector<BufferForm> forms_of(codegen::KernelAnalysis& analysis, const Operations& operations) {
  const std::vector<Accesses> accesses = accesses_of(analysis);
  const std::vector<bool> constant = analysis.constant_indices();
  std::vector<BufferForm> forms;
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const kir::Buffer& buffer = analysis.kernel().buffers[i];
    const Dim count = product(buffer.shape);
    BufferForm form;
    form.split =
        buffer.scope == Scope::Register && constant[i] && count.is_constant() && !buffer.shape.empty();
    const bool whole = is_multiple(count) && !buffer.shape.empty();
    // Single elements of vectors in shared memory can be written too, at a small cost.
    const bool fits = !accesses[i].across || buffer.scope == Scope::Shared;
    const bool floats = buffer.dtype == DType::F32 || operations.is_half(buffer.dtype);
    form.vectors = floats && accesses[i].along && fits && whole;
    forms.push_back(form);
  }
  return forms;
}

}  // namespace xyntra::wgsl
