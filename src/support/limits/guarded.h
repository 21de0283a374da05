// Where the library ends: what was thrown inside becomes an error of the caller's.
#pragma once

#include <new>

#include "support/limits/current_budget.h"

namespace xyntra {

template <class Body>
auto guarded(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const InternalError& error) {
    return failure(ErrorClass::Internal, error.message());
  } catch (const LimitReached& reached) {
    return failure(reached.error());
  } catch (const std::bad_alloc&) {
    return limit_error("out of memory");
  }
}

}  // namespace xyntra
