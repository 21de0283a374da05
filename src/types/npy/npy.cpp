#include "types/npy/npy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "support/files/file.h"
#include "support/memory.h"
#include "types/npy/npy_header.h"
#include "types/npy/npy_strings.h"

namespace xyntra {
namespace {

struct NativeType {
  std::string_view code;  // the descr without byte order
  DType dtype;
};
constexpr auto kNativeTypes = std::to_array<NativeType>({
    {"f8", DType::F64},
    {"f4", DType::F32},
    {"f2", DType::F16},
    {"f1", DType::F8E5M2},
    {"i8", DType::I64},
    {"i4", DType::I32},
    {"i2", DType::I16},
    {"i1", DType::I8},
    {"u8", DType::U64},
    {"u4", DType::U32},
    {"u2", DType::U16},
    {"u1", DType::U8},
    {"b1", DType::Bool},
});
// f1 is read, since ml_dtypes lets NumPy write it for f8e5m2, but NumPy does not read it back: V1 is written.
bool is_void(DType dtype) {
  return dtype == DType::BF16 || bits_of(dtype) < 8 || (is_float(dtype) && bits_of(dtype) == 8);
}

// Bytes of one element in the file.
std::size_t width_of(DType dtype) { return static_cast<std::size_t>(std::max(bits_of(dtype) / 8, 1)); }

std::string descr_of(DType dtype) {
  if (is_void(dtype)) return "|V" + std::to_string(width_of(dtype));
  const auto row = std::ranges::find(kNativeTypes, dtype, &NativeType::dtype);
  return (width_of(dtype) == 1 ? "|" : "<") + std::string(row->code);
}

struct FileType {
  DType dtype;
  bool swapped;  // big endian
};

Result<FileType> type_of(const std::string& descr, std::optional<DType> expected) {
  const bool ordered = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::string code = ordered ? descr.substr(1) : descr;
  const bool big_endian = ordered && descr[0] == '>';
  const auto row = std::ranges::find(kNativeTypes, std::string_view(code), &NativeType::code);
  if (row != kNativeTypes.end()) return FileType{row->dtype, big_endian && width_of(row->dtype) > 1};

  if (code == "V1" || code == "V2") {
    const std::size_t width = code == "V1" ? 1 : 2;
    if (!expected && width == 2) expected = DType::BF16;
    if (expected && is_void(*expected) && width_of(*expected) == width) return FileType{*expected, false};
    Error error = unsupported("raw .npy data of type '" + descr + "'" +
                              (expected ? " where " + std::string(name_of(*expected)) + " is needed" : ""))
                      .value();
    return failure(std::move(error).with_hint(
        "the file does not name its type; it is known where a model's input says it"));
  }
  if (code.starts_with('O')) {
    return unsupported(".npy arrays of Python objects: they hold pickles, which are never read");
  }
  return unsupported(".npy data of type '" + descr + "'");
}

// Elements of `source` (one per `width` bytes, in Fortran order when asked) into row-major order.
void copy_in_order(std::span<const std::byte> source, std::span<std::byte> target, std::size_t width,
                   const Dims& shape, bool fortran_order) {
  if (!fortran_order) {
    std::memcpy(target.data(), source.data(), source.size());
    return;
  }
  // Walk the target in order, keeping the source's offset: the first axis of Fortran order is the fastest.
  Dims index(shape.size(), 0), stride(shape.size(), 1);
  for (std::size_t axis = 1; axis < shape.size(); ++axis) stride[axis] = stride[axis - 1] * shape[axis - 1];
  std::size_t offset = 0;
  for (std::size_t at = 0; at < target.size(); at += width) {
    std::memcpy(target.subspan(at, width).data(), source.subspan(offset * width, width).data(), width);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      offset += static_cast<std::size_t>(stride[axis]);
      if (++index[axis] < shape[axis]) break;
      offset -= static_cast<std::size_t>(stride[axis] * shape[axis]);
      index[axis] = 0;
    }
  }
}

void swap_bytes(std::span<std::byte> bytes, std::size_t width) {
  for (std::size_t at = 0; at < bytes.size(); at += width) std::ranges::reverse(bytes.subspan(at, width));
}

// One element per byte into our packed form; bits above the element's are ignored, as ml_dtypes does.
void pack(std::span<const std::byte> codes, std::span<std::byte> target, int bits) {
  const auto mask = static_cast<std::byte>((1u << bits) - 1);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t bit = i * static_cast<std::size_t>(bits);
    target[bit / 8] |= (codes[i] & mask) << (bit % 8);
  }
}

