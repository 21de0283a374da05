#include "types/tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "support/copy_bytes.h"
#include "support/hash/sha256.h"
#include "support/hash/sha256_pieces.h"
#include "support/memory.h"
#include "support/text/text.h"
#include "types/float_formats.h"
#include "types/string_tensor.h"

namespace xyntra {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors hold little-endian elements");

constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
// Alignment, the heap's header, the handle: what a tensor takes however few elements it has. Counted, so
// that a million scalars cannot hide from a budget.
constexpr std::int64_t kOverheadBytes = 256;

std::string shown(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(dims[i]);
  return text + "]";
}

template <class T>
T load(std::span<const std::byte> bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes.subspan(static_cast<std::size_t>(index) * sizeof(T), sizeof(T)).data(),
              sizeof(T));
  return value;
}

template <class T>
void store(std::span<std::byte> bytes, std::int64_t index, T value) {
  std::memcpy(bytes.subspan(static_cast<std::size_t>(index) * sizeof(T), sizeof(T)).data(), &value,
              sizeof(T));
}

// Where the element of a packed type stands.
struct PackedPlace {
  std::size_t byte;
  int shift;
  unsigned mask;
};

PackedPlace place_of(DType dtype, std::int64_t index) {
  const int bits = bits_of(dtype);
  const std::int64_t bit = index * bits;
  return {static_cast<std::size_t>(bit / 8), static_cast<int>(bit % 8), (1u << bits) - 1};
}

unsigned load_packed(DType dtype, std::span<const std::byte> bytes, std::int64_t index) {
  const PackedPlace place = place_of(dtype, index);
  return std::to_integer<unsigned>(bytes[place.byte]) >> place.shift & place.mask;
}

void store_packed(DType dtype, std::span<std::byte> bytes, std::int64_t index, std::uint64_t value) {
  const PackedPlace place = place_of(dtype, index);
  const auto old = std::to_integer<unsigned>(bytes[place.byte]);
  const auto code = static_cast<unsigned>(value) & place.mask;
  bytes[place.byte] = static_cast<std::byte>((old & ~(place.mask << place.shift)) | code << place.shift);
}

// The element of an integer or bool tensor as 64 bits: sign-extended for signed types.
std::uint64_t load_integer(DType dtype, std::span<const std::byte> bytes, std::int64_t index) {
  const auto extended = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  switch (dtype) {
    case DType::I64:
    case DType::U64: return load<std::uint64_t>(bytes, index);
    case DType::I32: return extended(load<std::int32_t>(bytes, index));
    case DType::I16: return extended(load<std::int16_t>(bytes, index));
    case DType::I8: return extended(load<std::int8_t>(bytes, index));
    case DType::U32: return load<std::uint32_t>(bytes, index);
    case DType::U16: return load<std::uint16_t>(bytes, index);
    case DType::U8: return load<std::uint8_t>(bytes, index);
    case DType::Bool: return load<std::uint8_t>(bytes, index) != 0 ? 1 : 0;
    case DType::U4:
    case DType::U2: return load_packed(dtype, bytes, index);
    case DType::I4:
    case DType::I2: {
      const int unused = 64 - bits_of(dtype);
      const std::uint64_t code = load_packed(dtype, bytes, index);
      return extended(static_cast<std::int64_t>(code << unused) >> unused);
    }
    default: internal_error("load_integer: not an integer dtype");
  }
}

// Higher bits are discarded, as two's complement arithmetic has it.
void store_integer(DType dtype, std::span<std::byte> bytes, std::int64_t index, std::uint64_t value) {
  if (is_bool(dtype)) return store<std::uint8_t>(bytes, index, value != 0 ? 1 : 0);
  switch (bits_of(dtype)) {
    case 64: return store<std::uint64_t>(bytes, index, value);
    case 32: return store(bytes, index, static_cast<std::uint32_t>(value));
    case 16: return store(bytes, index, static_cast<std::uint16_t>(value));
    case 8: return store(bytes, index, static_cast<std::uint8_t>(value));
    default: return store_packed(dtype, bytes, index, value);
  }
}

