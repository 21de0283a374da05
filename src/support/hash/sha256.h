// SHA-256 (FIPS 180-4): names of content in caches, lockfiles and outputs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace xyntra {

class Sha256 {
 public:
  using Digest = std::array<std::byte, 32>;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  void update_u64(std::uint64_t value);  // eight bytes, least significant first, on any machine
  Digest finish();                       // once; the object is used up

  // a.update(bytes_of_a) and b.update(bytes_of_b), in less time where both are long.
  static void update_two(Sha256& a, std::span<const std::byte> bytes_of_a, Sha256& b,
                         std::span<const std::byte> bytes_of_b);

 private:
  void fill_pending(std::span<const std::byte>& bytes);  // takes what a begun block lacks

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  std::size_t pending_size_ = 0;
  std::uint64_t total_bytes_ = 0;
};

std::string to_hex(std::span<const std::byte> bytes);  // lower case
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace xyntra
