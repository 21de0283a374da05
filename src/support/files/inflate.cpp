#include "support/files/inflate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "support/limits/current_budget.h"

namespace xyntra {
namespace {

constexpr std::size_t kMostCodeBits = 15;
constexpr std::size_t kLiteralCodes = 288, kDistanceCodes = 30;
constexpr std::uint16_t kEndOfBlock = 256, kFirstLength = 257;

struct Extra {
  std::uint16_t base;
  std::uint8_t bits;
};
constexpr std::array<Extra, 29> kLengths = {
    {{3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1}, {13, 1},
     {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3}, {59, 3},
     {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}}};
constexpr std::array<Extra, kDistanceCodes> kDistances = {
    {{1, 0},     {2, 0},     {3, 0},     {4, 0},      {5, 1},      {7, 1},     {9, 2},     {13, 2},
     {17, 3},    {25, 3},    {33, 4},    {49, 4},     {65, 5},     {97, 5},    {129, 6},   {193, 6},
     {257, 7},   {385, 7},   {513, 8},   {769, 8},    {1025, 9},   {1537, 9},  {2049, 10}, {3073, 10},
     {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13}}};
// In which order a block says how long the codes of its code lengths are.
constexpr std::array<std::uint8_t, 19> kLengthOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                       11, 4,  12, 3, 13, 2, 14, 1, 15};

// A canonical Huffman code: how many codes there are of each length, and what they stand for, in the order of the codes.
struct Code {
  std::array<std::uint16_t, kMostCodeBits + 1> counts{};
  std::vector<std::uint16_t> symbols;
};

class Inflater {
 public:
  Inflater(std::span<const std::byte> packed, std::size_t size) : packed_(packed), size_(size) {}

  Result<std::string> run() {
    bool last = false;
    while (!last) {
      XYNTRA_TRY(const std::uint32_t final, bits(1));
      XYNTRA_TRY(const std::uint32_t kind, bits(2));
      last = final != 0;
      switch (kind) {
        case 0: XYNTRA_CHECK_OK(stored_block()); break;
        case 1: XYNTRA_CHECK_OK(compressed_block(fixed_literals(), fixed_distances())); break;
        case 2: XYNTRA_CHECK_OK(dynamic_block()); break;
        default: return damaged();
      }
    }
    if (out_.size() != size_ || at_ != packed_.size()) return damaged();
    return std::move(out_);
  }

 private:
  static tl::unexpected<Error> damaged() { return bad_model("its compressed bytes are damaged"); }

  Result<std::uint32_t> bits(std::size_t count) {
    while (held_bits_ < count) {
      if (at_ == packed_.size()) return damaged();
      held_ |= std::to_integer<std::uint32_t>(packed_[at_++]) << held_bits_;
      held_bits_ += 8;
    }
    const std::uint32_t value = held_ & ((1U << count) - 1);
    held_ >>= count;
    held_bits_ -= count;
    return value;
  }

  static Result<Code> code_of(std::span<const std::uint8_t> lengths) {
    Code code;
    for (const std::uint8_t length : lengths) ++code.counts[length];
    code.counts[0] = 0;
    int left = 1;  // codes that are still free, which may not become fewer than none
    for (std::size_t length = 1; length <= kMostCodeBits; ++length) {
      left = 2 * left - code.counts[length];
      if (left < 0) return damaged();
    }
    std::array<std::uint16_t, kMostCodeBits + 2> next{};
    for (std::size_t length = 1; length <= kMostCodeBits; ++length)
      next[length + 1] = static_cast<std::uint16_t>(next[length] + code.counts[length]);
    code.symbols.resize(lengths.size());
    for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      if (lengths[symbol] != 0) code.symbols[next[lengths[symbol]]++] = static_cast<std::uint16_t>(symbol);
    }
    return code;
  }

  Result<std::uint16_t> symbol(const Code& code) {
    std::uint32_t value = 0, first = 0, index = 0;
    for (std::size_t length = 1; length <= kMostCodeBits; ++length) {
      XYNTRA_TRY(const std::uint32_t bit, bits(1));
      value |= bit;
      const std::uint32_t count = code.counts[length];
      if (value < first + count) return code.symbols[index + (value - first)];
      index += count;
      first = (first + count) << 1;
      value <<= 1;
    }
    return damaged();
  }