double load_float(DType dtype, std::span<const std::byte> bytes, std::int64_t index) {
  switch (dtype) {
    case DType::F64: return load<double>(bytes, index);
    case DType::F32: return load<float>(bytes, index);
    case DType::F16: return f16_to_f32(load<std::uint16_t>(bytes, index));
    case DType::BF16: return bf16_to_f32(load<std::uint16_t>(bytes, index));
    case DType::F4E2M1:
      return small_float_to_f32(dtype, static_cast<std::uint8_t>(load_packed(dtype, bytes, index)));
    default: return small_float_to_f32(dtype, load<std::uint8_t>(bytes, index));
  }
}

void store_float(DType dtype, std::span<std::byte> bytes, std::int64_t index, double value) {
  switch (dtype) {
    case DType::F64: return store(bytes, index, value);
    case DType::F32: return store(bytes, index, static_cast<float>(value));
    case DType::F16: return store(bytes, index, f64_to_f16(value));
    case DType::BF16: return store(bytes, index, f64_to_bf16(value));
    case DType::F4E2M1: return store_packed(dtype, bytes, index, f64_to_small_float(dtype, value, true));
    default: return store(bytes, index, f64_to_small_float(dtype, value, true));
  }
}

std::int64_t truncated(double value) {
  if (!(value == value)) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  if (value < -0x1p63) return INT64_MIN;
  return static_cast<std::int64_t>(value);
}

// Towards zero, and to the nearest end of the range where it does not fit; NaN is 0.
std::uint64_t clamped_integer(DType dtype, double value) {
  if (!(value == value)) return 0;
  const auto lowest = static_cast<double>(lowest_integer(dtype));
  if (value <= lowest) return static_cast<std::uint64_t>(lowest_integer(dtype));
  // For 64 bits the highest value rounds up to a power of two as a double, hence >=.
  if (value >= static_cast<double>(highest_integer(dtype))) return highest_integer(dtype);
  return value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value))
                   : static_cast<std::uint64_t>(value);
}

}  // namespace

Result<std::int64_t> element_count(std::span<const std::int64_t> dims) {
  bool empty = false;
  for (std::int64_t dim : dims) {
    if (dim < 0) return bad_model("negative dimension in " + shown(dims));
    empty = empty || dim == 0;
  }
  // An empty tensor has strides too: its other dimensions obey the same limit.
  std::int64_t count = 1;
  for (std::int64_t dim : dims) {
    if (dim == 0) continue;
    if (dim > kMostElements / count) return limit_error("more than 2^48 elements in " + shown(dims));
    count *= dim;
  }
  return empty ? 0 : count;
}

Result<std::int64_t> byte_size(DType dtype, std::span<const std::int64_t> dims) {
  XYNTRA_TRY(const std::int64_t count, element_count(dims));
  return (count * bits_of(dtype) + 7) / 8;
}

Result<Tensor> Tensor::allocate(DType dtype, Dims dims, const std::shared_ptr<Budget>& budget) {
  XYNTRA_TRY(const std::int64_t bytes, byte_size(dtype, dims));
  return allocate_bytes(dtype, std::move(dims), bytes, budget);
}

Result<Tensor> Tensor::allocate_bytes(DType dtype, Dims dims, std::int64_t bytes,
                                      const std::shared_ptr<Budget>& budget) {
  const std::int64_t charged = bytes + kOverheadBytes;
  if (budget) XYNTRA_CHECK_OK(budget->charge(charged));
  std::shared_ptr<std::byte> memory = allocate_zeroed(static_cast<std::size_t>(bytes));
  if (!memory) {
    if (budget) budget->release(charged);
    return limit_error("the system has no memory for " + std::string(name_of(dtype)) + shown(dims));
  }
  Tensor tensor;
  tensor.defined_ = true;
  tensor.dtype_ = dtype;
  tensor.count_ = element_count(dims).value();
  tensor.dims_ = std::move(dims);
  tensor.data_ = memory.get();
  tensor.size_ = static_cast<std::size_t>(bytes);
  tensor.writable_ = true;
  if (budget) {
    // The memory goes back before the charge is lifted, so that the budget never understates.
    tensor.owner_ = std::shared_ptr<const void>(memory.get(), [memory, budget, charged](const void*) mutable {
      memory.reset();
      budget->release(charged);
    });
  } else {
    tensor.owner_ = std::move(memory);
  }
  return tensor;
}

