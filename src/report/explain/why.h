// Why two nodes of a model are, or are not, one kernel: the way between them, the edge that cuts it, what fusing there
// would save, and what would have to change.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/pipeline.h"
#include "report/explain/names.h"
#include "support/text/json.h"

namespace xyntra {

struct Why {
  Whereabouts from, to;
  std::optional<std::size_t> group;  // that computes both
  std::vector<EdgeVerdict> way;  // between the two, in the direction data flows; empty: nothing flows
  bool backwards = false;  // data flows from `to` to `from`
  std::optional<std::size_t> cut;  // the first edge of the way that goes through memory
  std::int64_t bytes_saved = 0, ns_saved = 0;  // if it did not
  std::vector<std::string> changes;  // each of them would make one kernel of the cut edge's two groups
};

Result<Why> why_not_one(const Graph& model, const Plan& plan, const CompileOptions& options,
                        const std::string& from, const std::string& to);

std::string why_text(const Plan& plan, const Why& why, std::size_t width = SIZE_MAX);
Json why_json(const Plan& plan, const Why& why);

}  // namespace xyntra
