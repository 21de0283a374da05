// sin, cos, tan, exact in their reduction for every finite argument.
//
// |x| = M 2^e with an integer M. The quarter turns in |x| are M * (2^e * 2/pi); only their value modulo 4 counts,
// so of the binary digits of 2/pi all those are dropped whose product with M 2^e is a multiple of 4. What is left
// is multiplied as integers: M (one word) times three words of 2/pi gives two words, two bits of which are the
// quadrant and the others the signed rest in [-1/2, 1/2) quarter turns. No float comes closer to a multiple of a
// quarter turn than 2^-30 (f32) or 2^-62 (f64), so the words hold the rest to full precision.
#include <algorithm>
#include <cmath>

#include "te/math/math_parts.h"

namespace xyntra::te::math {
namespace {

constexpr double kSinSingle[] = {-0x1.555556p-3, 0x1.111174p-7, -0x1.a05956p-13, 0x1.7c2d54p-19};
constexpr double kSinDouble[] = {-0x1.5555555555555p-3, 0x1.1111111111069p-7,   -0x1.a01a019ffe51ep-13,
                                 0x1.71de3a33a4a58p-19, -0x1.ae642c500847ep-26, 0x1.6109bc1893d3ep-33,
                                 -0x1.9ffca92446f49p-41};
constexpr Polynomial kSin{kSinSingle, kSinDouble};

constexpr double kCosSingle[] = {0x1.555556p-5, -0x1.6c175ep-10, 0x1.a071c4p-16, -0x1.361b2cp-22};
constexpr double kCosDouble[] = {0x1.5555555555555p-5,   -0x1.6c16c16c16b3p-10, 0x1.a01a019ffcb74p-16,
                                 -0x1.27e4fb5a1ec71p-22, 0x1.1eed6f7dd96ep-29,  -0x1.93744f347b0b7p-37,
                                 0x1.9dac499bf940ep-45};
constexpr Polynomial kCos{kCosSingle, kCosDouble};

// The binary digits of 2/pi after the point.
constexpr std::uint64_t kTwoOverPi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

// One word of zeros (for arguments so small that the digits start before the point), then the digits.
std::vector<Expr> digits_of_two_over_pi(const Format& format) {
  std::vector<Expr> words{Expr::integer(format.word, 0)};
  for (std::uint64_t digits : kTwoOverPi) {
    if (!format.is_single()) words.push_back(Expr::integer(format.word, static_cast<std::int64_t>(digits)));
    if (!format.is_single() || words.size() > 7) continue;
    words.push_back(Expr::integer(format.word, static_cast<std::int64_t>(digits >> 32)));
    words.push_back(Expr::integer(format.word, static_cast<std::int64_t>(digits & 0xffffffff)));
  }
  return words;
}

// Words position..position + 3, as a shifter: by 16, 8, … words where the position has that bit.
std::vector<Expr> words_at(std::vector<Expr> words, const Expr& position, std::size_t largest_shift) {
  constexpr std::size_t kWanted = 4;
  for (std::size_t shift = largest_shift; shift > 0; shift /= 2) {
    Expr shifted = not_equal(position & static_cast<double>(shift), 0);
    std::vector<Expr> kept;
    for (std::size_t i = 0; i < std::min(words.size(), kWanted + shift - 1); ++i) {
      Expr other = i + shift < words.size() ? words[i + shift] : number(words[i], 0);
      kept.push_back(select(shifted, other, words[i]));
    }
    words = std::move(kept);
  }
  return words;
}

// The high word of a product, from products of half words.
Expr multiply_high(const Expr& a, const Expr& b) {
  int half = format_of(a).width / 2;
  Expr mask = Expr::integer(a.dtype(), (std::int64_t{1} << half) - 1);
  Expr a_low = a & mask, a_high = a >> half;
  Expr b_low = b & mask, b_high = b >> half;
  Expr middle = a_high * b_low + ((a_low * b_low) >> half);
  Expr carry = a_low * b_high + (middle & mask);
  return a_high * b_high + (middle >> half) + (carry >> half);
}

struct Angle {
  Expr quadrant;  // a word; its low two bits count
  Pair rest;  // radians, |rest| <= pi/4
};

// The signed fixed-point fraction high:low of a quarter turn, in radians. Three pieces convert exactly.
Pair radians_of(const Expr& high, const Expr& low) {
  const Format& format = format_of(high);
  int digits = format.fraction_bits + 1;
  int excess = format.width - digits;  // bits of `high` that the first piece leaves
  int taken = digits - excess;  // bits of `low` that the second piece takes
  auto as_number = [&](const Expr& word) { return cast(format.real, bitcast(format.integer, word)); };
  auto two_to = [](int exponent) { return std::ldexp(1.0, exponent); };
  Expr mask = Expr::integer(format.word, (std::int64_t{1} << excess) - 1);
  Expr rest_mask = Expr::integer(format.word, (std::int64_t{1} << (format.width - taken)) - 1);
  Expr first = cast(format.real, bitcast(format.integer, high) >> excess) * two_to(-digits);
  Expr second = as_number(((high & mask) << taken) | (low >> (format.width - taken))) * two_to(-2 * digits);
  Expr third = as_number(low & rest_mask) * two_to(-2 * format.width);
  Pair turns = quick_sum(first, second);
  return product(normalized({turns.high, turns.low + third}), number(first, kHalfPi));
}

Angle reduce(const Expr& a) {
  const Format& format = format_of(a);
  Expr bits = as_word(a);
  Expr implicit_one = Expr::integer(format.word, std::int64_t{1} << format.fraction_bits);
  Expr mantissa = (bits & (implicit_one - 1)) | implicit_one;
  // The digit of weight 2^(1-e), which M 2^e turns into 2, is the first one wanted.
  Expr biased = as_integer(a) >> format.fraction_bits;
  Expr position = max(biased - (format.bias + format.fraction_bits - format.width + 2), number(biased, 0));
  position = bitcast(format.word, position);

  std::size_t largest_shift = format.is_single() ? 4 : 16;
  Expr word_position = position >> (format.is_single() ? 5 : 6);
  std::vector<Expr> words = words_at(digits_of_two_over_pi(format), word_position, largest_shift);
  Expr shift_mask = Expr::integer(format.word, format.width - 1);
  Expr shift = position & shift_mask;
  Expr opposite_shift = ~position & shift_mask;  // width - 1 - shift
  auto aligned = [&](std::size_t i) { return (words[i] << shift) | ((words[i + 1] >> 1) >> opposite_shift); };

  Expr high_digits = aligned(0), middle_digits = aligned(1), low_digits = aligned(2);
  Expr carry_in = multiply_high(mantissa, low_digits);
  Expr low = mantissa * middle_digits + carry_in;
  Expr carry = select(low < carry_in, Expr::integer(format.word, 1), Expr::integer(format.word, 0));
  Expr high = mantissa * high_digits + multiply_high(mantissa, middle_digits) + carry;

  Expr quadrant = (high >> (format.width - 2)) + ((high >> (format.width - 3)) & 1.0);
  Expr fraction = (high << 2) | (low >> (format.width - 2));
  Pair rest = radians_of(fraction, low << 2);
  Expr small = a < 0.78515625;  // less than pi/4: nothing to reduce
  return {select(small, number(quadrant, 0), quadrant), select(small, {a, number(a, 0)}, rest)};
}

Pair sin_of(const Pair& rest) {
  const Expr& r = rest.high;
  Expr square = r * r;
  Expr from_low = fma(square * -0.5, rest.low, rest.low);
  return {r, fma(r * square, polynomial(square, kSin), from_low)};
}

Pair cos_of(const Pair& rest) {
  const Expr& r = rest.high;
  Expr square = r * r;
  Expr square_error = fma(r, r, -square);
  Pair head = quick_sum(number(r, 1), square * -0.5);
  Expr tail = fma(square * square, polynomial(square, kCos), fma(-r, rest.low, square_error * -0.5));
  return {head.high, head.low + tail};
}

// Bit 1 of the quadrant as a sign bit.
Expr sign_of_quadrant(const Expr& quadrant) {
  int width = format_of(quadrant).width;
  return (quadrant >> 1) << (width - 1);
}

Expr is_odd(const Expr& quadrant) { return not_equal(quadrant & 1.0, 0); }

Expr finite_only(const Expr& x, const Expr& result) {
  return select(abs(x) < infinity(x), result, not_a_number(x));
}

}  // namespace

Expr define_sin(const Expr& x) {
  Angle angle = reduce(abs(x));
  Expr value = value_of(select(is_odd(angle.quadrant), cos_of(angle.rest), sin_of(angle.rest)));
  return finite_only(x, flip_sign(value, sign_of_quadrant(angle.quadrant) ^ sign_of(x)));
}

Expr define_cos(const Expr& x) {
  Angle angle = reduce(abs(x));
  Expr quadrant = angle.quadrant + 1;
  Expr value = value_of(select(is_odd(quadrant), cos_of(angle.rest), sin_of(angle.rest)));
  return finite_only(x, flip_sign(value, sign_of_quadrant(quadrant)));
}

// sin / cos, or -cos / sin in odd quadrants.
Expr define_tan(const Expr& x) {
  Angle angle = reduce(abs(x));
  Expr odd = is_odd(angle.quadrant);
  Pair sine = normalized(sin_of(angle.rest));
  Pair cosine = normalized(cos_of(angle.rest));
  Expr value = value_of(quotient(select(odd, cosine, sine), select(odd, {-sine.high, -sine.low}, cosine)));
  return finite_only(x, flip_sign(value, sign_of(x)));
}

}  // namespace xyntra::te::math
