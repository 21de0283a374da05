#include "schedule/schedule_rows.h"

#include <gtest/gtest.h>

namespace xyntra {
namespace {

constexpr ScheduleKind kKinds[] = {
#define SCHEDULE(name, spelling, summary) ScheduleKind::name,
#include "plan/schedules.def"
#undef SCHEDULE
};

TEST(ScheduleRows, EveryScheduleHasItsOwn) {
  for (const ScheduleKind kind : kKinds) EXPECT_EQ(row_of(kind).kind, kind) << name_of(kind);
}

TEST(ScheduleRows, AKernelIsForSomeTarget) {
  for (const ScheduleKind kind : kKinds) {
    const ScheduleRow& row = row_of(kind);
    EXPECT_TRUE(!row.is_kernel || row.on_cpu || row.on_gpu) << name_of(kind);
  }
}

TEST(ScheduleRows, WhoPrepacksWeightsReadsThemInStagesOfItsOwn) {
  for (const ScheduleKind kind : kKinds) {
    const ScheduleRow& row = row_of(kind);
    EXPECT_EQ(static_cast<bool>(row.prepacks), static_cast<bool>(row.stages)) << name_of(kind);
  }
}

TEST(ScheduleRows, ViewsAndTheHostAreNoKernels) {
  Group group;
  group.schedule.kind = ScheduleKind::View;
  EXPECT_FALSE(is_kernel(group));
  group.schedule.kind = ScheduleKind::Plain;
  EXPECT_TRUE(is_kernel(group));
  group.hero = Hero::Host;
  EXPECT_FALSE(is_kernel(group));
}

}  // namespace
}  // namespace xyntra
