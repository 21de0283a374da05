#include "fusion/groups.h"

#include <algorithm>
#include <queue>

#include "fusion/attention.h"
#include "fusion/drafts.h"
#include "fusion/layout/extensions.h"
#include "fusion/layout/relayouts.h"

namespace xyntra {
namespace {

// How much a producer's group gains by what follows it: heroes take their epilogue first.
int rank_of(Hero hero) {
  switch (hero) {
    case Hero::Attention:
    case Hero::Contraction:
    case Hero::Window: return 2;
    case Hero::RowReduction: return 1;
    default: return 0;
  }
}

class Grouper {
 public:
  Grouper(const FusionNodes& fusion_nodes, const Target& target, const FusionOptions& options,
          const Extended& extended, DraftCache& cache)
      : fusion_nodes_(fusion_nodes),
        options_(options),
        drafts_(fusion_nodes, target, options, extended, cache) {}

  Result<Grouping> run() {
    if (options_.enabled) seed_attention();
    for (NodeId node : fusion_nodes_.order()) {
      if (options_.budget != nullptr) XYNTRA_CHECK_OK(options_.budget->check_time());
      if (!drafts_.materialised(node)) continue;
      GroupDrafts::Index group = drafts_.of(node);
      if (group == GroupDrafts::kNone) {
        group = *drafts_.make({node}, drafts_.why_stage(node));
      } else if (drafts_.all()[group].core.back() != node) {
        continue;  // a seeded group is grown when its last node is reached
      }
      if (options_.enabled) grow(group);
    }
    if (options_.enabled) join_horizontally();
    return finished();
  }

 private:
  void seed_attention() {
    for (AttentionNodes& found : find_attention(fusion_nodes_)) {
      // Changes of index on the way are read through; the group owns the others.
      std::erase_if(found.nodes, [this](NodeId node) { return !drafts_.materialised(node); });
      bool free = std::all_of(found.nodes.begin(), found.nodes.end(),
                              [this](NodeId node) { return drafts_.of(node) == GroupDrafts::kNone; });
      if (!free) continue;
      auto made = drafts_.make(found.nodes, "scores, softmax and weighted sum are one attention");
      if (!made) note(found.scores, found.weighted, made.error());
    }
  }

  void note(NodeId from, NodeId to, const std::string& reason) { refused_[{from, to}] = reason; }

  // Merges the group with its producers, best first, until none is left that it can take.
  void grow(GroupDrafts::Index group) {
    std::set<std::pair<GroupDrafts::Index, GroupDrafts::Index>> tried;
    bool changed = true;
    while (changed) {
      changed = false;
      std::vector<GroupDrafts::Index> producers = drafts_.producers(group);
      std::stable_sort(producers.begin(), producers.end(),
                       [this](GroupDrafts::Index a, GroupDrafts::Index b) {
                         const GroupDraft &x = drafts_.all()[a], &y = drafts_.all()[b];
                         if (rank_of(x.choice.hero) != rank_of(y.choice.hero))
                           return rank_of(x.choice.hero) > rank_of(y.choice.hero);
                         return fusion_nodes_.position(x.core.back()) > fusion_nodes_.position(y.core.back());
                       });
      for (GroupDrafts::Index producer : producers) {
        if (!tried.insert({producer, group}).second) continue;
        auto merged = drafts_.merge(producer, group);
        if (merged) {
          group = *merged;
          changed = true;
          break;
        }
        for (NodeId from : drafts_.all()[producer].core) {
          for (NodeId to : drafts_.all()[group].core) note(from, to, merged.error());
        }
      }
    }
  }

  // Copies and element-wise loops whose results nobody in this launch order waits for between them. A copy that
  // memory may turn into a view stays by itself.
  void join_horizontally() {
    auto simple = [this](const GroupDraft& draft) {
      if (draft.choice.hero == Hero::None) return draft.choice.schedule.kind == ScheduleKind::Pointwise;
      bool all_outputs = std::all_of(draft.outputs.begin(), draft.outputs.end(),
                                     [this](ValueId value) { return fusion_nodes_.is_output(value); });
      return draft.choice.hero == Hero::Movement && all_outputs;
    };
    std::vector<GroupDrafts::Index> order = launch_order();
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      if (!simple(drafts_.all()[order[i]]) || !simple(drafts_.all()[order[i + 1]])) continue;
      if (auto joined = drafts_.join(order[i], order[i + 1])) order[i + 1] = *joined;
    }
  }

