#include "support/text/unknown_name.h"

#include "support/text/text.h"

namespace xyntra {

Error unknown_name(std::string_view what, std::string_view given, std::span<const std::string> known,
                   std::string_view lists_them) {
  constexpr std::size_t kMostListed = 48;
  Error error;
  error.error_class = ErrorClass::Usage;
  error.message = "there is no " + std::string(what) + " '" + std::string(given) + "'";
  if (known.size() <= kMostListed || lists_them.empty()) {
    error.message += known.empty()       ? "; there is none at all"
                     : known.size() == 1 ? "; there is " + known.front()
                                         : "; there are " + joined(known, ", ");
  } else {
    error.message +=
        "; there are " + std::to_string(known.size()) + ": " + std::string(lists_them) + " lists them";
  }
  if (const auto nearest = nearest_word(given, known)) error.hint = "did you mean '" + *nearest + "'?";
  return error;
}

}  // namespace xyntra
