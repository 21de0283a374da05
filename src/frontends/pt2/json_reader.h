// Reads JSON front to back, without making anything of what nobody asks for: the programs of torch.export are megabytes of it,
// most of them stack traces.
//
//     reader.object([&](std::string_view key) {
//       if (key == "name") name = reader.text();
//       else reader.skip();
//     });
//
// The first error is kept; whatever is read afterwards is empty, and no callback is called.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "support/result.h"

namespace xyntra::pt2 {

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // Each calls back once per entry, and the callback must read or skip its value.
  void object(const std::function<void(std::string_view key)>& entry);
  void array(const std::function<void()>& element);

  std::string text();
  std::int64_t integer();
  double real();  // also the strings "Infinity", "-Infinity" and "NaN"
  bool truth();
  bool null();  // takes a null if there is one
  void skip();

  void fail(std::string message);
  bool failed() const { return error_.has_value(); }
  Status status() const;
  Status at_end();  // nothing but spaces may follow

 private:
  static constexpr int kMaxDepth = 512;  // a graph within a graph is eight levels deeper

  char next();  // the next character that is no space, not taken; 0 at the end
  bool take(char c);
  void expect(char c);
  std::string_view number();
  bool literal(std::string_view word);
  std::string_view raw_text(bool& escaped);
  std::string unescaped(std::string_view raw);

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
  std::optional<Error> error_;
};

}  // namespace xyntra::pt2