  // ---- launch order and verdicts

  Result<Grouping> finished() {
    Grouping result;
    std::vector<GroupDrafts::Index> order = launch_order();
    for (GroupDrafts::Index index : order) {
      const GroupDraft& draft = drafts_.all()[index];
      Group group;
      group.hero = draft.choice.hero;
      group.nodes = draft.nodes;
      group.inputs = draft.inputs;
      group.outputs = draft.outputs;
      group.schedule = draft.choice.schedule;
      group.bytes_in = draft.bytes_in;
      group.bytes_out = draft.bytes_out;
      group.flops = draft.choice.flops;
      group.scratch_bytes = draft.choice.scratch_bytes;
      group.predicted_ns = draft.choice.predicted_ns;
      group.reason = reason_of(draft);
      result.groups.push_back(std::move(group));
      result.formulas.push_back(draft.formula);
    }
    result.fallbacks = drafts_.fallbacks();
    for (NodeId to : fusion_nodes_.order()) {
      if (!fusion_nodes_[to].live) continue;
      for (ValueId value : fusion_nodes_[to].reads) {
        NodeId from = fusion_nodes_.graph().value(value).producer;
        if (from.valid()) result.edges.push_back(verdict(from, to, value));
      }
    }
    return result;
  }

  std::string reason_of(const GroupDraft& draft) const {
    if (draft.choice.hero == Hero::Host) return fusion_nodes_[draft.core.front()].why_host;
    if (!draft.reason.empty()) return draft.reason;
    if (draft.nodes.size() == 1) return "nothing beside it can share its launch";
    if (draft.core.size() == 1) return "changes of index read through by one node";
    return std::string("grown around ") +
           (draft.choice.hero == Hero::None ? "element-wise work" : name_of(draft.choice.hero));
  }

  // Producers before readers; among those ready, the one whose first node comes first.
  std::vector<GroupDrafts::Index> launch_order() const {
    std::vector<GroupDrafts::Index> living;
    for (GroupDrafts::Index i = 0; i < drafts_.all().size(); ++i) {
      if (drafts_.all()[i].alive) living.push_back(i);
    }
    std::map<GroupDrafts::Index, std::size_t> waiting_for;
    std::map<GroupDrafts::Index, std::vector<GroupDrafts::Index>> readers;
    using Entry = std::pair<std::size_t, GroupDrafts::Index>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    auto entry = [this](GroupDrafts::Index i) {
      return Entry{fusion_nodes_.position(drafts_.all()[i].core.back()), i};
    };
    for (GroupDrafts::Index i : living) {
      auto producers = drafts_.producers(i);
      waiting_for[i] = producers.size();
      for (GroupDrafts::Index producer : producers) readers[producer].push_back(i);
      if (producers.empty()) ready.push(entry(i));
    }
    std::vector<GroupDrafts::Index> order;
    while (!ready.empty()) {
      GroupDrafts::Index next = ready.top().second;
      ready.pop();
      order.push_back(next);
      for (GroupDrafts::Index reader : readers[next]) {
        if (--waiting_for[reader] == 0) ready.push(entry(reader));
      }
    }
    require(order.size() == living.size(), "fusion: groups depend on one another in a circle");
    return order;
  }

