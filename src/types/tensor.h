// A dense row-major tensor: dtype, dims, and bytes that are owned, or borrowed from something kept alive
// (a mapped model file, a caller's buffer). Strings are tensors too: their bytes are those of types/string_tensor.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/limits/limits.h"
#include "support/result.h"
#include "types/dtype.h"

namespace xyntra {

using Dims = std::vector<std::int64_t>;

// Checked sizes: a Limit error when the product overflows or is beyond 2^48.
Result<std::int64_t> element_count(std::span<const std::int64_t> dims);
// Packed sub-byte types; of strings, what they take when all of them are empty.
Result<std::int64_t> byte_size(DType dtype, std::span<const std::int64_t> dims);

class Tensor {
 public:
  Tensor() = default;  // empty handle: no dtype to speak of; `defined()` is false

  // Zero-filled, 64-byte aligned memory charged to `budget` (may be null) until the last copy dies.
  static Result<Tensor> allocate(DType dtype, Dims dims, const std::shared_ptr<Budget>& budget = nullptr);
  // Bytes owned by someone else; `owner` keeps them alive. Size must match; need not be aligned. Strings are checked: BadModel
  // error where they do not lie one behind the other to the last byte, or one is not UTF-8.
  static Result<Tensor> borrow(DType dtype, Dims dims, std::span<const std::byte> bytes,
                               std::shared_ptr<const void> owner);

  template <class T>
  static Tensor from(DType dtype, Dims dims,
                     std::span<const T> elements);  // copies; tests and small constants
  static Tensor of_integers(std::span<const std::int64_t> elements);  // i64[n]
  static Tensor scalar_i64(std::int64_t value);
  static Tensor scalar_f32(float value);

  // Strings; BadModel error where one is not UTF-8.
  static Result<Tensor> of_strings(Dims dims, std::span<const std::string_view> elements,
                                   const std::shared_ptr<Budget>& budget = nullptr);
  std::string_view string_at(std::int64_t index) const;  // valid as long as the bytes are

  bool defined() const { return defined_; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  std::int64_t rank() const { return static_cast<std::int64_t>(dims_.size()); }
  std::int64_t count() const { return count_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::span<std::byte> mutable_bytes();  // only for tensors made by allocate()

  // Typed views of aligned, byte-or-wider elements; f16/bf16 as uint16_t, bool as uint8_t.
  template <class T>
  std::span<const T> view() const {
    require(reinterpret_cast<std::uintptr_t>(data_) % alignof(T) == 0, "Tensor: misaligned view");
    return {reinterpret_cast<const T*>(data_), size_ / sizeof(T)};
  }
  template <class T>
  std::span<T> mutable_view() {
    return {reinterpret_cast<T*>(mutable_bytes().data()), size_ / sizeof(T)};
  }

  // One element, whatever the dtype; slow, for small tensors, printing and host ops. A float becomes an
  // integer towards zero, clamped to the range, NaN to 0; an integer too wide loses its higher bits.
  double element_as_f64(std::int64_t index) const;
  std::int64_t element_as_i64(std::int64_t index) const;
  void set_element_f64(std::int64_t index, double value);
  void set_element_i64(std::int64_t index, std::int64_t value);
  std::vector<std::int64_t> to_integers() const;  // all elements

  Result<Tensor> reshaped(Dims dims) const;  // shares the bytes
  Tensor aligned() const;  // itself, or a copy when the borrowed bytes are misaligned
  Result<Tensor> copied(const std::shared_ptr<Budget>& budget = nullptr) const;  // in memory of its own

  // SHA-256 of dtype, dims and bytes: equal content, equal hash, on any machine.
  std::string content_hash() const;
  Result<std::string> content_hash(const Budget& budget) const;  // Limit error once its time is over
  // Of two, in less time than one after the other.
  static std::pair<std::string, std::string> content_hashes(const Tensor& a, const Tensor& b);

 private:
  static Result<Tensor> allocate_bytes(DType dtype, Dims dims, std::int64_t bytes,
                                       const std::shared_ptr<Budget>& budget);

  bool defined_ = false;
  DType dtype_ = DType::F32;
  Dims dims_;
  std::int64_t count_ = 0;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool writable_ = false;
  std::shared_ptr<const void> owner_;
};

template <class T>
Tensor Tensor::from(DType dtype, Dims dims, std::span<const T> elements) {
  auto made = allocate(dtype, std::move(dims));
  if (!made) internal_error("Tensor::from: " + made.error().message);
  auto target = made->template mutable_view<T>();
  require(target.size() == elements.size(), "Tensor::from: element count does not match dims");
  for (std::size_t i = 0; i < elements.size(); ++i) target[i] = elements[i];
  return std::move(*made);
}

// What flows along an edge at run time: a tensor, a sequence of data, or an optional that may be empty.
struct Datum {
  enum class Kind : std::uint8_t { Absent, Tensor, Sequence, Optional };
  Kind kind = Kind::Absent;
  Tensor tensor;  // Tensor
  std::vector<Datum> items;  // Sequence: its elements; Optional: none or one
  // The dtype the model gives a tensor that is held wider: set by the float64 oracle alone.
  std::optional<DType> declared;

  static Datum of(Tensor tensor);
  static Datum sequence(std::vector<Datum> items);
  static Datum optional(std::vector<Datum> none_or_one);
};

}  // namespace xyntra
