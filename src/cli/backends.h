// The backends there are or will be.
#pragma once

#include <span>
#include <string_view>

namespace xyntra {

struct Backend {
  std::string_view name;
  std::string_view alias;  // accepted for the name; may be empty
  std::string_view summary;
  bool present;
};

std::span<const Backend> all_backends();

}  // namespace xyntra
