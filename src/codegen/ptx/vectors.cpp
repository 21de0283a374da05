// Lanes of a vector loop that memory takes several of at once.
#include <algorithm>

#include "codegen/ptx/emitter.h"
#include "kir/effects.h"

namespace xyntra::ptx {

using kir::BufferId;
using kir::StmtNode;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

// "{%r1, %r2}"
std::string listed(const std::vector<std::string>& registers) {
  if (registers.size() == 1) return registers[0];
  std::string text;
  for (const std::string& one : registers) text += (text.empty() ? "{" : ", ") + one;
  return text + "}";
}

}  // namespace

std::int64_t KernelEmitter::vector_width(BufferId id, const te::LinearIndex& index, kir::VarId lane) const {
  if (homes_[id.index] == Home::Registers || is_packed(id)) return 1;
  const te::LinearIndex::Term* own = index.find(lane);
  const std::int64_t lanes = kernel_.variable(lane).extent.constant();
  if (own == nullptr || !own->coefficient.is(1)) return 1;
  const std::int64_t most = element_bytes(id) == 2 ? 8 : 4;  // an instruction has at most four registers
  for (std::int64_t width = std::min<std::int64_t>(most, kAlignment / element_bytes(id)); width > 1;
       width /= 2) {
    const bool aligned = lanes % width == 0 && te::divides(Dim(width), index.constant) &&
                         std::ranges::all_of(index.terms, [&](const te::LinearIndex::Term& term) {
                           return &term == own || te::divides(Dim(width), term.coefficient);
                         });
    if (aligned) return width;
  }
  return 1;
}

// An element of two bytes, of a word of two of them.
std::string KernelEmitter::half_of(DType dtype, const std::string& word, bool upper) {
  if (is_signed_integer(dtype)) return code_.word("bfe.s32", {word, upper ? "16" : "0", "16"});
  return upper ? code_.word("shr.u32", {word, "16"}) : code_.word("and.b32", {word, "65535"});
}

// What is read whatever happens, and what is in bounds anyway.
void KernelEmitter::load_vectors(const Expr& value, kir::VarId lane) {
  const std::vector<const ExprNode*> always = kir::unconditional_loads(value);
  const std::int64_t lanes = kernel_.variable(lane).extent.constant();
  te::for_each_node(value, [&](const ExprNode& inner) {
    if (inner.op != ExprOp::Load) return;
    const codegen::Access& access = analysis_.access(inner);
    const bool safe = access.in_bounds || std::ranges::find(always, &inner) != always.end();
    const std::int64_t width = safe ? vector_width(inner.buffer, access.flat, lane) : 1;
    if (width == 1) return;
    const DType dtype = kernel_.buffer(inner.buffer).dtype;
    for (std::int64_t first = 0; first < lanes; first += width) {
      variables_[lane.index] = std::to_string(first);
      forget();
      const std::string from = place(inner.buffer, access.flat);
      const bool halves = element_bytes(inner.buffer) == 2;
      std::vector<std::string> made;
      for (std::int64_t i = 0; i < (halves ? width / 2 : width); ++i)
        made.push_back(code_.fresh(size_of(dtype) == Size::Long ? Size::Long : Size::Word));
      code_.line(access_name(inner.buffer, "ld", width) + " " + listed(made) + ", " + from);
      for (std::int64_t i = 0; i < width; ++i) {
        std::string code = made[static_cast<std::size_t>(halves ? i / 2 : i)];
        if (halves) code = half_of(dtype, code, i % 2 == 1);
        loaded_[{&inner, first + i}] =
            is_integer(dtype) ? code : arithmetic_.from_storage(dtype, code, nans_of(inner));
      }
    }
  });
}

// False where nothing is gained by it.
bool KernelEmitter::vector_store(const StmtNode& node, kir::VarId lane) {
  const te::LinearIndex& flat = analysis_.access(node).flat;
  const std::int64_t lanes = kernel_.variable(lane).extent.constant(),
                     width = vector_width(node.buffer, flat, lane);
  begin_statement(node);
  load_vectors(node.value, lane);
  if (width == 1 && loaded_.empty()) return false;
  const DType dtype = kernel_.buffer(node.buffer).dtype;
  Nans nans = Nans::Kept;
  std::vector<std::string> stored;
  for (std::int64_t one = 0; one < lanes; ++one) {
    variables_[lane.index] = std::to_string(one);
    lane_ = one;
    begin_statement(node);
    std::string made = width > 1 ? unrounded(node, nans) : value(node.value);
    if (width > 1) {
      if (nans != Nans::Any) made = arithmetic_.to_storage(dtype, made, nans);
    } else if (is_register(made)) {  // one of a buffer may be written by another lane
      made = code_.make(size_of(dtype), "mov." + std::string(suffix_of(dtype)), {made});
    }
    stored.push_back(made);
  }
  lane_.reset();
  loaded_.clear();
  forget();
  for (std::int64_t first = 0; first < lanes; first += width) {
    variables_[lane.index] = std::to_string(first);
    forget();
    if (width == 1) {
      store_at(node.buffer, flat, stored[static_cast<std::size_t>(first)]);
      continue;
    }
    std::vector<std::string> list;
    for (std::int64_t i = 0; i < width; ++i) {
      const std::string& one = stored[static_cast<std::size_t>(first + i)];
      if (element_bytes(node.buffer) != 2) {
        list.push_back(one);
      } else if (i % 2 == 1) {
        const std::string& before = stored[static_cast<std::size_t>(first + i - 1)];
        list.push_back(nans == Nans::Any ? arithmetic_.pair_bits(dtype, before, one)
                                         : code_.word("prmt.b32", {before, one, "0x5410"}));
      }
    }
    const std::string to = place(node.buffer, flat);
    code_.line(access_name(node.buffer, "st", width) + " " + to + ", " + listed(list));
  }
  return true;
}

}  // namespace xyntra::ptx
