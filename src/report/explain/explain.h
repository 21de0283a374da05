// What `xyntra explain` prints: the groups of a plan, what they save, and the verdict of every edge.
#pragma once

#include "report/figures.h"
#include "support/text/json.h"

namespace xyntra {

inline constexpr std::size_t kReportWidth = 120;  // columns, where no terminal says how many

// The first `most` groups, and how many more there are.
std::string groups_table(const Plan& plan, const PlanFigures& figures, std::size_t most = SIZE_MAX,
                         std::size_t width = kReportWidth);
// What was weighed about layouts, and how many weights are packed; empty where nothing was.
std::string layouts_table(const Plan& plan, std::size_t width = kReportWidth);
std::string totals_table(const PlanFigures& figures);
// Forms that failed by our own fault, with what serves instead; empty where none did.
std::string fallbacks_table(const std::vector<Fallback>& fallbacks, std::size_t width = kReportWidth);
Json fallbacks_json(const std::vector<Fallback>& fallbacks);
std::string recognised_line(
    const PlanFigures& figures);  // "attention ×12, layer norm ×25"; "nothing by name"
std::string sizes_line(const PlanFigures& figures);  // empty when all sizes are fixed
std::string assumptions_line(const Plan& plan);  // "total = past + seq"; empty when there are none
std::string donated_line(const Plan& plan);  // empty where nothing is
std::string numerics_line(
    const Plan& plan);  // what is precision-changing: "winograd ×11"; empty where nothing is

// All of it, without anything that only a terminal shows: what an artifact keeps, as the note "explain".
Result<std::map<std::string, std::string>> explain_notes(const Graph& model, const Plan& plan,
                                                         const CompileOptions& options);

// One object: groups, edges, layouts, totals. Names are the model's own, unescaped: JSON is.
Json plan_json(const Plan& plan, const PlanFigures& figures);

// "1.2 us"; "3.4 Mflop"
std::string time_text(std::int64_t nanoseconds);
std::string flops_text(std::int64_t flops);

}  // namespace xyntra
