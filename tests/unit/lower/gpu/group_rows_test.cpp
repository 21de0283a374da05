// Rows too long for the registers of a workgroup, one after another: the next one is on its way while the last stage reads this.
#include <gtest/gtest.h>

#include <cmath>

#include "lower/lower.h"
#include "types/float_formats.h"
#include "unit/kir/sim/sim_testing.h"

namespace xyntra {
namespace {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Builder;
using te::Expr;
using te::Reducer;

struct Rows {
  std::int64_t count, length;
  DType dtype;
};

// A softmax; or a sum of squares alone, so that nothing but the row's end keeps its threads together.
te::Formula rows_of(const Rows& rows, bool softmax) {
  Builder made("rows");
  const Buffer x = made.input(0, "x", rows.dtype, {rows.count, rows.length});
  const Buffer y = made.output(0, "y", rows.dtype, {rows.count, rows.length});
  const Axis r = made.axis(rows.count), k = made.axis(rows.length), l = made.axis(rows.length);
  const Axis s = made.axis(rows.count), t = made.axis(rows.count), j = made.axis(rows.length);
  auto wide = [&](const Axis& row, const Axis& column) { return te::cast(DType::F32, x(row, column)); };
  Expr term = wide(s, l) * wide(s, l), share = wide(t, j);
  if (softmax) {
    const Buffer most = made.reduce("m", Axes{r}, Reducer::Max, Axes{k}, wide(r, k));
    term = exp(wide(s, l) - most(s));
    share = exp(wide(t, j) - most(t));
  }
  const Buffer sum = made.reduce("s", Axes{s}, Reducer::Sum, Axes{l}, term);
  made.write(y, Axes{t, j}, te::cast(rows.dtype, share / sum(t)));
  return std::move(made).finish();
}

Result<LoweredKernel> lowered(const Rows& rows, const std::string& form, bool softmax = true) {
  const Schedule schedule{ScheduleKind::Row, Exactness::Reassociating, {}, {form}};
  return lower(rows_of(rows, softmax), schedule, **find_target("h100"), {}, "k");
}

std::vector<float> floats_of(const kir::Arguments& arguments, std::size_t which, DType dtype) {
  if (dtype == DType::F32) return arguments.get<float>(which);
  std::vector<float> made;
  for (std::uint16_t bits : arguments.get<std::uint16_t>(which)) made.push_back(bf16_to_f32(bits));
  return made;
}

void expect_right(const Rows& rows, const kir::Kernel& kernel, bool softmax) {
  const std::vector<float> x = kir::small_numbers(rows.count * rows.length, 11);
  kir::Arguments arguments;
  if (rows.dtype == DType::F32) {
    arguments.add(x).add(std::vector<float>(x.size()));
  } else {
    arguments.add(kir::halves(x, rows.dtype)).add(std::vector<std::uint16_t>(x.size()));
  }
  ASSERT_EQ(kir::run(kernel, arguments), "");
  const std::vector<float> y = floats_of(arguments, 1, rows.dtype);
  const double allowed = rows.dtype == DType::F32 ? 1e-5 : 1.0 / 128;
  auto term = [&](float element) { return softmax ? std::exp(double{element}) : double{element} * element; };
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const auto begin = static_cast<std::size_t>(row * rows.length);
    double sum = 0;
    for (std::size_t at = begin; at < begin + static_cast<std::size_t>(rows.length); ++at) sum += term(x[at]);
    for (std::size_t at = begin; at < begin + static_cast<std::size_t>(rows.length); ++at) {
      const double wanted = (softmax ? term(x[at]) : double{x[at]}) / sum;
      ASSERT_NEAR(y[at], wanted, allowed * std::abs(wanted)) << row << ", " << at - begin;
    }
  }
}

std::string form_with(std::int64_t consecutive, std::int64_t stages) {
  const std::string knobs = consecutive > 1 ? ",stages=" + std::to_string(stages) : "";
  return "group_rows(consecutive_rows=" + std::to_string(consecutive) + ",row_threads=32,rows=1" + knobs +
         ")";
}

// A ring of the parts of one row alone, of some more, of two rows.
TEST(GroupRows, OneAfterAnother) {
  for (const Rows& rows : {Rows{8, 1280, DType::F32}, {8, 2560, DType::BF16}}) {
    for (const std::int64_t consecutive : {1, 2, 4}) {
      for (const std::int64_t stages : {10, 13, 20}) {
        for (const bool softmax : {true, false}) {
          const std::string form = form_with(consecutive, stages);
          SCOPED_TRACE(form + (softmax ? " of a softmax" : " of squares"));
          const auto kernel = lowered(rows, form, softmax);
          ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
          EXPECT_EQ(kir::to_string(kernel->kernel).find("async_copy") != std::string::npos, consecutive > 1);
          expect_right(rows, kernel->kernel, softmax);
        }
      }
    }
  }
}

// Rows come out even, and those of the ring are whole, or a plan that says otherwise is refused.
TEST(GroupRows, NoOtherRing) {
  EXPECT_FALSE(lowered({6, 1280, DType::F32}, form_with(4, 10)).has_value());
  EXPECT_FALSE(lowered({8, 1280, DType::F32}, form_with(4, 9)).has_value());
  EXPECT_FALSE(lowered({8, 1280, DType::F32}, form_with(4, 22)).has_value());
}

}  // namespace
}  // namespace xyntra
