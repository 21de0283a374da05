#include "support/limits/stop_at_internal_errors.h"

#include <cstdlib>

namespace xyntra {

bool stops_at_internal_errors() { return std::getenv("XYNTRA_STOP_AT_INTERNAL_ERRORS") != nullptr; }

}  // namespace xyntra