Result<Tensor> Tensor::borrow(DType dtype, Dims dims, std::span<const std::byte> bytes,
                              std::shared_ptr<const void> owner) {
  XYNTRA_TRY(const std::int64_t expected, byte_size(dtype, dims));
  if (is_string(dtype)) XYNTRA_CHECK_OK(check_strings(dims, bytes));
  if (!is_string(dtype) && std::cmp_not_equal(bytes.size(), expected)) {
    return bad_model(std::string(name_of(dtype)) + shown(dims) + " takes " + std::to_string(expected) +
                     " bytes, but there are " + std::to_string(bytes.size()));
  }
  Tensor tensor;
  tensor.defined_ = true;
  tensor.dtype_ = dtype;
  tensor.count_ = element_count(dims).value();
  tensor.dims_ = std::move(dims);
  tensor.data_ = bytes.data();
  tensor.size_ = bytes.size();
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::of_integers(std::span<const std::int64_t> elements) {
  return from<std::int64_t>(DType::I64, {static_cast<std::int64_t>(elements.size())}, elements);
}

Tensor Tensor::scalar_i64(std::int64_t value) {
  return from<std::int64_t>(DType::I64, {}, std::span<const std::int64_t>(&value, 1));
}

Tensor Tensor::scalar_f32(float value) {
  return from<float>(DType::F32, {}, std::span<const float>(&value, 1));
}

std::span<std::byte> Tensor::mutable_bytes() {
  require(writable_, "Tensor: borrowed bytes are not writable");
  return {const_cast<std::byte*>(data_), size_};
}

double Tensor::element_as_f64(std::int64_t index) const {
  require(index >= 0 && index < count_, "Tensor: element index out of range");
  if (is_float(dtype_)) return load_float(dtype_, bytes(), index);
  const std::uint64_t value = load_integer(dtype_, bytes(), index);
  return is_signed_integer(dtype_) ? static_cast<double>(static_cast<std::int64_t>(value))
                                   : static_cast<double>(value);
}

std::int64_t Tensor::element_as_i64(std::int64_t index) const {
  require(index >= 0 && index < count_, "Tensor: element index out of range");
  if (is_float(dtype_)) return truncated(load_float(dtype_, bytes(), index));
  return static_cast<std::int64_t>(load_integer(dtype_, bytes(), index));
}

void Tensor::set_element_f64(std::int64_t index, double value) {
  require(index >= 0 && index < count_, "Tensor: element index out of range");
  if (is_float(dtype_)) return store_float(dtype_, mutable_bytes(), index, value);
  const std::uint64_t integer = is_bool(dtype_) ? (value != 0 ? 1 : 0) : clamped_integer(dtype_, value);
  store_integer(dtype_, mutable_bytes(), index, integer);
}

void Tensor::set_element_i64(std::int64_t index, std::int64_t value) {
  require(index >= 0 && index < count_, "Tensor: element index out of range");
  if (is_float(dtype_)) return store_float(dtype_, mutable_bytes(), index, static_cast<double>(value));
  store_integer(dtype_, mutable_bytes(), index, static_cast<std::uint64_t>(value));
}

std::vector<std::int64_t> Tensor::to_integers() const {
  std::vector<std::int64_t> elements;
  elements.reserve(static_cast<std::size_t>(count_));
  for (std::int64_t i = 0; i < count_; ++i) elements.push_back(element_as_i64(i));
  return elements;
}

Result<Tensor> Tensor::reshaped(Dims dims) const {
  XYNTRA_TRY(const std::int64_t count, element_count(dims));
  if (count != count_) return usage_error(shown(dims_) + " cannot be reshaped to " + shown(dims));
  Tensor tensor = *this;
  tensor.dims_ = std::move(dims);
  return tensor;
}

Tensor Tensor::aligned() const {
  const auto natural = static_cast<std::size_t>(std::max(bits_of(dtype_) / 8, 1));
  if (!defined_ || is_aligned(data_, natural)) return *this;
  auto copy = copied();
  if (!copy) internal_error("Tensor::aligned: " + copy.error().message);
  return std::move(*copy);
}

Result<Tensor> Tensor::copied(const std::shared_ptr<Budget>& budget) const {
  XYNTRA_TRY(Tensor copy, allocate_bytes(dtype_, dims_, static_cast<std::int64_t>(size_), budget));
  copy_bytes(bytes(), copy.mutable_bytes());
  return copy;
}

Result<Tensor> Tensor::of_strings(Dims dims, std::span<const std::string_view> elements,
                                  const std::shared_ptr<Budget>& budget) {
  XYNTRA_TRY(const std::int64_t ends, byte_size(DType::String, dims));
  require(std::cmp_equal(elements.size(), element_count(dims).value()),
          "Tensor: as many strings as elements");
  std::int64_t text = 0;
  for (std::string_view element : elements) {
    if (!is_utf8(element)) return bad_model("a string is not UTF-8");
    text += static_cast<std::int64_t>(element.size());
  }
  XYNTRA_TRY(Tensor tensor, allocate_bytes(DType::String, std::move(dims), ends + text, budget));
  const std::span<std::byte> bytes = tensor.mutable_bytes();
  std::span<std::byte> rest = bytes.subspan(static_cast<std::size_t>(ends));
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    copy_bytes(std::as_bytes(std::span(elements[i])), rest);
    rest = rest.subspan(elements[i].size());
    store(bytes, static_cast<std::int64_t>(i), end += elements[i].size());
  }
  return tensor;
}

