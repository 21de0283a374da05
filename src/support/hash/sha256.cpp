#include "support/hash/sha256.h"

#include <algorithm>

#include "support/hash/sha256_blocks.h"
#include "support/limits/current_budget.h"

namespace xyntra {
namespace {

void compress(Sha256State& state, std::span<const std::byte> blocks) {
  has_sha256_instructions() ? compress_by_instructions(state, blocks) : compress_portably(state, blocks);
}

constexpr std::size_t kBetweenLooks = 1 << 20;

}  // namespace

void Sha256::fill_pending(std::span<const std::byte>& bytes) {
  if (pending_size_ == 0) return;
  const std::size_t taken = std::min(bytes.size(), pending_.size() - pending_size_);
  std::ranges::copy(bytes.first(taken), std::span(pending_).subspan(pending_size_).begin());
  pending_size_ += taken;
  total_bytes_ += taken;
  bytes = bytes.subspan(taken);
  if (pending_size_ < pending_.size()) return;
  compress(state_, pending_);
  pending_size_ = 0;
}

void Sha256::update(std::span<const std::byte> bytes) {
  fill_pending(bytes);
  if (bytes.empty()) return;
  total_bytes_ += bytes.size();
  while (bytes.size() >= kSha256Block) {
    const std::size_t whole = std::min(bytes.size(), kBetweenLooks) / kSha256Block * kSha256Block;
    compress(state_, bytes.first(whole));
    bytes = bytes.subspan(whole);
    if (whole == kBetweenLooks) poll_limits(1000);
  }
  std::ranges::copy(bytes, pending_.begin());
  pending_size_ = bytes.size();
}

void Sha256::update_two(Sha256& a, std::span<const std::byte> bytes_of_a, Sha256& b,
                        std::span<const std::byte> bytes_of_b) {
  a.fill_pending(bytes_of_a);
  b.fill_pending(bytes_of_b);
  while (has_sha256_instructions()) {
    const std::size_t both = std::min({bytes_of_a.size(), bytes_of_b.size(), kBetweenLooks});
    const std::size_t whole = both / kSha256Block * kSha256Block;
    if (whole == 0) break;
    compress_two_by_instructions(a.state_, bytes_of_a.first(whole), b.state_, bytes_of_b.first(whole));
    a.total_bytes_ += whole;
    b.total_bytes_ += whole;
    bytes_of_a = bytes_of_a.subspan(whole);
    bytes_of_b = bytes_of_b.subspan(whole);
    if (whole == kBetweenLooks) poll_limits(1000);
  }
  a.update(bytes_of_a);
  b.update(bytes_of_b);
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

void Sha256::update_u64(std::uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
  update(bytes);
}

Sha256::Digest Sha256::finish() {
  const std::uint64_t bits = total_bytes_ * 8;
  const std::array<std::byte, 64> padding = {std::byte{0x80}};
  const std::size_t padded = pending_size_ < 56 ? 56 - pending_size_ : 120 - pending_size_;
  update(std::span(padding).first(padded));
  std::array<std::byte, 8> length;
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(bits >> (56 - 8 * i) & 0xff);
  update(length);
  Digest digest;
  for (std::size_t i = 0; i < 32; ++i) {
    digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)) & 0xff);
  }
  return digest;
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (std::byte byte : bytes) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return to_hex(hash.finish());
}

std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

}  // namespace xyntra
