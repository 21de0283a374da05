#include "plan/plan.h"

#include <algorithm>
#include <array>

namespace xyntra {
namespace {

struct ScheduleRow {
  const char* name;
  const char* summary;
};
constexpr auto kScheduleRows = std::to_array<ScheduleRow>({
#define SCHEDULE(name, spelling, summary) {spelling, summary},
#include "plan/schedules.def"
#undef SCHEDULE
});

}  // namespace

const char* name_of(ScheduleKind kind) { return kScheduleRows.at(static_cast<std::size_t>(kind)).name; }
const char* summary_of(ScheduleKind kind) { return kScheduleRows.at(static_cast<std::size_t>(kind)).summary; }

std::optional<ScheduleKind> schedule_named(std::string_view name) {
  const auto* found = std::ranges::find(kScheduleRows, name,
                                        [](const ScheduleRow& row) { return std::string_view(row.name); });
  if (found == kScheduleRows.end()) return std::nullopt;
  return static_cast<ScheduleKind>(found - kScheduleRows.begin());
}

const char* name_of(Exactness exactness) {
  switch (exactness) {
    case Exactness::Exact: return "exact";
    case Exactness::Reassociating: return "reassociating";
    case Exactness::PrecisionChanging: return "precision-changing";
  }
  return "";
}

const char* name_of(Hero hero) {
  switch (hero) {
    case Hero::None: return "none";
    case Hero::Movement: return "movement";
    case Hero::RowReduction: return "row reduction";
    case Hero::Contraction: return "contraction";
    case Hero::Attention: return "attention";
    case Hero::Window: return "window";
    case Hero::Scan: return "scan";
    case Hero::Scatter: return "scatter";
    case Hero::Host: return "host";
  }
  return "";
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Fused: return "fused";
    case Verdict::Free: return "free";
    case Verdict::Materialised: return "materialised";
  }
  return "";
}

const char* name_of(LayoutChoice::Way way) {
  switch (way) {
    case LayoutChoice::Way::Blocked: return "blocked";
    case LayoutChoice::Way::Plain: return "plain";
    case LayoutChoice::Way::Fused: return "fused";
    case LayoutChoice::Way::Stage: return "stage";
  }
  return "";
}

bool comes_before(const LayoutChoice& a, const LayoutChoice& b) {
  const auto is_relayout = [](const LayoutChoice& one) { return one.taken.way >= LayoutChoice::Way::Fused; };
  if (a.value != b.value) return a.value < b.value;
  return !is_relayout(a) && is_relayout(b);
}

const char* name_of(BufferAssignment::Kind kind) {
  switch (kind) {
    case BufferAssignment::Kind::Input: return "input";
    case BufferAssignment::Kind::Output: return "output";
    case BufferAssignment::Kind::Constant: return "constant";
    case BufferAssignment::Kind::Arena: return "arena";
    case BufferAssignment::Kind::Own: return "own";
    case BufferAssignment::Kind::View: return "view";
  }
  return "";
}

ValueId name_of_node(const Graph& graph, NodeId node) {
  for (ValueId output : graph.node(node).outputs) {
    if (output.valid()) return output;
  }
  return {};
}

}  // namespace xyntra