  Status stored_block() {
    held_ = 0;
    held_bits_ = 0;
    if (packed_.size() - at_ < 4) return damaged();
    const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(packed_[at_ + i]); };
    const std::uint32_t length = byte(0) | byte(1) << 8, complement = byte(2) | byte(3) << 8;
    at_ += 4;
    if ((length ^ complement) != 0xffff || length > packed_.size() - at_ || length > size_ - out_.size())
      return damaged();
    const auto part = packed_.subspan(at_, length);
    out_.append(reinterpret_cast<const char*>(part.data()), part.size());
    at_ += length;
    return {};
  }

  static const Code& fixed_literals() {
    static const Code kCode = [] {
      std::array<std::uint8_t, kLiteralCodes> lengths{};
      for (std::size_t i = 0; i < lengths.size(); ++i)
        lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
      return *code_of(lengths);
    }();
    return kCode;
  }
  static const Code& fixed_distances() {
    static const Code kCode = [] {
      std::array<std::uint8_t, kDistanceCodes> lengths{};
      lengths.fill(5);
      return *code_of(lengths);
    }();
    return kCode;
  }

  Status dynamic_block() {
    XYNTRA_TRY(const std::size_t literals, bits(5));
    XYNTRA_TRY(const std::size_t distances, bits(5));
    XYNTRA_TRY(const std::size_t orders, bits(4));
    const std::size_t literal_count = literals + 257, distance_count = distances + 1;
    if (literal_count > kLiteralCodes - 2 || distance_count > kDistanceCodes) return damaged();
    std::array<std::uint8_t, kLengthOrder.size()> order_lengths{};
    for (std::size_t i = 0; i < orders + 4; ++i) {
      XYNTRA_TRY(const std::uint32_t length, bits(3));
      order_lengths[kLengthOrder[i]] = static_cast<std::uint8_t>(length);
    }
    XYNTRA_TRY(const Code order, code_of(order_lengths));
    std::vector<std::uint8_t> lengths;
    while (lengths.size() < literal_count + distance_count) {
      XYNTRA_TRY(const std::uint16_t one, symbol(order));
      if (one < 16) {
        lengths.push_back(static_cast<std::uint8_t>(one));
        continue;
      }
      if (one == 16 && lengths.empty()) return damaged();
      const std::uint8_t repeated = one == 16 ? lengths.back() : std::uint8_t{0};
      XYNTRA_TRY(const std::uint32_t more, bits(one == 16 ? 2 : one == 17 ? 3 : 7));
      lengths.insert(lengths.end(), more + (one == 18 ? 11 : 3), repeated);
    }
    if (lengths.size() != literal_count + distance_count || lengths[kEndOfBlock] == 0) return damaged();
    const std::span<const std::uint8_t> all(lengths);
    XYNTRA_TRY(const Code literal_code, code_of(all.first(literal_count)));
    XYNTRA_TRY(const Code distance_code, code_of(all.subspan(literal_count)));
    return compressed_block(literal_code, distance_code);
  }

  Status compressed_block(const Code& literals, const Code& distances) {
    while (true) {
      poll_limits();
      XYNTRA_TRY(const std::uint16_t one, symbol(literals));
      if (one == kEndOfBlock) return {};
      if (one < kEndOfBlock) {
        if (out_.size() == size_) return damaged();
        out_ += static_cast<char>(one);
        continue;
      }
      if (one - kFirstLength >= static_cast<int>(kLengths.size())) return damaged();
      const Extra& length_extra = kLengths[one - kFirstLength];
      XYNTRA_TRY(const std::uint32_t longer, bits(length_extra.bits));
      XYNTRA_TRY(const std::uint16_t way, symbol(distances));
      if (way >= kDistances.size()) return damaged();
      XYNTRA_TRY(const std::uint32_t further, bits(kDistances[way].bits));
      const std::size_t length = length_extra.base + longer, distance = kDistances[way].base + further;
      if (distance > out_.size() || length > size_ - out_.size()) return damaged();
      for (std::size_t i = 0; i < length; ++i) out_ += out_[out_.size() - distance];
    }
  }

  std::span<const std::byte> packed_;
  std::size_t size_;
  std::size_t at_ = 0;
  std::uint32_t held_ = 0;
  std::size_t held_bits_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> inflate(std::span<const std::byte> packed, std::size_t size) {
  return Inflater(packed, size).run();
}

}  // namespace xyntra
