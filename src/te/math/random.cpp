#include "te/math/random.h"

#include <numbers>

namespace xyntra::te {
namespace {

constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;  // Philox 4x32's constants
constexpr std::uint64_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr std::uint64_t kLow32 = 0xFFFFFFFF;

Expr word(std::uint64_t value) { return Expr::integer(DType::U64, static_cast<std::int64_t>(value)); }
Expr low(const Expr& x) { return x & word(kLow32); }
Expr high(const Expr& x) { return x >> 32; }

}  // namespace

RandomWords random_words(std::uint64_t key, const Expr& counter) {
  Expr position = cast(DType::U64, counter);
  RandomWords w{low(position), high(position), word(0), word(0)};
  std::uint64_t key0 = key & kLow32, key1 = key >> 32;
  for (int round = 0; round < 10; ++round) {
    Expr product0 = w[0] * word(kMultiplier0), product1 = w[2] * word(kMultiplier1);
    w = {high(product1) ^ w[1] ^ word(key0), low(product1), high(product0) ^ w[3] ^ word(key1),
         low(product0)};
    key0 = (key0 + kWeyl0) & kLow32;
    key1 = (key1 + kWeyl1) & kLow32;
  }
  return w;
}

namespace {

// [0, 1) from one or two words.
Expr unit(DType dtype, const Expr& first, const Expr& second) {
  if (dtype == DType::F64) {
    Expr bits = ((first >> 5) << 26) | (second >> 6);
    return cast(DType::F64, bits) * 0x1p-53;
  }
  require(dtype == DType::F32, "te: random numbers are made as f32 or f64");
  return cast(DType::F32, first >> 8) * 0x1p-24;
}

}  // namespace

Expr random_uniform(DType dtype, std::uint64_t key, const Expr& counter) {
  RandomWords w = random_words(key, counter);
  return unit(dtype, w[0], w[1]);
}

Expr random_normal(DType dtype, std::uint64_t key, const Expr& counter) {
  RandomWords w = random_words(key, counter);
  Expr radius = sqrt(-2 * log(1 - unit(dtype, w[0], w[1])));  // 1 - u is never zero
  return radius * cos(2 * std::numbers::pi * unit(dtype, w[2], w[3]));
}

std::uint64_t random_key(std::uint64_t seed, std::string_view node) {
  std::uint64_t hash = 0xCBF29CE484222325 ^ seed;  // FNV-1a over the name, then a finaliser
  for (char c : node) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  hash = (hash ^ (hash >> 33)) * 0xFF51AFD7ED558CCD;
  return hash ^ (hash >> 33);
}

Expr linear_index(const Axes& axes) {
  Expr position = Expr::index(0);
  for (const Axis& axis : axes) position = position * Expr::size(axis.extent) + axis.expr();
  return position;
}

}  // namespace xyntra::te
