#include "frontends/onnx/protobuf/message_reader.h"

#include <bit>
#include <cstring>
#include <memory>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

namespace xyntra::onnx {

namespace {

[[noreturn]] void over_limit(const std::string& what, std::int64_t limit) {
  throw WireError{ErrorClass::Limit, "more than " + std::to_string(limit) + " " + what};
}

}  // namespace

void ParseState::charge(std::uint64_t bytes) {
  if (static_cast<std::int64_t>(bytes) > bytes_left_) {
    throw WireError{ErrorClass::Limit, "describing the model takes too much memory for a file of this size"};
  }
  bytes_left_ -= static_cast<std::int64_t>(bytes);
}

void ParseState::count_node() {
  if (++nodes_ > limits_.max_nodes) over_limit("nodes", limits_.max_nodes);
}

void ParseState::count_function() {
  if (++functions_ > limits_.max_functions) over_limit("functions", limits_.max_functions);
}

void ParseState::enter_level() {
  if (++level_ > limits_.max_nesting) over_limit("levels of nesting", limits_.max_nesting);
}

MessageReader::MessageReader(ParseState& state, std::string_view bytes, std::uint64_t offset,
                             const char* message)
    : state_(state), rest_(bytes), end_offset_(offset + bytes.size()), message_(message) {}

bool MessageReader::next() {
  state_.set_position(offset());
  if (rest_.empty()) return false;
  const std::uint64_t tag = varint();
  const std::uint64_t field = tag >> 3;
  if (field == 0 || field >= (1U << 29)) fail("field number " + std::to_string(field) + " is not valid");
  field_ = static_cast<std::uint32_t>(field);
  wire_type_ = static_cast<std::uint32_t>(tag & 7);
  return true;
}

std::int64_t MessageReader::integer() {
  expect(kVarint);
  return static_cast<std::int64_t>(varint());
}

std::int32_t MessageReader::integer32() { return static_cast<std::int32_t>(integer()); }

float MessageReader::number32() {
  expect(kFixed32);
  return std::bit_cast<float>(word<std::uint32_t>());
}

std::string_view MessageReader::bytes() {
  expect(kLengthDelimited);
  return take(varint());
}

MessageReader MessageReader::message(const char* name) {
  const std::string_view body = bytes();
  return {state_, body, offset() - body.size(), name};
}

void MessageReader::skip() {
  switch (wire_type_) {
    case kVarint: varint(); return;
    case kFixed64: take(8); return;
    case kLengthDelimited: take(varint()); return;
    case kFixed32: take(4); return;
    default: fail("wire type " + std::to_string(wire_type_) + " is not valid");
  }
}

void MessageReader::fail(const std::string& what) const {
  std::string place = message_;
  if (field_ != 0) place += " field " + std::to_string(field_);
  throw WireError{ErrorClass::BadModel, place + ": " + what};
}

void MessageReader::expect(WireType type) const {
  if (wire_type_ == type) return;
  fail("has wire type " + std::to_string(wire_type_) + ", expected " + std::to_string(type));
}

std::uint64_t MessageReader::varint() {
  const char* const start = rest_.data();
  const char* position = start;
  try {
    const std::uint64_t value = protozero::decode_varint(&position, std::to_address(rest_.end()));
    rest_.remove_prefix(static_cast<std::size_t>(position - start));
    return value;
  } catch (const protozero::exception&) {
    fail("the bytes end inside a number, or it is longer than 10 bytes");
  }
}

std::string_view MessageReader::take(std::uint64_t count) {
  if (count > rest_.size()) {
    fail("needs " + std::to_string(count) + " bytes where " + std::to_string(rest_.size()) + " are left");
  }
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

template <class Word>
Word MessageReader::word() {
  Word value;
  const std::string_view bytes = take(sizeof(Word));
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

template std::uint32_t MessageReader::word<std::uint32_t>();
template std::uint64_t MessageReader::word<std::uint64_t>();

}  // namespace xyntra::onnx
