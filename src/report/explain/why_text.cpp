#include "report/explain/explain.h"
#include "report/explain/why.h"
#include "support/text/table.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

std::string subject(const Plan& plan, const Whereabouts& place) {
  std::string text = printable(place.name);
  if (!place.remark.empty()) return text + " " + printable(place.remark);
  std::vector<std::string> ops;
  for (NodeId node : place.nodes) ops.push_back(plan.graph.node(node).op);
  return text + " (" + printable(compressed(ops)) + ")";
}

std::string way_text(const Plan& plan, const Why& why, std::size_t width) {
  using enum Table::Align;
  Table table({Left, Name, Name, Left, Prose});
  for (std::size_t e = 0; e < why.way.size(); ++e) {
    const EdgeVerdict& edge = why.way[e];
    table.row({why.cut == e ? ">" : " ", printable(short_title_of(plan.graph, edge.from)),
               "→ " + printable(short_title_of(plan.graph, edge.to)), name_of(edge.verdict),
               printable(edge.reason)});
  }
  return table.to_string(width);
}

std::string verdict_text(const Plan& plan, const Why& why) {
  if (why.from.nodes.empty() || why.to.nodes.empty()) return "not one kernel: one of them is not computed\n";
  if (why.group) {
    const Group& group = plan.groups[*why.group];
    return "one kernel: group " + std::to_string(*why.group) + ", " + name_of(group.hero) + ", schedule " +
           std::string(name_of(group.schedule.kind)) + "; " + printable(group.reason) + "\n";
  }
  if (why.way.empty()) return "not one kernel: nothing flows from one to the other\n";
  if (!why.cut) return "not one kernel: what lies between them is computed again where it is read\n";
  const EdgeVerdict& edge = why.way[*why.cut];
  std::string text = "not one kernel: cut between " + printable(short_title_of(plan.graph, edge.from)) +
                     " and " + printable(short_title_of(plan.graph, edge.to)) + "\n  why     " +
                     printable(edge.reason) + "\n";
  if (why.bytes_saved > 0) {
    text += "  saves   " + human_bytes(why.bytes_saved) + " of traffic and one launch, about " +
            time_text(why.ns_saved) + "\n";
  }
  for (const std::string& change : why.changes) text += "  change  " + change + "\n";
  return text;
}

Json place_json(const Plan& plan, const Whereabouts& place) {
  Json nodes = Json::array();
  for (NodeId node : place.nodes) nodes.push_back(title_of(plan.graph, node));
  return {{"name", place.name}, {"nodes", std::move(nodes)}, {"remark", place.remark}};
}

}  // namespace

std::string why_text(const Plan& plan, const Why& why, std::size_t width) {
  std::string text =
      "A  " + subject(plan, why.from) + "\nB  " + subject(plan, why.to) + "\n\n" + verdict_text(plan, why);
  if (why.way.empty()) return text;
  return text + "\n" + (why.backwards ? "the way from B to A\n" : "the way from A to B\n") +
         way_text(plan, why, width);
}

Json why_json(const Plan& plan, const Why& why) {
  Json json{{"from", place_json(plan, why.from)},
            {"to", place_json(plan, why.to)},
            {"one_kernel", why.group.has_value()}};
  json["group"] = why.group ? Json(*why.group) : Json();
  json["way"] = Json::array();
  for (const EdgeVerdict& edge : why.way) {
    json["way"].push_back({{"from", title_of(plan.graph, edge.from)},
                           {"to", title_of(plan.graph, edge.to)},
                           {"verdict", name_of(edge.verdict)},
                           {"reason", edge.reason}});
  }
  json["cut"] = why.cut ? Json(*why.cut) : Json();
  json["bytes_saved"] = why.bytes_saved;
  json["ns_saved"] = why.ns_saved;
  json["changes"] = why.changes;
  return json;
}

}  // namespace xyntra
