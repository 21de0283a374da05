// Result<T>: a value, or the Error that says why there is none. Nothing a user can cause throws.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "support/error.h"

namespace xyntra {

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> failure(Error error) { return tl::unexpected<Error>(std::move(error)); }
inline tl::unexpected<Error> failure(ErrorClass error_class, std::string message) {
  Error error;
  error.error_class = error_class;
  error.message = std::move(message);
  return tl::unexpected<Error>(std::move(error));
}
inline tl::unexpected<Error> usage_error(std::string m) { return failure(ErrorClass::Usage, std::move(m)); }
inline tl::unexpected<Error> bad_model(std::string m) { return failure(ErrorClass::BadModel, std::move(m)); }
inline tl::unexpected<Error> unsupported(std::string m) {
  return failure(ErrorClass::Unsupported, std::move(m));
}
inline tl::unexpected<Error> limit_error(std::string m) { return failure(ErrorClass::Limit, std::move(m)); }

// A broken invariant: throws InternalError.
[[noreturn]] void internal_error(std::string message);
inline void require(bool condition, const char* what) {
  if (!condition) internal_error(what);
}

}  // namespace xyntra

#define XYNTRA_CONCAT_(a, b) a##b
#define XYNTRA_CONCAT(a, b) XYNTRA_CONCAT_(a, b)
#define XYNTRA_TRY_(tmp, declaration, expression)                           \
  auto tmp = (expression);                                                  \
  if (!tmp) return tl::unexpected<::xyntra::Error>(std::move(tmp).error()); \
  declaration = std::move(*tmp)
// XYNTRA_TRY(auto shape, shape_of(x)); returns the error of the expression, or declares its value.
#define XYNTRA_TRY(declaration, ...) \
  XYNTRA_TRY_(XYNTRA_CONCAT(result_, __COUNTER__), declaration, (__VA_ARGS__))
// XYNTRA_CHECK_OK(status_expression);
#define XYNTRA_CHECK_OK(...)                                                          \
  do {                                                                                \
    auto status_ = (__VA_ARGS__);                                                     \
    if (!status_) return tl::unexpected<::xyntra::Error>(std::move(status_).error()); \
  } while (false)
