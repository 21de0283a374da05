#include "support/result.h"

namespace xyntra {

void internal_error(std::string message) { throw InternalError(std::move(message)); }

}  // namespace xyntra