  EdgeVerdict verdict(NodeId from, NodeId to, ValueId value) const {
    EdgeVerdict edge;
    edge.from = from, edge.to = to, edge.value = value;
    const Type& type = fusion_nodes_.graph().value(value).type;
    if (type.is_tensor() && type.shape) edge.bytes = bytes_of(product(*type.shape), type.dtype);
    GroupDrafts::Index a = drafts_.of(from), b = drafts_.of(to);
    bool from_free = fusion_nodes_[from].transparent && options_.enabled,
         to_free = fusion_nodes_[to].transparent && options_.enabled;
    if (a != GroupDrafts::kNone && a == b) {
      edge.verdict = from_free || to_free ? Verdict::Free : Verdict::Fused;
      edge.reason = drafts_.all()[a].choice.hero == Hero::None
                        ? "one loop computes both"
                        : "both are part of one " + std::string(name_of(drafts_.all()[a].choice.hero));
      return edge;
    }
    bool read_through = from_free && !drafts_.materialised(from);
    if (read_through || (to_free && b == GroupDrafts::kNone)) {
      edge.verdict = Verdict::Free;
      edge.reason = std::string(read_through ? fusion_nodes_.graph().node(from).op
                                             : fusion_nodes_.graph().node(to).op) +
                    " is a change of index in whoever reads it";
      return edge;
    }
    edge.verdict = Verdict::Materialised;
    auto found = refused_.find({from, to});
    if (fusion_nodes_[from].is_host() || fusion_nodes_[to].is_host()) {
      edge.reason = fusion_nodes_[fusion_nodes_[from].is_host() ? from : to].why_host;
    } else if (found != refused_.end()) {
      edge.reason = found->second;
    } else {
      edge.reason = options_.enabled ? "their groups were complete" : "fusion is off";
    }
    return edge;
  }

  const FusionNodes& fusion_nodes_;
  const FusionOptions& options_;
  GroupDrafts drafts_;
  std::map<std::pair<NodeId, NodeId>, std::string> refused_;
};

}  // namespace

namespace {

// Groups that count on inputs being extended where they are, of those that then are.
Result<Grouping> grouped(const FusionNodes& fusion_nodes, const Target& target, const FusionOptions& options,
                         Extended& extended, DraftCache& cache) {
  while (true) {
    XYNTRA_TRY(Grouping grouping, Grouper(fusion_nodes, target, options, extended, cache).run());
    const Extensions made = find_extensions(fusion_nodes, grouping.groups, grouping.formulas);
    const auto missing = std::erase_if(extended, [&](const auto& pair) {
      return std::ranges::find(made.found, pair.first, &Extension::input) == made.found.end();
    });
    if (missing == 0) return grouping;
  }
}

}  // namespace

Result<Grouping> group_nodes(const FusionNodes& fusion_nodes, const Target& target,
                             const FusionOptions& options, DraftCache& cache) {
  Extended extended;
  if (target.kind != TargetKind::Cpu) extended = extended_by_nodes(fusion_nodes, options.donated);
  XYNTRA_TRY(Grouping grouping, grouped(fusion_nodes, target, options, extended, cache));
  if (!options.enabled) return grouping;
  FusionOptions with_stages = options;
  std::vector<LayoutChoice> choices;
  constexpr int kMostTimes = 4;  // each groups all nodes again
  for (int time = 0; time < kMostTimes;
       ++time) {  // a stage leaves its source to a group that may want one of its own
    const std::size_t stages = with_stages.stages.size();
    for (LayoutChoice& one : weigh_relayouts(fusion_nodes, grouping, target, with_stages)) {
      if (one.taken.way == LayoutChoice::Way::Stage) {
        with_stages.stages.emplace(fusion_nodes.graph().value(one.value).name,
                                   "a copy once is cheaper than strides in everyone who reads it");
      }
      std::erase_if(choices, [&](const LayoutChoice& before) { return before.value == one.value; });
      choices.push_back(std::move(one));
    }
    if (with_stages.stages.size() == stages) break;
    XYNTRA_TRY(grouping, grouped(fusion_nodes, target, with_stages, extended, cache));
  }
  std::ranges::sort(choices, comes_before);
  grouping.choices = std::move(choices);
  return grouping;
}

Result<Grouping> group_nodes(const FusionNodes& fusion_nodes, const Target& target,
                             const FusionOptions& options) {
  DraftCache cache;
  return group_nodes(fusion_nodes, target, options, cache);
}

}  // namespace xyntra
