// Records of our own in bytes: numbers of eight bytes, least significant first, and texts behind their length. What is read
// may come from anywhere: every length is checked against the bytes that are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace xyntra {

class ByteWriter {
 public:
  void number(std::uint64_t value);
  void signed_number(std::int64_t value) { number(static_cast<std::uint64_t>(value)); }
  void part(std::span<const std::byte> bytes);
  void text(std::string_view value) { part(std::as_bytes(std::span(value))); }

  std::vector<std::byte> bytes;
};

// `what` begins the message of the error when the bytes are too few.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string what) : rest_(bytes), what_(std::move(what)) {}

  Result<std::uint64_t> number();
  Result<std::int64_t> signed_number();
  Result<std::uint64_t> number_below(std::uint64_t limit);  // BadModel error for others
  Result<bool> flag();
  Result<std::size_t> count();  // of things that take eight bytes each, at least
  Result<std::span<const std::byte>> part();
  Result<std::string> text();
  bool at_end() const { return rest_.empty(); }
  Status end() const;  // BadModel error when something is left

  tl::unexpected<Error> bad(const std::string& message) const { return bad_model(what_ + ": " + message); }

 private:
  std::span<const std::byte> rest_;
  std::string what_;
};

}  // namespace xyntra
