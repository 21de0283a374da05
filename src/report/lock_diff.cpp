#include "report/lock_diff.h"

#include <algorithm>
#include <set>

#include "runtime/offsets.h"
#include "schedule/choose.h"
#include "schedule/forms.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::size_t kShownNames = 6;

// Nodes go by the name of their first output: ids differ between locks, names do not.
using NodeKey = std::string;

struct GroupView {
  const Group* group = nullptr;
  std::set<NodeKey> nodes;
};

class Side {
 public:
  explicit Side(const Lock& lock) : lock_(lock), plan_(lock.plan) {
    for (NodeId id : plan_.graph.node_ids()) {
      const ValueId name = name_of_node(plan_.graph, id);
      if (name.valid()) nodes_.emplace(plan_.graph.value(name).name, id);
    }
    for (const Group& group : plan_.groups) {
      GroupView view{&group, {}};
      for (NodeId id : group.nodes) view.nodes.insert(key(id));
      groups_.push_back(std::move(view));
    }
  }

  const Lock& lock() const { return lock_; }
  const Plan& plan() const { return plan_; }
  const std::vector<GroupView>& groups() const { return groups_; }
  const std::map<NodeKey, NodeId>& nodes() const { return nodes_; }

  NodeKey key(NodeId id) const {
    const ValueId name = name_of_node(plan_.graph, id);
    return name.valid() ? plan_.graph.value(name).name : std::string();
  }
  const Node& node(const NodeKey& key) const { return plan_.graph.node(nodes_.at(key)); }

  // Op 'the model's name', as a person knows it.
  std::string label(const NodeKey& key) const {
    const Node& it = node(key);
    return printable(it.op) + " '" + printable(it.origin.empty() ? key : it.origin) + "'";
  }
  template <class Keys>
  std::string labels(const Keys& keys) const {
    std::vector<std::string> shown;
    for (const NodeKey& key : keys) {
      if (shown.size() < kShownNames) shown.push_back(label(key));
    }
    std::string text = joined(shown, ", ");
    if (keys.size() > kShownNames) text += " and " + std::to_string(keys.size() - kShownNames) + " more";
    return text;
  }
  std::string group_text(std::size_t g) const {
    return "group " + std::to_string(g) + " (" + name_of(groups_[g].group->hero) + ": " +
           labels(groups_[g].nodes) + ")";
  }

 private:
  const Lock& lock_;
  const Plan& plan_;
  std::vector<GroupView> groups_;
  std::map<NodeKey, NodeId> nodes_;
};

