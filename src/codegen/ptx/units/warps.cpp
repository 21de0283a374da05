// Instructions of warps: asynchronous copies, matrix fragments.
#include <algorithm>

#include "codegen/ptx/emitter.h"
#include "codegen/ptx/units/swizzled.h"
#include "kir/intrinsics.h"

namespace xyntra::ptx {

using kir::Intrinsic;

// Where nothing is read, the address may be any.
Status KernelEmitter::async_copy(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  const te::Expr condition = kir::condition_of_copy(node);
  const std::string holds = condition.defined() ? value(condition) : std::string(kTrue);
  const std::string target = kernel_.buffer(to.buffer).swizzle == kir::Swizzle::None
                                 ? place(to.buffer, analysis_.access(to).flat)
                                 : swizzled_place(to);
  const std::string source = place(from.buffer, analysis_.access(from).flat);
  std::string bytes;
  if (holds == kFalse) bytes = ", 0";
  if (is_register(holds)) bytes = ", " + code_.word("selp.b32", {"16", "0", holds});
  code_.line("cp.async.cg.shared.global " + target + ", " + source + ", 16" + bytes);
  return {};
}

std::string KernelEmitter::registers(const kir::Operand& first, std::int64_t count) {
  std::string list = "{";
  for (std::int64_t i = 0; i < count; ++i)
    list += (i == 0 ? "" : ", ") + element_register(first.buffer, analysis_.access(first).flat, i);
  return list + "}";
}

Status KernelEmitter::load_fragment(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  if (homes_[to.buffer.index] != Home::Registers || homes_[from.buffer.index] != Home::Shared)
    return unsupported("a fragment that is not in registers");
  const std::string transposed = node.intrinsic == Intrinsic::LoadFragmentTransposed ? ".trans" : "";
  const std::string source = place(from.buffer, analysis_.access(from).flat);
  code_.line("ldmatrix.sync.aligned.m8n8.x4" + transposed + ".shared.b16 " + registers(to, 4) + ", " +
             source);
  return {};
}

Status KernelEmitter::round_words(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  if (homes_[to.buffer.index] != Home::Registers || homes_[from.buffer.index] != Home::Registers)
    return unsupported("a fragment that is not in registers");
  const std::string dtype = kir::element_of(node.intrinsic) == DType::F16 ? "f16x2" : "bf16x2";
  const te::LinearIndex &word = analysis_.access(to).flat, &element = analysis_.access(from).flat;
  for (std::int64_t i = 0; i < 4; ++i) {
    code_.line("cvt.rn." + dtype + ".f32 " + element_register(to.buffer, word, i) + ", " +
               element_register(from.buffer, element, 2 * i + 1) + ", " +
               element_register(from.buffer, element, 2 * i));
  }
  return {};
}

Status KernelEmitter::round_words_tf32(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  if (homes_[to.buffer.index] != Home::Registers || homes_[from.buffer.index] != Home::Registers)
    return unsupported("a fragment that is not in registers");
  for (std::int64_t i = 0; i < 4; ++i) {
    code_.line("cvt.rna.tf32.f32 " + element_register(to.buffer, analysis_.access(to).flat, i) + ", " +
               element_register(from.buffer, analysis_.access(from).flat, i));
  }
  return {};
}

Status KernelEmitter::warp_multiply(const kir::StmtNode& node) {
  begin_statement(node);
  for (const kir::Operand& operand : node.operands) {
    if (homes_[operand.buffer.index] != Home::Registers)
      return unsupported("a fragment that is not in registers");
  }
  const DType element = *kir::element_of(node.intrinsic);
  auto byte = [](DType dtype) { return dtype == DType::U8 ? "u8." : "s8."; };
  const std::string unit = element == DType::F16   ? "m16n8k16.row.col.f32.f16.f16.f32"
                           : element == DType::F32 ? "m16n8k8.row.col.f32.tf32.tf32.f32"
                           : element == DType::BF16
                               ? "m16n8k16.row.col.f32.bf16.bf16.f32"
                               : std::string("m16n8k32.row.col.s32.") + byte(element) +
                                     byte(*kir::second_element_of(node.intrinsic)) + "s32";
  const std::string sums = registers(node.operands[0], 4);
  code_.line("mma.sync.aligned." + unit + " " + sums + ", " + registers(node.operands[1], 4) + ", " +
             registers(node.operands[2], 2) + ", " + sums);
  return {};
}

// ---- matrix units of warpgroups

namespace {

constexpr std::int64_t kChunkBytes = 16;

bool comes_in(std::int64_t step, const te::LinearIndex& index) {
  return te::divides(Dim(step), index.constant) && std::ranges::all_of(index.terms, [&](const auto& term) {
           return te::divides(Dim(step), term.coefficient);
         });
}

std::string sum(Instructions& code, const std::string& a, const std::string& b) {
  if (a.empty() || a == "0") return b;
  return b.empty() || b == "0" ? a : code.word("add.s32", {a, b});
}

}  // namespace

// A buffer [..., rows, columns] of 16-bit elements lies in blocks of 128 bytes of columns, one after another, and in each the chunks of
// 16 bytes of a row are numbered anew: by exclusive or with the number of the row.
std::string KernelEmitter::swizzled_place(const kir::Operand& operand) {
  const Shape& shape = kernel_.buffer(operand.buffer).shape;
  const std::size_t rank = shape.size();
  const std::int64_t rows = shape[rank - 2].constant(), columns = shape[rank - 1].constant();
  const Sum row = sum_of(analysis_.linear(operand.index[rank - 2]));
  std::string line = sum(code_, row.steady, row.varying), column = position(operand.index[rank - 1]);
  std::int64_t offset = shared_offsets_[operand.buffer.index];
  if (row.constant % kSwizzledRows == 0) {
    offset += row.constant * kSwizzledBytes;
  } else {
    line = sum(code_, line, std::to_string(row.constant));
  }
  if (line.empty()) line = "0";
  const std::string chunk = code_.word("shr.u32", {column, "3"});
  const std::string moved = code_.word("and.b32", {code_.word("xor.b32", {chunk, line}), "7"});
  std::string address =
      code_.word("mad.lo.s32", {line, std::to_string(kSwizzledBytes), base(operand.buffer)});
  address = code_.word("mad.lo.s32", {moved, std::to_string(kChunkBytes), address});
  if (columns * 2 > kSwizzledBytes) {
    const std::string block = code_.word("shr.u32", {column, "6"});
    address = code_.word("mad.lo.s32", {block, std::to_string(rows * kSwizzledBytes), address});
  }
  const Address place = in_slot(operand, {std::move(address), offset});
  return "[" + place.base + (place.offset == 0 ? "" : "+" + std::to_string(place.offset)) + "]";
}

// An address in the part of a buffer that the indices before the last two name.
KernelEmitter::Address KernelEmitter::in_slot(const kir::Operand& operand, Address address) {
  const Shape& shape = kernel_.buffer(operand.buffer).shape;
  std::int64_t bytes = 2 * shape[shape.size() - 2].constant() * shape.back().constant();
  for (std::size_t d = shape.size() - 2; d-- > 0;) {
    const std::string slot = position(operand.index[d]);
    if (const auto known = literal(slot)) {
      address.offset += *known * bytes;
    } else {
      address.base = code_.word("mad.lo.s32", {slot, std::to_string(bytes), address.base});
    }
    bytes *= shape[d].constant();
  }
  return address;
}

// What a unit reads: where it begins, as if rows were not swizzled, and how far blocks lie apart, all in 16 bytes.
Result<std::string> KernelEmitter::matrix_descriptor(const kir::Operand& operand, bool turned) {
  const kir::Buffer& buffer = kernel_.buffer(operand.buffer);
  const std::size_t rank = buffer.shape.size();
  const bool fits =
      homes_[operand.buffer.index] == Home::Shared && buffer.swizzle != kir::Swizzle::None &&
      (turned || buffer.shape[rank - 1].is(kSwizzledBytes / 2)) &&
      comes_in(kSwizzledRows, analysis_.linear(operand.index[rank - 2])) &&
      comes_in(turned ? kSwizzledBytes / 2 : kUnitDepth, analysis_.linear(operand.index[rank - 1]));
  if (!fits) return unsupported("a matrix that does not lie in swizzled rows of 128 bytes");
  const std::int64_t rows = buffer.shape[rank - 2].constant();
  const std::string row = position(operand.index[rank - 2]), column = position(operand.index[rank - 1]);
  std::string address = code_.word("mad.lo.s32", {row, std::to_string(kSwizzledBytes), base(operand.buffer)});
  // Along a row as far as a block goes; blocks after it where columns are the row.
  address = turned ? code_.word("mad.lo.s32", {code_.word("shr.u32", {column, "6"}),
                                               std::to_string(rows * kSwizzledBytes), address})
                   : code_.word("mad.lo.s32", {column, "2", address});
  const Address place = in_slot(operand, {std::move(address), shared_offsets_[operand.buffer.index]});
  const std::string start =
      place.offset == 0 ? place.base : code_.word("add.s32", {place.base, std::to_string(place.offset)});
  const std::string number = code_.word("and.b32", {code_.word("shr.u32", {start, "4"}), "16383"});
  const std::uint64_t next_block =
                          turned ? static_cast<std::uint64_t>(rows * kSwizzledBytes / kChunkBytes) : 1,
                      next_rows = kSwizzledRows * kSwizzledBytes / kChunkBytes;
  const std::uint64_t fixed = (std::uint64_t{1} << 62) | (next_rows << 32) | (next_block << 16);
  return code_.wide("or.b64", {code_.wide("cvt.u64.u32", {number}), std::to_string(fixed)});
}

Status KernelEmitter::warpgroup_multiply(const kir::StmtNode& node) {
  begin_statement(node);
  if (homes_[node.operands[0].buffer.index] != Home::Registers)
    return unsupported("sums that are not in registers");
  XYNTRA_CHECK_OK(check_unit(node));
  const bool turned = node.intrinsic == Intrinsic::WarpgroupMultiplyTurned;
  const std::int64_t columns = node.operands[4].value->int_value, depth = node.operands[5].value->int_value;
  XYNTRA_TRY(std::string left, matrix_descriptor(node.operands[1], false));
  XYNTRA_TRY(std::string right, matrix_descriptor(node.operands[2], turned));
  const std::string dtype = kernel_.buffer(node.operands[1].buffer).dtype == DType::F16 ? "f16" : "bf16";
  const std::string sums = registers(node.operands[0], columns / 2), add = code_.held(std::string(kTrue));
  const std::string deeper = std::to_string(2 * kUnitDepth / kChunkBytes),
                    lower = turned ? std::to_string(kUnitDepth * kSwizzledBytes / kChunkBytes) : deeper;
  for (std::int64_t at = 0; at < depth; at += kUnitDepth) {
    if (at > 0) {
      left = code_.wide("add.s64", {left, deeper});
      right = code_.wide("add.s64", {right, lower});
    }
    code_.line("wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + dtype + "." +
               dtype + " " + sums + ", " + left + ", " + right + ", " + add + ", 1, 1, 0, " +
               (turned ? "1" : "0"));
  }
  return {};
}

}  // namespace xyntra::ptx
