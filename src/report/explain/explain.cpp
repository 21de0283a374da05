#include "report/explain/explain.h"

#include <algorithm>
#include <array>

#include "report/explain/names.h"
#include "schedule/forms.h"
#include "support/text/table.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

using Align = Table::Align;

constexpr std::size_t kOpsWidth = 44;  // of a cell that lists operators

struct Unit {
  std::int64_t size;
  const char* name;
};

// Three digits or so: "999 ns", "1.2 us", "34 us", "5.6 ms".
std::string scaled(std::int64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value < unit.size) continue;
    const std::int64_t tenths = (value / unit.size * 10) + (value % unit.size * 10 / unit.size);
    const bool whole = unit.size == 1 || tenths >= 1000 || tenths % 10 == 0;
    return std::to_string(tenths / 10) + (whole ? "" : "." + std::to_string(tenths % 10)) + " " + unit.name;
  }
  return "0 " + std::string(units.back().name);
}

constexpr std::array kTimes =
    std::to_array<Unit>({{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}, {1, "ns"}});
constexpr std::array kFlops = std::to_array<Unit>({{1'000'000'000'000, "Tflop"},
                                                   {1'000'000'000, "Gflop"},
                                                   {1'000'000, "Mflop"},
                                                   {1'000, "kflop"},
                                                   {1, "flop"}});

std::string share_of(std::int64_t part, std::int64_t whole) {
  return whole <= 0 ? "" : std::to_string(part * 100 / whole) + "%";
}

Json names(const Graph& graph, const std::vector<NodeId>& nodes) {
  Json list = Json::array();
  for (NodeId node : nodes) list.push_back(title_of(graph, node));
  return list;
}

Json group_json(const Plan& plan, const PlanFigures& figures, std::size_t g) {
  const Group& group = plan.groups[g];
  const GroupFigures& figure = figures.groups[g];
  Json knobs = Json::object();
  for (const Knob& knob : group.schedule.knobs) knobs[knob.name] = knob.value;
  Json json{{"id", g},
            {"hero", name_of(group.hero)},
            {"ops", figure.ops},
            {"index_changes", figure.index_changes},
            {"nodes", names(plan.graph, group.nodes)},
            {"bytes_in", figure.bytes_in},
            {"bytes_out", figure.bytes_out},
            {"bytes_saved", figure.bytes_saved},
            {"flops", figure.flops},
            {"predicted_ns", figure.predicted_ns},
            {"schedule",
             {{"name", name_of(group.schedule.kind)},
              {"class", name_of(group.schedule.exactness)},
              {"forms", group.schedule.forms},
              {"knobs", std::move(knobs)}}},
            {"reason", group.reason}};
  if (figure.dispatches > 0) json["dispatches"] = figure.dispatches;
  return json;
}

Json totals_json(const PlanFigures& figures) {
  Json totals{{"ops", figures.model.ops},
              {"kernels", figures.kernels},
              {"host_calls", figures.host_calls},
              {"index_changes", figures.index_changes},
              {"ops_rewritten", figures.rewritten.ops},
              {"bytes_unfused", figures.model.bytes},
              {"bytes_fused", figures.bytes},
              {"predicted_ns_unfused", figures.model.predicted_ns},
              {"predicted_ns_fused", figures.predicted_ns}};
  if (figures.dispatches > 0) totals["dispatches"] = figures.dispatches;
  totals["arena_bytes"] = figures.arena ? Json(figures.arena->bytes) : Json();
  totals["arena_lower_bound"] = figures.arena ? Json(figures.arena->lower_bound) : Json();
  return totals;
}

// Inputs that may be donated, and the results that append rows to them.
std::vector<std::pair<ValueId, ValueId>> donated_pairs(const Plan& plan) {
  std::vector<std::pair<ValueId, ValueId>> pairs;
  for (const BufferAssignment& assignment : plan.memory.assignments) {
    if (assignment.kind == BufferAssignment::Kind::Input && assignment.of.valid())
      pairs.emplace_back(assignment.of, assignment.value);
  }
  return pairs;
}

}  // namespace

std::string time_text(std::int64_t nanoseconds) { return scaled(nanoseconds, kTimes); }
std::string flops_text(std::int64_t flops) { return scaled(flops, kFlops); }

std::string groups_table(const Plan& plan, const PlanFigures& figures, std::size_t most, std::size_t width) {
  Table table({Align::Right, Align::Left, Align::Prose, Align::Prose, Align::Right, Align::Right,
               Align::Right, Align::Right, Align::Right, Align::Prose});
  table.header(
      {"group", "hero", "forms", "ops", "in", "out", "saved", "work", "time", "index changes, free"});
  const std::size_t shown = std::min(most, plan.groups.size());
  for (std::size_t g = 0; g < shown; ++g) {
    const GroupFigures& figure = figures.groups[g];
    if (!is_kernel(plan.groups[g])) {
      table.row({std::to_string(g), name_of(plan.groups[g].schedule.kind), "",
                 printable(compressed(figure.ops, kOpsWidth))});
      continue;
    }
    table.row({std::to_string(g), name_of(plan.groups[g].hero),
               text_of(without_knobs(plan.groups[g].schedule.forms)),
               printable(compressed(figure.ops, kOpsWidth)), human_bytes(figure.bytes_in),
               human_bytes(figure.bytes_out), human_bytes(figure.bytes_saved), flops_text(figure.flops),
               time_text(figure.predicted_ns),
               (figure.dispatches > 1 ? "(" + std::to_string(figure.dispatches) + " dispatches) " : "") +
                   printable(compressed(figure.index_changes, kOpsWidth))});
  }
  std::string text = shown == 0 ? "" : table.to_string(width);
  if (shown < plan.groups.size()) text += "… " + std::to_string(plan.groups.size() - shown) + " more\n";
  return text;
}

std::string layouts_table(const Plan& plan, std::size_t width) {
  std::string text;
  if (!plan.choices.empty()) {
    Table table({Align::Name, Align::Left, Align::Right, Align::Left, Align::Right, Align::Prose});
    table.header({"layout of", "taken", "time", "instead of", "time", "what it is"});
    for (const LayoutChoice& one : plan.choices) {
      table.row({printable(plan.graph.value(one.value).name), name_of(one.taken.way), time_text(one.taken.ns),
                 name_of(one.other.way), time_text(one.other.ns), printable(one.reason)});
    }
    text = table.to_string(width);
  }
  const auto packed = std::ranges::count_if(
      plan.layouts, [&](const ValueLayout& one) { return plan.graph.value(one.value).is_constant(); });
  if (packed > 0)
    text += std::to_string(packed) + (packed == 1 ? " weight is" : " weights are") +
            " prepacked when compiled, at no cost\n";
  return text;
}

std::string totals_table(const PlanFigures& figures) {
  const auto count = [](std::size_t number) { return std::to_string(number); };
  Table table({Align::Left, Align::Right, Align::Right, Align::Right, Align::Right});
  table.header({"", "the model", "rewritten", "fused", "of before"});
  table.row({"operations", count(figures.model.ops), count(figures.rewritten.ops)});
  table.row({"kernels", count(figures.model.kernels), count(figures.rewritten.kernels),
             count(figures.kernels),
             share_of(static_cast<std::int64_t>(figures.kernels),
                      static_cast<std::int64_t>(figures.model.kernels))});
  if (figures.dispatches > 0) table.row({"dispatches", "", "", count(figures.dispatches)});
  if (figures.model.host_calls + figures.host_calls > 0) {
    table.row({"host calls", count(figures.model.host_calls), count(figures.rewritten.host_calls),
               count(figures.host_calls)});
  }
  table.row({"bytes moved", human_bytes(figures.model.bytes), human_bytes(figures.rewritten.bytes),
             human_bytes(figures.bytes), share_of(figures.bytes, figures.model.bytes)});
  table.row({"predicted time", time_text(figures.model.predicted_ns),
             time_text(figures.rewritten.predicted_ns), time_text(figures.predicted_ns),
             share_of(figures.predicted_ns, figures.model.predicted_ns)});
  std::string text = table.to_string();
  if (figures.arena) {
    text += "arena: " + human_bytes(figures.arena->bytes) + ", at least " +
            human_bytes(figures.arena->lower_bound) + " must live at once\n";
  }
  return text;
}

std::string fallbacks_table(const std::vector<Fallback>& fallbacks, std::size_t width) {
  if (fallbacks.empty()) return "";
  Table table({Align::Prose, Align::Prose, Align::Prose});
  table.header({"in", "left out", "why"});
  for (const Fallback& one : fallbacks)
    table.row({printable(one.where), printable(one.left_out), printable(one.reason)});
  return "forms that failed, plainer ones serve: " + std::to_string(fallbacks.size()) + "\n" +
         table.to_string(width);
}

Json fallbacks_json(const std::vector<Fallback>& fallbacks) {
  Json list = Json::array();
  for (const Fallback& one : fallbacks)
    list.push_back({{"where", one.where}, {"left_out", one.left_out}, {"reason", one.reason}});
  return list;
}

std::string recognised_line(const PlanFigures& figures) {
  std::string text;
  for (const auto& [words, times] : figures.recognised) {
    text += (text.empty() ? "" : ", ") + words + " ×" + std::to_string(times);
  }
  return text.empty() ? "nothing by name" : text;
}

std::string sizes_line(const PlanFigures& figures) {
  std::string text;
  for (const auto& [name, size] : figures.sizes) {
    text += (text.empty() ? "" : " ") + printable(name) + "=" + std::to_string(size);
  }
  if (figures.assumed.empty()) return text;
  std::vector<std::string> names;
  for (const std::string& name : figures.assumed) names.push_back(printable(name));
  return text + "  (assumed: " + joined(names, ", ") + "; --dim NAME=SIZE decides)";
}

std::string assumptions_line(const Plan& plan) {
  std::string text;
  for (const Assumption& assumption : plan.assumptions) {
    text += (text.empty() ? "" : ", ") + printable(assumption.symbol) + " = " +
            printable(assumption.equals.to_string());
  }
  return text;
}

std::string donated_line(const Plan& plan) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> pairs;
  for (const auto& [input, output] : donated_pairs(plan))
    pairs.push_back(printable(plan.graph.value(input).name) + " -> " +
                    printable(plan.graph.value(output).name));
  if (pairs.empty()) return "";
  const std::size_t more = pairs.size() > kMost ? pairs.size() - kMost : 0;
  pairs.resize(pairs.size() - more);
  return joined(pairs, ", ") + (more > 0 ? ", " + std::to_string(more) + " more" : "") +
         ": where they are donated only the appended rows are written; else they are copied first";
}

