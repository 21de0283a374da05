#include "support/error.h"

#include <string_view>

#include "support/text/text.h"

namespace xyntra {
namespace {

// A name can be as long as the model file; past this it no longer helps to find the node.
constexpr std::size_t kLongestName = 200;

std::string shown_name(std::string_view name) {
  if (name.size() <= kLongestName) return printable(name);
  return printable(cut_at_character(name, kLongestName)) + "…";
}

}  // namespace

const char* name_of(ErrorClass error_class) {
  switch (error_class) {
    case ErrorClass::Usage: return "usage";
    case ErrorClass::BadModel: return "bad model";
    case ErrorClass::Unsupported: return "unsupported";
    case ErrorClass::Limit: return "limit";
    case ErrorClass::Device: return "device";
    case ErrorClass::Internal: return "internal error";
  }
  return "unknown error";
}

std::string Error::to_string() const {
  std::string text = name_of(error_class);
  text += ": ";
  if (!file.empty()) text += printable(file) + ": ";
  if (!node.empty()) text += "node '" + shown_name(node) + "'";
  if (!op.empty()) text += (node.empty() ? "op " : " (") + shown_name(op) + (node.empty() ? "" : ")");
  if (!node.empty() || !op.empty()) text += ": ";
  text += printable(message);
  // Lines of a hint stay lines: it is ours, and shows what a message has no room for.
  const char* before = "\n  hint: ";
  for (std::string_view line : split(hint, '\n')) {
    if (!hint.empty()) text += before + printable(line);
    before = "\n    ";
  }
  return text;
}

}  // namespace xyntra