std::string count_text(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

class Comparison {
 public:
  using Kind = LockChange::Kind;
  Comparison(const Lock& before, const Lock& after) : a_(before), b_(after) {}

  std::vector<LockChange> run() {
    header();
    graph();
    weights();
    rules();
    groups();
    schedules();
    edges();
    layouts();
    memory();
    return std::move(changes_);
  }

 private:
  void say(Kind kind, std::string text) { changes_.push_back({kind, std::move(text)}); }

  void header() {
    const Plan &a = a_.plan(), &b = b_.plan();
    if (a.model_hash != b.model_hash) say(Kind::Header, "they were made from different models");
    if (a.target != b.target) {
      say(Kind::Header, "the target is " + printable(b.target) + ", was " + printable(a.target));
    } else if (a.target_hash != b.target_hash) {
      say(Kind::Header, "the table of the target " + printable(a.target) + " has changed");
    }
    if (a.configuration_hash != b.configuration_hash) say(Kind::Header, "the configuration has changed");
    if (a.nominal != b.nominal) say(Kind::Header, "costs were counted at other sizes");
  }

  static bool same_node(const Side& a, const Side& b, const NodeKey& key) {
    const Node &x = a.node(key), &y = b.node(key);
    if (x.op != y.op || x.inputs.size() != y.inputs.size()) return false;
    for (std::size_t i = 0; i < x.inputs.size(); ++i) {
      if (x.inputs[i].valid() != y.inputs[i].valid()) return false;
      if (x.inputs[i].valid() &&
          a.plan().graph.value(x.inputs[i]).name != b.plan().graph.value(y.inputs[i]).name)
        return false;
    }
    return true;
  }

  void graph() {
    std::vector<NodeKey> gone, fresh, changed;
    for (const auto& [key, id] : a_.nodes()) {
      if (!b_.nodes().contains(key))
        gone.push_back(key);
      else if (!same_node(a_, b_, key))
        changed.push_back(key);
    }
    for (const auto& [key, id] : b_.nodes()) {
      if (!a_.nodes().contains(key)) fresh.push_back(key);
    }
    if (!gone.empty()) say(Kind::Graph, count_text(gone.size(), "node") + " gone: " + a_.labels(gone));
    if (!fresh.empty()) say(Kind::Graph, count_text(fresh.size(), "new node") + ": " + b_.labels(fresh));
    if (!changed.empty())
      say(Kind::Graph,
          count_text(changed.size(), "node") + " with another operator or operands: " + b_.labels(changed));
  }

  void weights() {
    std::map<std::string, std::string> before;
    for (const auto& [id, hash] : a_.lock().weights) before.emplace(a_.plan().graph.value(id).name, hash);
    std::vector<std::string> changed;
    for (const auto& [id, hash] : b_.lock().weights) {
      const std::string& name = b_.plan().graph.value(id).name;
      if (auto found = before.find(name); found != before.end() && found->second != hash)
        changed.push_back("'" + printable(name) + "'");
    }
    if (changed.empty()) return;
    const std::size_t count = changed.size();
    changed.resize(std::min(count, kShownNames));
    say(Kind::Weights, count_text(count, "weight") + " with other contents: " + joined(changed, ", ") +
                           (count > kShownNames ? " and more" : ""));
  }

  void rules() {
    std::map<std::string, std::pair<std::size_t, std::size_t>> uses;
    for (const CertificateLine& line : a_.plan().certificate) ++uses[line.rule].first;
    for (const CertificateLine& line : b_.plan().certificate) ++uses[line.rule].second;
    for (const auto& [rule, counts] : uses) {
      if (counts.first == counts.second) continue;
      say(Kind::Rules, "the rule '" + printable(rule) + "' is used " + count_text(counts.second, "time") +
                           ", was " + std::to_string(counts.first));
    }
  }

  // Groups that differ and share nodes, directly or through others, change together.
  void groups() {
    const auto &before = a_.groups(), &after = b_.groups();
    std::map<std::set<NodeKey>, std::size_t> same;
    for (std::size_t g = 0; g < after.size(); ++g) same.emplace(after[g].nodes, g);
    std::set<std::size_t> left, right;
    for (std::size_t g = 0; g < after.size(); ++g) right.insert(g);
    for (std::size_t g = 0; g < before.size(); ++g) {
      auto found = same.find(before[g].nodes);
      if (found == same.end() || right.erase(found->second) == 0) {
        left.insert(g);
      } else {
        paired_.emplace_back(g, found->second);
      }
    }
    if (before.size() != after.size())
      say(Kind::Groups, count_text(after.size(), "group") + ", were " + std::to_string(before.size()));
    const Owners left_owners = owners_of(a_, left), right_owners = owners_of(b_, right);
    while (!left.empty() || !right.empty()) {
      std::set<std::size_t> old_ones, new_ones;
      if (!left.empty())
        old_ones.insert(*left.begin());
      else
        new_ones.insert(*right.begin());
      grow(old_ones, new_ones, left_owners, right_owners);
      for (std::size_t g : old_ones) left.erase(g);
      for (std::size_t g : new_ones) right.erase(g);
      describe(old_ones, new_ones);
    }
  }

  using Owners = std::map<NodeKey, std::vector<std::size_t>>;
  static Owners owners_of(const Side& side, const std::set<std::size_t>& groups) {
    Owners owners;
    for (std::size_t g : groups) {
      for (const NodeKey& key : side.groups()[g].nodes) owners[key].push_back(g);
    }
    return owners;
  }

  // To each group the changed ones of the other side that share a node with it, until none is left out.
  void grow(std::set<std::size_t>& old_ones, std::set<std::size_t>& new_ones, const Owners& left,
            const Owners& right) const {
    std::vector<std::pair<bool, std::size_t>> waiting;  // whether it is an old one, which
    for (std::size_t g : old_ones) waiting.emplace_back(true, g);
    for (std::size_t g : new_ones) waiting.emplace_back(false, g);
    while (!waiting.empty()) {
      const auto [is_old, g] = waiting.back();
      waiting.pop_back();
      for (const NodeKey& key : (is_old ? a_ : b_).groups()[g].nodes) {
        const Owners& owners = is_old ? right : left;
        auto found = owners.find(key);
        if (found == owners.end()) continue;
        for (std::size_t other : found->second) {
          if ((is_old ? new_ones : old_ones).insert(other).second) waiting.emplace_back(!is_old, other);
        }
      }
    }
  }

  static std::string texts(const Side& side, const std::set<std::size_t>& groups) {
    std::vector<std::string> all;
    for (std::size_t g : groups) all.push_back(side.group_text(g));
    return joined(all, " and ");
  }

  void describe(const std::set<std::size_t>& old_ones, const std::set<std::size_t>& new_ones) {
    if (new_ones.empty()) return say(Kind::Groups, texts(a_, old_ones) + " is gone");
    if (old_ones.empty()) return say(Kind::Groups, texts(b_, new_ones) + " is new");
    if (old_ones.size() == 1 && new_ones.size() == 1) {
      const GroupView &x = a_.groups()[*old_ones.begin()], &y = b_.groups()[*new_ones.begin()];
      std::vector<NodeKey> lost, gained;
      std::ranges::set_difference(x.nodes, y.nodes, std::back_inserter(lost));
      std::ranges::set_difference(y.nodes, x.nodes, std::back_inserter(gained));
      std::string text = b_.group_text(*new_ones.begin());
      if (!gained.empty()) text += " gained " + b_.labels(gained);
      if (!lost.empty()) text += (gained.empty() ? " lost " : " and lost ") + a_.labels(lost);
      return say(Kind::Groups, text);
    }
    const char* verb = old_ones.size() == 1   ? " was split into "
                       : new_ones.size() == 1 ? " merged into "
                                              : " became ";
    say(Kind::Groups, texts(a_, old_ones) + verb + texts(b_, new_ones));
  }

  void schedules() {
    for (const auto& [before, after] : paired_) {
      const Group &x = *a_.groups()[before].group, &y = *b_.groups()[after].group;
      const std::string name = b_.group_text(after);
      if (x.hero != y.hero)
        say(Kind::Schedules, name + " is built around " + name_of(y.hero) + ", was " + name_of(x.hero));
      if (x.schedule.kind != y.schedule.kind) {
        say(Kind::Schedules, name + " has the schedule '" + name_of(y.schedule.kind) + "', was '" +
                                 name_of(x.schedule.kind) + "'");
        continue;
      }
      if (x.schedule.exactness != y.schedule.exactness)
        say(Kind::Schedules,
            name + " is " + name_of(y.schedule.exactness) + ", was " + name_of(x.schedule.exactness));
      if (x.schedule.forms != y.schedule.forms)
        say(Kind::Schedules, name + " has the forms " + printable(text_of(y.schedule.forms)) + ", were " +
                                 printable(text_of(x.schedule.forms)));
      knobs(name, x.schedule.knobs, y.schedule.knobs);
      if (x.scratch_bytes != y.scratch_bytes)
        say(Kind::Schedules, name + " takes " + y.scratch_bytes.to_string() +
                                 " bytes of scratch memory, were " + x.scratch_bytes.to_string());
    }
  }

  void knobs(const std::string& name, const std::vector<Knob>& before, const std::vector<Knob>& after) {
    std::map<std::string, std::pair<std::string, std::string>> values;
    for (const Knob& knob : before) values[knob.name].first = std::to_string(knob.value);
    for (const Knob& knob : after) values[knob.name].second = std::to_string(knob.value);
    for (const auto& [knob, value] : values) {
      if (value.first == value.second) continue;
      say(Kind::Schedules, name + ": the knob " + printable(knob) + " is " +
                               (value.second.empty() ? "gone" : value.second) + ", was " +
                               (value.first.empty() ? "not there" : value.first));
    }
  }

  void edges() {
    std::map<std::pair<std::string, NodeKey>, Verdict> before;
    for (const EdgeVerdict& edge : a_.plan().edges)
      before.emplace(std::pair(a_.plan().graph.value(edge.value).name, a_.key(edge.to)), edge.verdict);
    std::map<std::pair<std::string, std::string>, std::size_t> changed_verdicts;
    for (const EdgeVerdict& edge : b_.plan().edges) {
      auto found = before.find({b_.plan().graph.value(edge.value).name, b_.key(edge.to)});
      if (found != before.end() && found->second != edge.verdict)
        ++changed_verdicts[{name_of(found->second), name_of(edge.verdict)}];
    }
    for (const auto& [verdicts, count] : changed_verdicts)
      say(Kind::Edges, count_text(count, "edge") + " " + verdicts.second + " that " +
                           (count == 1 ? "was " : "were ") + verdicts.first);
  }

  static std::map<std::string, std::string> layouts_by_name(const Plan& plan) {
    std::map<std::string, std::string> layouts;
    for (const ValueLayout& one : plan.layouts)
      layouts.emplace(plan.graph.value(one.value).name, to_string(one.layout));
    return layouts;
  }

  void layouts() {
    const auto before = layouts_by_name(a_.plan()), after = layouts_by_name(b_.plan());
    std::map<std::pair<std::string, std::string>, std::vector<std::string>>
        changed;  // values by what became of them
    for (const auto& [name, layout] : after) {
      auto found = before.find(name);
      const std::string was = found == before.end() ? "row-major" : found->second;
      if (was != layout && a_.plan().graph.find(name).valid()) changed[{layout, was}].push_back(name);
    }
    for (const auto& [name, layout] : before) {
      if (!after.contains(name) && b_.plan().graph.find(name).valid())
        changed[{"row-major", layout}].push_back(name);
    }
    for (const auto& [layouts, names] : changed) {
      say(Kind::Layouts,
          "'" + printable(names.front()) + "'" +
              (names.size() > 1 ? " and " + count_text(names.size() - 1, "other") + " are " : " is ") +
              layouts.first + " in memory, was " + layouts.second);
    }
    std::map<std::string, LayoutChoice::Way> ways;
    for (const LayoutChoice& one : a_.plan().choices)
      ways.emplace(a_.plan().graph.value(one.value).name, one.taken.way);
    for (const LayoutChoice& one : b_.plan().choices) {
      const std::string& name = b_.plan().graph.value(one.value).name;
      auto found = ways.find(name);
      if (found == ways.end() || found->second == one.taken.way) continue;
      say(Kind::Layouts, "the choice for '" + printable(name) + "' is " + name_of(one.taken.way) + ", was " +
                             name_of(found->second));
    }
  }

  // Bytes of the arena at the sizes costs were counted with; nothing when the lock's memory makes no sense.
  static std::optional<std::int64_t> arena_bytes(const Plan& plan) {
    std::vector<ArenaRequest> requests;
    SymbolBindings sizes = plan.nominal;
    for (const Slot& slot : plan.memory.slots) {
      requests.push_back({slot.bytes, slot.first, slot.last, slot.alignment});
      std::vector<std::string> symbols;
      slot.bytes.collect_symbols(symbols);
      for (const std::string& symbol : symbols) sizes.try_emplace(symbol, kNominalSize);
    }
    const std::vector<std::size_t> order(plan.memory.order.begin(), plan.memory.order.end());
    auto placed = assign_offsets(requests, order, sizes);
    return placed ? std::optional(placed->peak) : std::nullopt;
  }

  void memory() {
    const MemoryPlan &x = a_.plan().memory, &y = b_.plan().memory;
    if (x.slots.size() != y.slots.size())
      say(Kind::Memory,
          "the arena has " + count_text(y.slots.size(), "slot") + ", had " + std::to_string(x.slots.size()));
    const auto before = arena_bytes(a_.plan()), after = arena_bytes(b_.plan());
    if (before != after && before && after)
      say(Kind::Memory, "the arena takes " + human_bytes(*after) + ", was " + human_bytes(*before));
    if (x.slots.size() == y.slots.size() && x.order != y.order)
      say(Kind::Memory, "the arena is stacked in another order");
    std::map<std::string, BufferAssignment::Kind> assignments;
    for (const BufferAssignment& assignment : x.assignments)
      assignments.emplace(a_.plan().graph.value(assignment.value).name, assignment.kind);
    for (const BufferAssignment& assignment : y.assignments) {
      const std::string& name = b_.plan().graph.value(assignment.value).name;
      auto found = assignments.find(name);
      if (found != assignments.end() && found->second != assignment.kind)
        say(Kind::Memory, "the value '" + printable(name) + "' lives as " + name_of(assignment.kind) +
                              ", was " + name_of(found->second));
    }
  }

  Side a_, b_;
  std::vector<std::pair<std::size_t, std::size_t>> paired_;  // groups of the same nodes
  std::vector<LockChange> changes_;
};

}  // namespace

const char* name_of(LockChange::Kind kind) {
  switch (kind) {
    case LockChange::Kind::Header: return "header";
    case LockChange::Kind::Graph: return "graph";
    case LockChange::Kind::Weights: return "weights";
    case LockChange::Kind::Rules: return "rules";
    case LockChange::Kind::Groups: return "groups";
    case LockChange::Kind::Schedules: return "schedules";
    case LockChange::Kind::Edges: return "edges";
    case LockChange::Kind::Layouts: return "layouts";
    case LockChange::Kind::Memory: return "memory";
  }
  return "";
}

std::vector<LockChange> changes_between(const Lock& before, const Lock& after) {
  return Comparison(before, after).run();
}

}  // namespace xyntra
