#include "support/error.h"

#include <gtest/gtest.h>

#include "support/limits/guarded.h"
#include "support/limits/limits.h"
#include "support/result.h"

namespace xyntra {
namespace {

TEST(Error, SaysClassPlaceAndMessage) {
  Error error = bad_model("inputs 0 and 1 differ in dtype").value();
  error = std::move(error).in_file("model.onnx").at_node("n1", "Add");
  EXPECT_EQ(error.to_string(), "bad model: model.onnx: node 'n1' (Add): inputs 0 and 1 differ in dtype");
  EXPECT_EQ(Error(usage_error("no").value()).to_string(), "usage: no");
}

TEST(Error, PlaceIsTheInnermost) {
  Error error = bad_model("x").value();
  error = std::move(error).at_node("inner", "Add").at_node("outer", "Loop").in_file("a").in_file("b");
  EXPECT_EQ(error.to_string(), "bad model: a: node 'inner' (Add): x");
}

TEST(Error, NodesWithoutNameAndHints) {
  Error error = unsupported("not yet").value();
  error = std::move(error).at_node("", "Foo").with_hint("use Bar");
  EXPECT_EQ(error.to_string(), "unsupported: op Foo: not yet\n  hint: use Bar");
}

TEST(Error, LinesOfAHintStayLines) {
  Error error = usage_error("it is not exact").value();
  error = std::move(error).with_hint("an instance of it:\nxir 1\n\x1b[31m");
  EXPECT_EQ(error.to_string(),
            "usage: it is not exact\n  hint: an instance of it:\n    xir 1\n    \\x1b[31m");
}

TEST(Error, HostileNamesAreEscapedAndCut) {
  Error error = bad_model("a\x1b[31m\n\xff").value();
  error = std::move(error).at_node("\x1b]0;x\x07\xe2\x80\xae", std::string(5000, 'A'));
  EXPECT_EQ(error.to_string(),
            "bad model: node '\\x1b]0;x\\x07\\u{202e}' (" + std::string(200, 'A') + "…): a\\x1b[31m\\n\\xff");
}

Result<int> half(int value) {
  if (value % 2 != 0) return usage_error("odd");
  return value / 2;
}

Result<int> quarter(int value) {
  XYNTRA_TRY(const int halved, half(value));
  XYNTRA_TRY(const int result, half(halved));
  return result;
}

Status check_even(int value) {
  XYNTRA_CHECK_OK(half(value));
  return {};
}

TEST(Result, GuardedTurnsWhatIsThrownIntoAnError) {
  EXPECT_EQ(guarded([] { return half(4); }).value(), 2);
  EXPECT_EQ(guarded([] { return half(3); }).error().message, "odd");
  const auto broken = guarded([]() -> Result<int> { internal_error("a bug"); });
  EXPECT_EQ(broken.error().to_string(), "internal error: a bug");
  const auto large = guarded([]() -> Result<int> { throw std::bad_alloc(); });
  EXPECT_EQ(large.error().to_string(), "limit: out of memory");
}

TEST(Result, TryReturnsTheError) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_TRUE(check_even(2).has_value());
  EXPECT_FALSE(check_even(3).has_value());
  EXPECT_THROW(internal_error("x"), InternalError);
  EXPECT_NO_THROW(require(true, "x"));
}

TEST(Budget, CountsAndRefuses) {
  Budget budget(100, std::nullopt, nullptr);
  EXPECT_TRUE(budget.charge(60).has_value());
  EXPECT_EQ(budget.charge(41).error().message,
            "41 B more memory needed, but 60 B of at most 100 B are in use");
  EXPECT_TRUE(budget.charge(40).has_value());
  budget.release(100);
  EXPECT_EQ(budget.used_bytes(), 0);
  EXPECT_EQ(budget.peak_bytes(), 100);
  EXPECT_FALSE(budget.charge(INT64_MAX).has_value());
}

TEST(Budget, StopsOnDeadlineAndToken) {
  const auto token = std::make_shared<CancelToken>();
  const Budget cancellable(1, std::nullopt, token);
  EXPECT_TRUE(cancellable.check_time().has_value());
  token->cancel();
  EXPECT_TRUE(cancellable.stopped());
  EXPECT_EQ(cancellable.check_time().error().to_string(), "limit: cancelled");
  const Budget late(1, Budget::Clock::now(), nullptr);
  EXPECT_TRUE(late.stopped());
  EXPECT_EQ(late.check_time().error().to_string(), "limit: out of time");
  const Budget early(1, Budget::Clock::now() + std::chrono::hours(1), nullptr);
  EXPECT_FALSE(early.stopped());
}

}  // namespace
}  // namespace xyntra
