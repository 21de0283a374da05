#include "support/files/byte_stream.h"

namespace xyntra {

void ByteWriter::number(std::uint64_t value) {
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void ByteWriter::part(std::span<const std::byte> content) {
  number(content.size());
  bytes.insert(bytes.end(), content.begin(), content.end());
}

Result<std::uint64_t> ByteReader::number() {
  if (rest_.size() < 8) return bad("cut short");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(rest_[i]) << (8 * i);
  rest_ = rest_.subspan(8);
  return value;
}

Result<std::int64_t> ByteReader::signed_number() {
  XYNTRA_TRY(const std::uint64_t value, number());
  return static_cast<std::int64_t>(value);
}

Result<std::uint64_t> ByteReader::number_below(std::uint64_t limit) {
  XYNTRA_TRY(const std::uint64_t value, number());
  if (value >= limit) return bad("a number is out of range");
  return value;
}

Result<bool> ByteReader::flag() {
  XYNTRA_TRY(const std::uint64_t value, number_below(2));
  return value != 0;
}

Result<std::size_t> ByteReader::count() {
  XYNTRA_TRY(const std::uint64_t value, number());
  if (value > rest_.size() / 8) return bad("cut short");
  return static_cast<std::size_t>(value);
}

Result<std::span<const std::byte>> ByteReader::part() {
  XYNTRA_TRY(const std::uint64_t size, number());
  if (size > rest_.size()) return bad("cut short");
  const auto found = rest_.first(static_cast<std::size_t>(size));
  rest_ = rest_.subspan(found.size());
  return found;
}

Result<std::string> ByteReader::text() {
  XYNTRA_TRY(const auto found, part());
  return std::string(reinterpret_cast<const char*>(found.data()), found.size());
}

Status ByteReader::end() const {
  if (!rest_.empty()) return bad("something follows its end");
  return {};
}

}  // namespace xyntra