std::string numerics_line(const Plan& plan) {
  std::map<std::string, std::size_t> uses;
  for (const CertificateLine& line : plan.certificate) {
    if (line.exactness == Exactness::PrecisionChanging) ++uses[line.rule];
  }
  for (const Group& group : plan.groups) {
    if (group.schedule.exactness == Exactness::PrecisionChanging) ++uses[name_of(group.schedule.kind)];
  }
  std::string text;
  for (const auto& [name, times] : uses)
    text += (text.empty() ? "" : ", ") + printable(name) + " ×" + std::to_string(times);
  return text.empty() ? text : text + ": precision-changing";
}

Json plan_json(const Plan& plan, const PlanFigures& figures) {
  Json json{
      {"target", plan.target}, {"sizes", figures.sizes}, {"groups", Json::array()}, {"edges", Json::array()}};
  for (std::size_t g = 0; g < plan.groups.size(); ++g) json["groups"].push_back(group_json(plan, figures, g));
  ChooseOptions choose;
  choose.nominal = plan.nominal;
  for (const EdgeVerdict& edge : plan.edges) {
    json["edges"].push_back({{"from", title_of(plan.graph, edge.from)},
                             {"to", title_of(plan.graph, edge.to)},
                             {"value", plan.graph.value(edge.value).name},
                             {"verdict", name_of(edge.verdict)},
                             {"reason", edge.reason},
                             {"bytes", nominal(edge.bytes, choose)}});
  }
  json["layouts"] = Json::array();
  for (const LayoutChoice& one : plan.choices) {
    json["layouts"].push_back({{"value", plan.graph.value(one.value).name},
                               {"taken", name_of(one.taken.way)},
                               {"taken_ns", one.taken.ns},
                               {"other", name_of(one.other.way)},
                               {"other_ns", one.other.ns},
                               {"reason", one.reason}});
  }
  json["assumptions"] = Json::object();
  for (const Assumption& assumption : plan.assumptions) {
    json["assumptions"][assumption.symbol] = assumption.equals.to_string();
  }
  json["donated"] = Json::object();
  for (const auto& [input, output] : donated_pairs(plan))
    json["donated"][plan.graph.value(input).name] = plan.graph.value(output).name;
  json["totals"] = totals_json(figures);
  json["recognised"] = figures.recognised;
  return json;
}

Result<std::map<std::string, std::string>> explain_notes(const Graph& model, const Plan& plan,
                                                         const CompileOptions& options) {
  XYNTRA_TRY(const PlanFigures figures, figures_of(model, plan, options));
  std::string text =
      "target  " + std::string(options.target->name) + ": " + std::string(options.target->summary) + "\n";
  if (const std::string sizes = sizes_line(figures); !sizes.empty()) text += "sizes   " + sizes + "\n";
  if (const std::string assumed = assumptions_line(plan); !assumed.empty())
    text += "equal   " + assumed + "\n";
  if (const std::string donated = donated_line(plan); !donated.empty()) text += "donated " + donated + "\n";
  if (const std::string numerics = numerics_line(plan); !numerics.empty())
    text += "numeric " + numerics + "\n";
  text += "found   " + recognised_line(figures) + "\n\n" + groups_table(plan, figures) + "\n";
  if (const std::string layouts = layouts_table(plan); !layouts.empty()) text += layouts + "\n";
  text += totals_table(figures);
  return std::map<std::string, std::string>{{"explain", std::move(text)}};
}

}  // namespace xyntra
