// Where buffers lie, and how their elements are read and written one by one.
#include <algorithm>

#include "codegen/ptx/emitter.h"
#include "kir/effects.h"
#include "kir/intrinsics.h"

namespace xyntra::ptx {

using kir::BufferId;
using kir::Scope;
using kir::StmtNode;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

constexpr std::int64_t kMostLocalBytes = 16 << 10;  // of a thread, in one buffer
std::int64_t rounded(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

// ---- buffers

Status KernelEmitter::own_buffers(const kir::Stmt& body, bool threads) {
  std::vector<bool> used(kernel_.buffers.size(), false);
  kir::for_each_statement(body, [&](const StmtNode& node) {
    for (BufferId written : kir::buffers_written(node)) used[written.index] = true;
  });
  homes_.assign(kernel_.buffers.size(), Home::Global);
  shared_offsets_.assign(kernel_.buffers.size(), 0);
  std::int64_t& shared_bytes = made_.phases.back().shared_bytes;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const kir::Buffer& buffer = kernel_.buffers[i];
    if (buffer.scope == Scope::Global || buffer.scope == Scope::Workspace) continue;
    const Dim count = product(buffer.shape);
    const bool shared = buffer.scope == Scope::Shared && threads;
    homes_[i] = shared                                        ? Home::Shared
                : constant_indices_[i] && count.is_constant() ? Home::Registers
                                                              : Home::Local;
    if (!used[i] || homes_[i] == Home::Registers) continue;
    const Dim bytes = count * Dim(element_bytes(BufferId(i)));
    if (!bytes.is_constant() || (!shared && bytes.constant() > kMostLocalBytes))
      return failure(ErrorClass::Unsupported,
                     "no PTX can be made of memory of one work item that is as large as " +
                         bytes.to_string() + " bytes");
    if (shared) {
      shared_bytes = rounded(shared_bytes, buffer.swizzle != kir::Swizzle::None ? kSwizzleAlignment
                                           : has_boxes_                         ? kBoxAlignment
                                                                                : kAlignment);
      shared_offsets_[i] = shared_bytes;
      shared_bytes = rounded(shared_bytes + bytes.constant(), kAlignment);
    } else {
      local_ += "  .local .align 16 .b8 l" + std::to_string(i) + "[" +
                std::to_string(std::max<std::int64_t>(bytes.constant(), 1)) + "];\n";
    }
  }
  return {};
}

// Elements of less than a byte share one in memory that the host looks at.
bool KernelEmitter::is_packed(BufferId id) const {
  const kir::Buffer& buffer = kernel_.buffer(id);
  return buffer.scope == Scope::Global && bits_of(buffer.dtype) < 8;
}

int KernelEmitter::element_bytes(BufferId id) const {
  return std::max(8, bits_of(kernel_.buffer(id).dtype)) / 8;
}

std::string KernelEmitter::base(BufferId id) {
  std::string& known = bases_[id.index];
  if (!known.empty()) return known;
  const std::string number = std::to_string(id.index);
  switch (homes_[id.index]) {
    case Home::Global: {
      const std::string given = code_.fixed(Size::Long);
      known = code_.fixed(Size::Long);
      prologue_ += "  ld.param.u64 " + given + ", [b" + number + "];\n  cvta.to.global.u64 " + known + ", " +
                   given + ";\n";
      break;
    }
    case Home::Shared:
      known = code_.fixed(Size::Word);
      prologue_ += "  mov.u32 " + known + ", shared;\n";
      break;
    case Home::Local:
      known = code_.fixed(Size::Long);
      prologue_ += "  mov.u64 " + known + ", l" + number + ";\n";
      break;
    case Home::Registers: internal_error("codegen: the address of a register");
  }
  return known;
}

std::string KernelEmitter::element_register(BufferId id, const te::LinearIndex& index, std::int64_t further) {
  std::int64_t element = index.constant.constant() + further;
  for (const te::LinearIndex::Term& term : index.terms) {
    const auto iteration = literal(variable(term.atom->var));
    require(iteration.has_value(), "codegen: an index of a register that is not known");
    element += *iteration * term.coefficient.constant();
  }
  std::string& name = elements_[{id.index, element}];
  if (name.empty()) name = code_.fresh(size_of(kernel_.buffer(id).dtype));
  return name;
}

// ---- places

KernelEmitter::Sum KernelEmitter::sum_of(const te::LinearIndex& index) {
  const Size size_of_sum = wide_ ? Size::Long : Size::Word;
  const std::string type = wide_ ? "s64" : "s32";
  Sum sum;
  auto add = [&](const std::string& term) {
    sum.varying = sum.varying.empty() ? term : code_.make(size_of_sum, "add." + type, {sum.varying, term});
  };
  struct Part {
    std::string atom, factor;
    std::size_t level;
  };
  std::vector<Part> parts;
  for (const te::LinearIndex::Term& term : index.terms) {
    const bool narrow = is_position(term.atom);
    std::string atom = narrow ? position(term.atom) : value(term.atom);
    const auto known = literal(atom);
    if (known && term.coefficient.is_constant()) {
      sum.constant += *known * term.coefficient.constant();
      continue;
    }
    if (!narrow && !wide_ && !known) atom = code_.word("cvt.u32.u64", {atom});
    const std::string factor = term.coefficient.is(1) ? "" : size(term.coefficient, wide_);
    parts.push_back({atom, factor, code_.level_of(atom)});
  }
  std::ranges::stable_sort(parts, {}, &Part::level);  // what changes least first
  for (const Part& part : parts) {
    if (part.level == code_.depth() && parts.front().level < part.level && sum.steady.empty())
      std::swap(sum.steady, sum.varying);
    if (part.factor.empty()) {
      add(part.atom);
    } else if (sum.varying.empty()) {
      sum.varying = code_.make(size_of_sum, "mul.lo." + type, {part.atom, part.factor});
    } else {
      sum.varying = code_.make(size_of_sum, "mad.lo." + type, {part.atom, part.factor, sum.varying});
    }
  }
  if (index.constant.is_constant()) {
    sum.constant += index.constant.constant();
  } else {
    if (!sum.steady.empty()) std::swap(sum.steady, sum.varying);
    add(size(index.constant, wide_));
    if (!sum.steady.empty()) std::swap(sum.steady, sum.varying);
  }
  return sum;
}

std::string KernelEmitter::element_number(const te::LinearIndex& index) {
  Sum sum = sum_of(index);
  if (!sum.steady.empty())
    sum.varying =
        code_.make(wide_ ? Size::Long : Size::Word, wide_ ? "add.s64" : "add.s32", {sum.steady, sum.varying});
  const std::string constant = std::to_string(sum.constant);
  if (sum.varying.empty())
    return code_.make(wide_ ? Size::Long : Size::Word, wide_ ? "mov.b64" : "mov.b32", {constant});
  if (sum.constant == 0) return sum.varying;
  return wide_ ? code_.wide("add.s64", {sum.varying, constant})
               : code_.word("add.s32", {sum.varying, constant});
}

std::string KernelEmitter::place(BufferId id, const te::LinearIndex& index) {
  const Sum sum = sum_of(index);
  const std::int64_t bytes = element_bytes(id);
  std::string address = base(id);
  std::int64_t offset = sum.constant * bytes;
  const std::string scale = std::to_string(bytes);
  const bool shared = homes_[id.index] == Home::Shared;
  if (shared) offset += shared_offsets_[id.index];
  for (const std::string& elements : {sum.steady, sum.varying}) {
    if (elements.empty()) continue;
    if (shared) {
      const std::string word = wide_ ? code_.word("cvt.u32.u64", {elements}) : elements;
      address = code_.word("mad.lo.s32", {word, scale, address});
    } else {
      address = wide_ ? code_.wide("mad.lo.s64", {elements, scale, address})
                      : code_.wide("mad.wide.s32", {elements, scale, address});
    }
  }
  if (offset < INT32_MIN || offset > INT32_MAX) {
    address = code_.wide("add.s64", {address, std::to_string(offset)});
    offset = 0;
  }
  return "[" + address + (offset == 0 ? "" : "+" + std::to_string(offset)) + "]";
}

// "ld.global.v4.f32"
std::string KernelEmitter::access_name(BufferId id, const char* verb, std::int64_t lanes) const {
  const DType dtype = kernel_.buffer(id).dtype;
  const Home home = homes_[id.index];
  std::string name = verb;
  name += home == Home::Shared ? ".shared" : home == Home::Local ? ".local" : ".global";
  const int bits = element_bytes(id) * 8;
  if (lanes > 1 && bits == 16) {  // two in a word
    return name + (lanes > 2 ? ".v" + std::to_string(lanes / 2) : "") + ".b32";
  }
  if (lanes > 1) name += ".v" + std::to_string(lanes);
  if (bits >= 32) return name + "." + std::string(suffix_of(dtype));
  return name + (is_signed_integer(dtype) ? ".s" : ".u") + std::to_string(bits);
}

// ---- single elements

std::string KernelEmitter::load(BufferId id, const te::LinearIndex& index, const std::string& guard,
                                Nans nans) {
  const DType dtype = kernel_.buffer(id).dtype;
  if (homes_[id.index] == Home::Registers) return element_register(id, index);
  if (guard == kFalse) return Arithmetic::zero(dtype);
  if (is_packed(id)) return arithmetic_.from_storage(dtype, load_packed(id, index, guard), nans);
  const bool guarded = is_register(guard);
  const std::string from = place(id, index);
  const std::string made = code_.fresh(size_of(dtype) == Size::Long ? Size::Long : Size::Word);
  if (guarded) code_.line(std::string(size_of(dtype) == Size::Long ? "mov.b64 " : "mov.b32 ") + made + ", 0");
  code_.line((guarded ? "@" + guard + " " : "") + access_name(id, "ld", 1) + " " + made + ", " + from);
  return is_integer(dtype) ? made : arithmetic_.from_storage(dtype, made, nans);
}

std::string KernelEmitter::load_packed(BufferId id, const te::LinearIndex& index, const std::string& guard) {
  const int bits = bits_of(kernel_.buffer(id).dtype);
  const std::string in_byte = std::to_string(8 / bits - 1), shift = bits == 4 ? "1" : "2";
  const std::string number = element_number(index);
  const std::string byte = wide_ ? code_.wide("shr.u64", {number, shift})
                                 : code_.wide("cvt.u64.u32", {code_.word("shr.u32", {number, shift})});
  const std::string address = code_.wide("add.s64", {byte, base(id)});
  const std::string made = code_.fresh(Size::Word);
  const bool guarded = is_register(guard);
  if (guarded) code_.line("mov.b32 " + made + ", 0");
  code_.line((guarded ? "@" + guard + " " : "") + "ld.global.u8 " + made + ", [" + address + "]");
  const std::string low = wide_ ? code_.word("cvt.u32.u64", {number}) : number;
  const std::string place =
      code_.word("mul.lo.u32", {code_.word("and.b32", {low, in_byte}), std::to_string(bits)});
  return code_.word("bfe.u32", {made, place, std::to_string(bits)});
}

void KernelEmitter::store_at(BufferId id, const te::LinearIndex& index, const std::string& value) {
  const DType dtype = kernel_.buffer(id).dtype;
  if (homes_[id.index] == Home::Registers) {
    const std::string held = dtype == DType::Bool ? code_.held(value) : value;
    const std::string element = element_register(id, index);
    if (element != held) code_.line("mov." + std::string(suffix_of(dtype)) + " " + element + ", " + held);
    return;
  }
  const std::string stored = arithmetic_.to_storage(dtype, value);
  if (is_packed(id)) {
    store_packed(id, index, stored);
    return;
  }
  const std::string to = place(id, index);
  code_.line(access_name(id, "st", 1) + " " + to + ", " + stored);
}

// Other threads write other elements of the same word.
void KernelEmitter::store_packed(BufferId id, const te::LinearIndex& index, const std::string& code) {
  const int bits = bits_of(kernel_.buffer(id).dtype);
  const std::int64_t in_word = 32 / bits, mask = (1 << bits) - 1;
  const std::string number = element_number(index);
  const std::string low = wide_ ? code_.word("cvt.u32.u64", {number}) : number;
  const std::string shift = code_.word(
      "mul.lo.u32", {code_.word("and.b32", {low, std::to_string(in_word - 1)}), std::to_string(bits)});
  const std::string which = std::to_string(in_word == 8 ? 3 : 4);
  const std::string word = wide_ ? code_.wide("shr.u64", {number, which})
                                 : code_.wide("cvt.u64.u32", {code_.word("shr.u32", {number, which})});
  const std::string address = code_.wide("mad.lo.s64", {word, "4", base(id)});
  const std::string cleared = code_.word("not.b32", {code_.word("shl.b32", {std::to_string(mask), shift})});
  code_.line("red.global.and.b32 [" + address + "], " + cleared);
  const std::string kept = code_.word("and.b32", {code, std::to_string(mask)});
  code_.line("red.global.or.b32 [" + address + "], " + code_.word("shl.b32", {kept, shift}));
}

}  // namespace xyntra::ptx