std::vector<std::byte> unpacked(const Tensor& tensor) {
  const auto bits = static_cast<std::size_t>(bits_of(tensor.dtype()));
  const auto mask = static_cast<std::byte>((1u << bits) - 1);
  std::vector<std::byte> codes(static_cast<std::size_t>(tensor.count()));
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = (tensor.bytes()[i * bits / 8] >> (i * bits % 8)) & mask;
  }
  return codes;
}

bool is_clean_bool(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte <= std::byte{1}; });
}

Result<Tensor> converted(const NpyHeader& header, FileType type, std::span<const std::byte> data,
                         const NpyOptions& options) {
  const bool packed = bits_of(type.dtype) < 8;
  // A packed type is put in order as bytes first.
  XYNTRA_TRY(Tensor ordered, Tensor::allocate(packed ? DType::U8 : type.dtype, header.shape, options.budget));
  copy_in_order(data, ordered.mutable_bytes(), width_of(type.dtype), header.shape, header.fortran_order);
  if (type.swapped) swap_bytes(ordered.mutable_bytes(), width_of(type.dtype));
  if (is_bool(type.dtype)) {
    for (std::byte& byte : ordered.mutable_bytes()) byte = static_cast<std::byte>(byte != std::byte{0});
  }
  if (!packed) return ordered;
  XYNTRA_TRY(Tensor tensor, Tensor::allocate(type.dtype, header.shape, options.budget));
  pack(ordered.bytes(), tensor.mutable_bytes(), bits_of(type.dtype));
  return tensor;
}

}  // namespace

Result<Tensor> read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                        const NpyOptions& options) {
  XYNTRA_TRY(const NpyHeader header, parse_npy_header(bytes));
  if (const auto text = npy_text(header.descr))
    return read_npy_strings(header, *text, bytes.subspan(header.data_offset), options.budget);
  XYNTRA_TRY(const FileType type, type_of(header.descr, options.expected));
  XYNTRA_TRY(const std::int64_t count, element_count(header.shape));
  const std::span<const std::byte> data = bytes.subspan(header.data_offset);
  const std::int64_t needed = count * static_cast<std::int64_t>(width_of(type.dtype));
  if (std::cmp_not_equal(data.size(), needed)) {
    return bad_model("the .npy header asks for " + std::to_string(needed) +
                     " bytes of elements, but there are " + std::to_string(data.size()));
  }
  const bool as_it_is =
      !type.swapped && bits_of(type.dtype) >= 8 && (!header.fortran_order || header.shape.size() <= 1) &&
      is_aligned(data.data(), width_of(type.dtype)) && (!is_bool(type.dtype) || is_clean_bool(data));
  if (as_it_is) return Tensor::borrow(type.dtype, header.shape, data, std::move(owner));
  return converted(header, type, data, options);
}

Result<Tensor> read_npy_file(const std::string& path, const NpyOptions& options) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  auto tensor = read_npy(file->bytes(), file, options);
  if (!tensor) return failure(std::move(tensor).error().in_file(path));
  return tensor;
}

std::string npy_bytes(const Tensor& tensor) {
  const auto append = [](std::string& text, std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::string text = write_npy_header(descr_of(tensor.dtype()), tensor.dims());
  append(text, bits_of(tensor.dtype()) < 8 ? std::span<const std::byte>(unpacked(tensor)) : tensor.bytes());
  return text;
}

Status write_npy_file(const std::string& path, const Tensor& tensor) {
  if (is_string(tensor.dtype())) {
    XYNTRA_TRY(const std::string file, npy_bytes_of_strings(tensor));
    return write_file_atomically(path, file);
  }
  const std::string header = write_npy_header(descr_of(tensor.dtype()), tensor.dims());
  const auto codes = bits_of(tensor.dtype()) < 8 ? unpacked(tensor) : std::vector<std::byte>();
  const std::array<std::span<const std::byte>, 2> parts = {
      std::as_bytes(std::span(header)), codes.empty() ? tensor.bytes() : std::span<const std::byte>(codes)};
  return write_file_atomically(path, parts);
}

}  // namespace xyntra