std::string_view Tensor::string_at(std::int64_t index) const {
  require(is_string(dtype_) && index >= 0 && index < count_, "Tensor: there is no string of this index");
  return string_in(bytes(), count_, index);
}

namespace {

// The parts of a tensor's content: what comes before its bytes, those that are whole, and the last one where some of its bits
// are unused, which are no content.
void hash_type(Sha256& hash, const Tensor& tensor) {
  hash.update(name_of(tensor.dtype()));
  hash.update_u64(tensor.dims().size());
  for (std::int64_t dim : tensor.dims()) hash.update_u64(static_cast<std::uint64_t>(dim));
}

int unused_bits(const Tensor& tensor) {
  if (is_string(tensor.dtype())) return 0;
  return static_cast<int>(std::ssize(tensor.bytes()) * 8 - tensor.count() * bits_of(tensor.dtype()));
}

// Long tensors are named by the hashes of their pieces.
bool hashes_by_pieces(const Tensor& tensor) { return tensor.bytes().size() > 16 * kHashedPiece; }

std::span<const std::byte> whole_bytes(const Tensor& tensor) {
  const auto bytes = tensor.bytes();
  return bytes.first(unused_bits(tensor) == 0 ? bytes.size() : bytes.size() - 1);
}

std::string finished(Sha256& hash, const Tensor& tensor) {
  if (const int unused = unused_bits(tensor); unused != 0) {
    const std::byte last = tensor.bytes().back() & static_cast<std::byte>(0xff >> unused);
    hash.update(std::span(&last, 1));
  }
  return to_hex(hash.finish());
}

}  // namespace

std::string Tensor::content_hash() const { return content_hash(Budget()).value(); }

Result<std::string> Tensor::content_hash(const Budget& budget) const {
  constexpr std::size_t kAtOnce = 16 * kHashedPiece;
  Sha256 hash;
  hash_type(hash, *this);
  const auto whole = whole_bytes(*this);
  if (!hashes_by_pieces(*this)) {
    hash.update(whole);
    return finished(hash, *this);
  }
  for (std::size_t begin = 0; begin < whole.size(); begin += kAtOnce) {
    XYNTRA_CHECK_OK(budget.check_time());
    hash.update(sha256_of_pieces(whole.subspan(begin, std::min(kAtOnce, whole.size() - begin))));
  }
  return finished(hash, *this);
}

std::pair<std::string, std::string> Tensor::content_hashes(const Tensor& a, const Tensor& b) {
  if (hashes_by_pieces(a) || hashes_by_pieces(b)) return {a.content_hash(), b.content_hash()};
  Sha256 of_a, of_b;
  hash_type(of_a, a);
  hash_type(of_b, b);
  Sha256::update_two(of_a, whole_bytes(a), of_b, whole_bytes(b));
  std::string first = finished(of_a, a);
  return {std::move(first), finished(of_b, b)};
}

Datum Datum::of(Tensor tensor) {
  Datum datum;
  datum.kind = Kind::Tensor;
  datum.tensor = std::move(tensor);
  return datum;
}

Datum Datum::sequence(std::vector<Datum> items) {
  Datum datum;
  datum.kind = Kind::Sequence;
  datum.items = std::move(items);
  return datum;
}

Datum Datum::optional(std::vector<Datum> none_or_one) {
  require(none_or_one.size() <= 1, "Datum::optional: more than one item");
  Datum datum;
  datum.kind = Kind::Optional;
  datum.items = std::move(none_or_one);
  return datum;
}

}  // namespace xyntra
