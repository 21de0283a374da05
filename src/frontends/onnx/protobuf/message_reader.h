// Walks the fields of one protobuf message inside a mapped file, without copying. Lengths and tags are
// read as 64 bit numbers and checked against the message that holds them, so that nothing wraps around.
//
// Malformed bytes throw WireError, which `parse_guarded` turns into an Error: it never leaves this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace xyntra::onnx {

// Caps on what a file may make us hold. The structs of wire.h count against `max_bytes`.
struct WireLimits {
  int max_nesting = 64;  // graphs inside graphs, types inside types
  std::int64_t max_nodes = 1'000'000;
  std::int64_t max_functions = 10'000;
  std::int64_t max_rank = 32;
  std::int64_t max_captures = 100'000;  // values that subgraphs take from around them, in all
  std::int64_t max_bytes = 160'000'000;  // plus the size of the file
};

struct WireError {
  ErrorClass error_class;
  std::string message;
};

// What parsing one file has used so far, and where it stands.
class ParseState {
 public:
  ParseState(const WireLimits& limits, std::uint64_t file_size)
      : limits_(limits), bytes_left_(limits.max_bytes + static_cast<std::int64_t>(file_size)) {}

  const WireLimits& limits() const { return limits_; }
  std::uint64_t position() const { return position_; }
  void set_position(std::uint64_t position) { position_ = position; }

  void charge(std::uint64_t bytes);
  void release(std::uint64_t bytes) { bytes_left_ += static_cast<std::int64_t>(bytes); }
  void count_node();
  void count_function();
  void enter_level();
  void leave_level() { --level_; }

  // Growth of every vector is charged before it happens: a hostile file fails before it allocates.
  template <class T>
  T& append(std::vector<T>& items, T item = {}) {
    if (items.size() == items.capacity()) {
      const std::size_t before = items.capacity() * sizeof(T);
      const std::size_t capacity = items.empty() ? 1 : 2 * items.size();
      charge(capacity * sizeof(T) + kAllocationOverhead);
      items.reserve(capacity);
      if (before != 0) release(before + kAllocationOverhead);
    }
    return items.emplace_back(std::move(item));
  }

 private:
  static constexpr std::size_t kAllocationOverhead = 16;

  WireLimits limits_;
  std::int64_t bytes_left_;
  std::uint64_t position_ = 0;
  std::int64_t nodes_ = 0;
  std::int64_t functions_ = 0;
  int level_ = 0;
};

// One level of nesting, left at the end of the scope.
class NestingLevel {
 public:
  explicit NestingLevel(ParseState& state) : state_(state) { state_.enter_level(); }
  ~NestingLevel() { state_.leave_level(); }
  NestingLevel(const NestingLevel&) = delete;
  NestingLevel& operator=(const NestingLevel&) = delete;

 private:
  ParseState& state_;
};

class MessageReader {
 public:
  // `offset` is where `bytes` starts in the file; `message` is the protobuf name, for errors.
  MessageReader(ParseState& state, std::string_view bytes, std::uint64_t offset, const char* message);

  bool next();  // moves on to the next field; false at the end of the message
  std::uint32_t field() const { return field_; }
  std::uint64_t offset() const { return end_offset_ - rest_.size(); }
  std::string_view rest() const { return rest_; }  // what has not been read yet
  ParseState& state() const { return state_; }

  // The value of the current field; each takes the one wire type that fits.
  std::int64_t integer();
  std::int32_t integer32();  // enums and int32: truncated as protobuf does
  float number32();
  std::string_view bytes();
  MessageReader message(const char* name);
  void skip();

  // A repeated scalar, packed or not: calls `sink` once per element.
  template <class Sink>
  void integers(Sink sink) {
    if (!packed()) return sink(integer());
    MessageReader elements = message(message_);
    while (!elements.rest_.empty()) sink(static_cast<std::int64_t>(elements.varint()));
  }
  template <class Sink>
  void floats(Sink sink) {
    fixed<std::uint32_t>(kFixed32, sink);
  }
  template <class Sink>
  void doubles(Sink sink) {
    fixed<std::uint64_t>(kFixed64, sink);
  }

  [[noreturn]] void fail(const std::string& what) const;

 private:
  enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  bool packed() const { return wire_type_ == kLengthDelimited; }
  void expect(WireType type) const;
  std::uint64_t varint();
  std::string_view take(std::uint64_t count);
  template <class Word>
  Word word();
  template <class Word, class Sink>
  void fixed(WireType unpacked_type, Sink sink) {  // the sink gets the bits
    if (!packed()) {
      expect(unpacked_type);
      return sink(word<Word>());
    }
    MessageReader elements = message(message_);
    while (!elements.rest_.empty()) sink(elements.word<Word>());
  }

  ParseState& state_;
  std::string_view rest_;
  std::uint64_t end_offset_;
  const char* message_;
  std::uint32_t field_ = 0;
  std::uint32_t wire_type_ = 0;
};

// The one place where malformed bytes become an Error: runs `parse` and says where it stood when it failed.
template <class Parse>
auto parse_guarded(ParseState& state, Parse parse) -> Result<decltype(parse())> {
  try {
    return parse();
  } catch (const WireError& error) {
    return failure(error.error_class, error.message + " (at byte " + std::to_string(state.position()) + ")");
  }
}

}  // namespace xyntra::onnx
