#include "cli/inputs/random_inputs.h"

#include <algorithm>

namespace xyntra {
namespace {

// SplitMix64: a counter in, 64 well-mixed bits out.
std::uint64_t mixed(std::uint64_t counter) {
  std::uint64_t z = counter + 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

std::uint64_t stream_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t stream = mixed(seed);
  for (char c : name) stream = mixed(stream ^ static_cast<unsigned char>(c));
  return stream;
}

// Sum of twelve uniform numbers, less six: normal to the eye, and the same bits everywhere, as libm's log is not.
double normal(std::uint64_t stream, std::uint64_t index) {
  double sum = -6.0;
  for (std::uint64_t i = 0; i < 12; i += 2) {
    const std::uint64_t bits = mixed(stream + index * 6 + i / 2);
    sum += static_cast<double>(bits >> 40) * 0x1p-24 + static_cast<double>((bits >> 8) & 0xffffff) * 0x1p-24;
  }
  return sum;
}

// Short words of a few letters, so that some of them are equal and some are empty.
Result<Tensor> random_strings(const Dims& dims, std::uint64_t stream, const std::shared_ptr<Budget>& budget) {
  constexpr std::uint64_t kLongest = 3, kLetters = 4;
  XYNTRA_TRY(const std::int64_t count, element_count(dims));
  Charge charge(budget);
  XYNTRA_CHECK_OK(
      charge.grow(count * static_cast<std::int64_t>(sizeof(std::string) + sizeof(std::string_view))));
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % 65536 == 0 && budget) XYNTRA_CHECK_OK(budget->check_time());
    std::uint64_t bits = mixed(stream + static_cast<std::uint64_t>(i));
    std::string& word = words.emplace_back();
    for (std::uint64_t left = bits % (kLongest + 1); left > 0; --left)
      word += static_cast<char>('a' + ((bits >>= 8) % kLetters));
  }
  const std::vector<std::string_view> elements(words.begin(), words.end());
  return Tensor::of_strings(dims, elements, budget);
}

}  // namespace

Result<Tensor> random_tensor(DType dtype, const Dims& dims, std::uint64_t seed, std::string_view name,
                             std::optional<std::int64_t> bound, const std::shared_ptr<Budget>& budget) {
  const std::uint64_t stream = stream_of(seed, name);
  if (is_string(dtype)) return random_strings(dims, stream, budget);
  XYNTRA_TRY(Tensor tensor, Tensor::allocate(dtype, dims, budget));
  const bool any_value = !bound && bits_of(dtype) <= 8 && is_integer(dtype);
  const std::uint64_t range = any_value
                                  ? std::uint64_t{1} << bits_of(dtype)
                                  : static_cast<std::uint64_t>(std::max<std::int64_t>(bound.value_or(2), 1));
  const std::int64_t lowest = any_value ? lowest_integer(dtype) : 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (i % 65536 == 0 && budget) XYNTRA_CHECK_OK(budget->check_time());
    const auto index = static_cast<std::uint64_t>(i);
    if (is_float(dtype)) {
      tensor.set_element_f64(i, normal(stream, index));
    } else {
      tensor.set_element_i64(i, lowest + static_cast<std::int64_t>(mixed(stream + index) % range));
    }
  }
  return tensor;
}

}  // namespace xyntra
