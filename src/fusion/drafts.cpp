#include "fusion/drafts.h"

#include <algorithm>
#include <set>

#include "fusion/compose.h"
#include "schedule/analysis/waiting.h"
#include "schedule/cost.h"
#include "schedule/main_loops.h"
#include "support/limits/stop_at_internal_errors.h"
#include "support/text/text.h"
#include "te/cost/code_size.h"
#include "te/walk.h"

namespace xyntra {

using te::BufferInfo;
using te::BufferRole;

namespace {

constexpr const char* kTooLong = "the kernel would be too long for a driver's compiler";

tl::unexpected<std::string> no(std::string reason) { return tl::make_unexpected(std::move(reason)); }

bool multiplies_integers(const te::Formula& formula) {
  return std::ranges::any_of(formula.stages, [](const te::Stage& stage) {
    return stage.reducer == te::Reducer::Sum && !stage.reduction.empty() && stage.body.dtype() == DType::I32;
  });
}

bool runs_alone(const GroupDraft& draft) { return draft.choice.schedule.kind == ScheduleKind::Stages; }

// Work that has a schedule of its own, and would lose it among stages that run one after another.
bool has_main_loop(const GroupDraft& draft) {
  const Hero hero = draft.choice.hero;
  return !runs_alone(draft) && (hero == Hero::Contraction || hero == Hero::Window || hero == Hero::Attention);
}

// By its hero: a schedule is for just these.
MainLoops main_loops_of(const GroupDraft& draft) {
  if (runs_alone(draft)) return {};
  switch (draft.choice.hero) {
    case Hero::Attention: return {2, 0};
    case Hero::Contraction: return {1, 0};
    case Hero::Window: return {0, 1};
    default: return {};
  }
}

}  // namespace

std::string in_units(std::int64_t ns) {
  if (ns < 10'000) return std::to_string(ns) + " ns";
  return std::to_string(ns / 1000) + " us";
}

GroupDrafts::GroupDrafts(const FusionNodes& fusion_nodes, const Target& target, const FusionOptions& options,
                         Extended extended, DraftCache& cache)
    : fusion_nodes_(fusion_nodes),
      target_(target),
      options_(options),
      extended_(std::move(extended)),
      owner_(fusion_nodes.graph().node_count(), kNone),
      materialised_(fusion_nodes.graph().node_count(), false),
      cache_(cache) {
  for (NodeId node : fusion_nodes.order()) {
    if (!fusion_nodes[node].live) continue;
    bool needed = !fusion_nodes[node].transparent || !options.enabled || !why_stage(node).empty();
    for (ValueId output : fusion_nodes.graph().node(node).outputs) {
      if (!output.valid()) continue;
      needed = needed || fusion_nodes.is_output(output);
      for (NodeId reader : fusion_nodes.readers(output)) needed = needed || fusion_nodes[reader].is_host();
    }
    materialised_[node.index] = needed;
  }
}

const std::string& GroupDrafts::why_stage(NodeId node) const {
  static const std::string kNot;
  if (options_.stages.empty()) return kNot;
  const ValueId name = name_of_node(fusion_nodes_.graph(), node);
  auto found =
      name.valid() ? options_.stages.find(fusion_nodes_.graph().value(name).name) : options_.stages.end();
  return found == options_.stages.end() ? kNot : found->second;
}

std::vector<std::string> GroupDrafts::names_of(const std::vector<NodeId>& nodes) const {
  std::vector<std::string> names;
  for (NodeId node : nodes) {
    if (const ValueId name = name_of_node(fusion_nodes_.graph(), node); name.valid())
      names.push_back(fusion_nodes_.graph().value(name).name);
  }
  std::ranges::sort(names);
  return names;
}

// The node and, before it, the changes of index it reads through; what else it reads is an input.
void GroupDrafts::gather(NodeId node, const NodeSet& core, NodeSet& taken, GroupDraft& draft) const {
  if (!taken.insert(node).second) return;
  for (ValueId value : fusion_nodes_[node].reads) {
    if (fusion_nodes_.is_number(value) && !fusion_nodes_[node].is_host()) continue;
    NodeId producer = fusion_nodes_.graph().value(value).producer;
    // One that is in memory anyway is read from there: its source may never be.
    bool through = producer.valid() && fusion_nodes_[producer].transparent && !materialised_[producer.index];
    if (producer.valid() && (core.count(producer) || through)) {
      gather(producer, core, taken, draft);
    } else if (std::find(draft.inputs.begin(), draft.inputs.end(), value) == draft.inputs.end()) {
      draft.inputs.push_back(value);
    }
  }
  draft.nodes.push_back(node);
}

bool GroupDrafts::needed_outside(ValueId value, const NodeSet& core) const {
  if (fusion_nodes_.is_output(value)) return true;
  for (NodeId reader : fusion_nodes_.readers(value)) {
    if (core.count(reader)) continue;
    if (materialised_[reader.index]) return true;
    for (ValueId output : fusion_nodes_.graph().node(reader).outputs) {  // a change of index: who reads it?
      if (output.valid() && needed_outside(output, core)) return true;
    }
  }
  return false;
}

// Bytes that really move: a slice of a buffer is not the buffer.
void GroupDrafts::count_bytes(GroupDraft& draft) const {
  std::map<std::uint32_t, Dim> touched;
  for (const te::Stage& stage : draft.formula.stages) {
    std::set<std::vector<std::uint32_t>> seen;
    te::for_each_node(stage, [&](const te::ExprNode& node) {
      if (!te::is_load(node)) return;
      std::set<te::VarId> variables;
      for (const te::Expr& index : te::index_of(node)) {
        for (te::VarId variable : te::variables_of(index)) variables.insert(variable);
      }
      std::vector<std::uint32_t> key{node.buffer.index};
      Dim elements = 1;
      for (te::VarId variable : variables) {
        key.push_back(variable.index);
        elements = elements * draft.formula.variable(variable).extent;
      }
      if (seen.insert(key).second) {
        Dim& sum = touched.try_emplace(node.buffer.index, 0).first->second;
        sum = sum + elements;
      }
    });
  }
  draft.bytes_in = 0, draft.bytes_out = 0;
  for (const BufferInfo& buffer : draft.formula.buffers) {
    if (buffer.role == BufferRole::Temporary) continue;
    Dim whole = bytes_of(buffer);
    if (buffer.role == BufferRole::Output) {
      draft.bytes_out = draft.bytes_out + whole;
      continue;
    }
    auto found = touched.find(buffer.id.index);
    Dim part = found == touched.end() ? Dim(0) : bytes_of(found->second, buffer.dtype);
    bool less = nominal(part, options_.choose) < nominal(whole, options_.choose);
    draft.bytes_in = draft.bytes_in + (less ? part : whole);
  }
}

tl::expected<GroupDraft, std::string> GroupDrafts::drafted(std::vector<NodeId> core, bool merged) const {
  GroupDraft draft;
  std::sort(core.begin(), core.end(),
            [this](NodeId a, NodeId b) { return fusion_nodes_.position(a) < fusion_nodes_.position(b); });
  draft.core = std::move(core);
  NodeSet in_core(draft.core.begin(), draft.core.end()), taken;
  for (NodeId node : draft.core) gather(node, in_core, taken, draft);
  std::sort(draft.nodes.begin(), draft.nodes.end(),
            [this](NodeId a, NodeId b) { return fusion_nodes_.position(a) < fusion_nodes_.position(b); });
  for (NodeId node : draft.core) {
    for (ValueId output : fusion_nodes_.graph().node(node).outputs) {
      if (output.valid() && needed_outside(output, in_core)) draft.outputs.push_back(output);
    }
  }
  const FusionNode& first = fusion_nodes_[draft.core.front()];
  if (first.is_host()) {
    draft.choice.hero = Hero::Host;
    draft.choice.schedule.kind = ScheduleKind::Host;
    return draft;
  }
  auto [entry, fresh] = cache_.found.try_emplace(key_of(draft, merged));
  DraftCache::Found& found = entry->second;
  if (fresh) {
    compose_and_decide(draft, merged, found);
    found.formula = std::move(draft.formula);
    found.bytes_in = draft.bytes_in, found.bytes_out = draft.bytes_out;
  }
  if (found.fallback && std::ranges::find(fallbacks_, *found.fallback) == fallbacks_.end())
    fallbacks_.push_back(*found.fallback);
  if (!found.decision) return no(found.decision.error().reason);
  draft.choice = *found.decision;
  draft.formula = found.formula;
  draft.bytes_in = found.bytes_in, draft.bytes_out = found.bytes_out;
  draft.code = found.code;
  return draft;
}

// A merge that we fail at costs the fusion, not the model.
void GroupDrafts::compose_and_decide(GroupDraft& draft, bool merged, DraftCache::Found& found) const {
  try {
    draft.formula = compose(fusion_nodes_, draft.nodes, draft.inputs, draft.outputs);
    found.decision = decided(draft, merged);
    if (found.decision) found.code = code_of(draft.formula, found.decision->schedule);
    if (found.code > options_.max_code && draft.core.size() > 1)
      found.decision = tl::make_unexpected(Refusal{kTooLong});
    if (found.decision) count_bytes(draft);
  } catch (const InternalError& error) {
    if (draft.core.size() == 1 || stops_at_internal_errors()) throw;
    found.decision = tl::make_unexpected(Refusal{"we fail to make one kernel of them: " + error.message()});
    found.fallback = Fallback{joined(names_of(draft.core), " "), "one kernel of them", error.message()};
  }
}

// Which copies a kernel has of what it computes is seen in the kernel itself; most have none that matter.
std::int64_t GroupDrafts::code_of(const te::Formula& formula, const Schedule& schedule) const {
  constexpr std::int64_t kMostCopies = 64;
  if (target_.kind == TargetKind::Cpu) return 0;
  const std::int64_t once = te::code_size(formula);
  if (once > options_.max_code || once * kMostCopies <= options_.max_code) return once;
  try {
    if (!options_.kernel_code_size) return once;
    return options_.kernel_code_size(formula, schedule, target_, options_.choose.nominal).value_or(once);
  } catch (const InternalError&) {
    return once;  // the same will be found where the group is lowered, if it stays one
  }
}

Decision GroupDrafts::decided(const GroupDraft& draft, bool merged) const {
  te::Formula formula = draft.formula;
  leave_out_copies(formula, draft.inputs, draft.outputs, extended_);
  const bool extends = formula.stages.size() < draft.formula.stages.size();
  const bool read = std::ranges::any_of(formula.buffers, [&](const BufferInfo& buffer) {
    return buffer.role == BufferRole::Input &&
           extended_.contains(draft.inputs.at(static_cast<std::size_t>(buffer.position)));
  });
  if (merged && extends && read)
    return tl::make_unexpected(Refusal{"an in-place KV cache is read by whoever comes after"});
  if (!merged) return choose_for_one(formula, target_, options_.choose);
  Decision chosen = choose_schedule(formula, target_, options_.choose);
  if (chosen && chosen->hero == Hero::Attention && target_.kind == TargetKind::Cpu &&
      target_.matrix_unit(DType::I8) != nullptr && multiplies_integers(formula)) {
    return tl::make_unexpected(Refusal{"int8 GEMMs have a unit that attention does not use"});
  }
  return chosen;
}

DraftCache::Key GroupDrafts::key_of(const GroupDraft& draft, bool merged) const {
  DraftCache::Key key = structure_of(fusion_nodes_, draft.nodes, draft.inputs, draft.outputs);
  key.push_back(merged);
  key.push_back(draft.core.size() > 1);  // the length of what cannot be taken apart is not bounded
  for (std::size_t i = 0; i < draft.inputs.size(); ++i) {
    if (extended_.contains(draft.inputs[i])) key.push_back(i);
  }
  return key;
}

GroupDrafts::Index GroupDrafts::add(GroupDraft draft) {
  Index index = drafts_.size();
  for (NodeId node : draft.core) {
    if (owner_[node.index] != kNone) drafts_[owner_[node.index]].alive = false;
    owner_[node.index] = index;
  }
  drafts_.push_back(std::move(draft));
  return index;
}

tl::expected<GroupDrafts::Index, std::string> GroupDrafts::make(std::vector<NodeId> core,
                                                                std::string reason) {
  bool merged = core.size() > 1;
  auto draft = drafted(std::move(core), merged);
  if (!draft) return no(std::move(draft.error()));
  draft->reason = std::move(reason);
  return add(std::move(*draft));
}

std::vector<GroupDrafts::Index> GroupDrafts::producers(Index reader) const {
  std::vector<Index> found;
  for (ValueId input : drafts_[reader].inputs) {
    NodeId producer = fusion_nodes_.graph().value(input).producer;
    if (!producer.valid()) continue;
    Index owner = owner_[producer.index];
    if (owner != kNone && owner != reader && std::find(found.begin(), found.end(), owner) == found.end()) {
      found.push_back(owner);
    }
  }
  return found;
}

// Whether a group other than the two lies on a way from one to the other: then they cannot become one.
bool GroupDrafts::path_around(Index from, Index to) const {
  std::size_t last = fusion_nodes_.position(drafts_[to].core.back());
  std::set<Index> seen{from};
  std::vector<Index> waiting{from};
  NodeSet through;
  auto readers = [&](ValueId value, const auto& self, std::vector<Index>& found) -> void {
    for (NodeId reader : fusion_nodes_.readers(value)) {
      if (Index owner = owner_[reader.index]; owner != kNone) found.push_back(owner);
      if (!fusion_nodes_[reader].transparent || !through.insert(reader).second) continue;
      for (ValueId output : fusion_nodes_.graph().node(reader).outputs) {
        if (output.valid()) self(output, self, found);
      }
    }
  };
  while (!waiting.empty()) {
    Index group = waiting.back();
    waiting.pop_back();
    through.clear();  // a change of index that is a group too is read from there as well
    std::vector<Index> next;
    for (NodeId node : drafts_[group].core) {
      for (ValueId output : fusion_nodes_.graph().node(node).outputs) {
        if (output.valid()) readers(output, readers, next);
      }
    }
    for (Index reader : next) {
      if (reader == to && group != from) return true;
      if (reader == to || fusion_nodes_.position(drafts_[reader].core.front()) > last) continue;
      if (seen.insert(reader).second) waiting.push_back(reader);
    }
  }
  return false;
}

bool GroupDrafts::depends(Index reader, Index on) const {
  std::set<Index> seen{reader};
  std::vector<Index> waiting{reader};
  std::size_t first = fusion_nodes_.position(drafts_[on].core.front());
  while (!waiting.empty()) {
    Index group = waiting.back();
    waiting.pop_back();
    for (Index producer : producers(group)) {
      if (producer == on) return true;
      if (fusion_nodes_.position(drafts_[producer].core.back()) < first) continue;
      if (seen.insert(producer).second) waiting.push_back(producer);
    }
  }
  return false;
}

// Costs that are told from what loops do are right give or take a part: a fusion has to save some of what the smaller one takes, and
// nothing may be lost by one core, which saves no launch. Floors of two launches and of one can be compared as they are.
std::optional<std::string> GroupDrafts::slower_together(const Choice& a, const Choice& b,
                                                        const Choice& together, bool alone) const {
  const auto is_main = [](const Choice& choice) {
    return choice.hero == Hero::Contraction || choice.hero == Hero::Window;
  };
  // A quarter; less of an epilogue, which spares a way through memory for sure.
  const std::int64_t part = is_main(a) && b.hero == Hero::None ? 10 : 4;
  const bool counted = a.counted && b.counted && together.counted;
  auto slower = [&](std::int64_t Choice::* ns, bool has_to_save,
                    std::string_view by) -> std::optional<std::string> {
    const std::int64_t apart = a.*ns + b.*ns, time = together.*ns;
    const std::int64_t due = has_to_save ? std::min(a.*ns, b.*ns) / part : 0;
    if (time <= apart - due) return std::nullopt;
    return "together they would take " + in_units(time) + ", apart " + in_units(apart) + std::string(by);
  };
  if (!counted) {
    auto found = slower(&Choice::floor_ns, false, "");
    if (found || !hides_waiting(target_)) return found;
    return slower(&Choice::one_core_ns, false, " on the device itself");
  }
  if (auto found = slower(&Choice::predicted_ns, !alone, "")) return found;
  return slower(&Choice::one_core_ns, false, ", by one core");
}

tl::expected<GroupDrafts::Index, std::string> GroupDrafts::merge(Index producer, Index reader) {
  const GroupDraft &a = drafts_[producer], &b = drafts_[reader];
  if (a.choice.hero == Hero::Host) return no(fusion_nodes_[a.core.front()].why_host);
  if (b.choice.hero == Hero::Host) return no(fusion_nodes_[b.core.front()].why_host);
  if (a.core.size() + b.core.size() > options_.max_nodes) {
    return no("the group would have more than " + std::to_string(options_.max_nodes) + " nodes");
  }
  // Composing is what takes time: a reader of a thousand values is not composed with each of them in vain.
  if (a.code + b.code > options_.max_code || a.code >= b.too_long_from) return no(kTooLong);
  for (const GroupDraft* draft : {&a, &b}) {
    if (const std::string& why = why_stage(draft->core.front()); !why.empty()) return no(why);
  }
  if (path_around(producer, reader)) return no("a value goes from one to the other through a third group");
  std::vector<NodeId> core = a.core;
  core.insert(core.end(), b.core.begin(), b.core.end());
  if (!options_.apart.empty()) {
    if (auto found = options_.apart.find(names_of(core)); found != options_.apart.end())
      return no(found->second);
  }
  bool alone = runs_alone(a) || runs_alone(b);
  if (alone && (has_main_loop(a) || has_main_loop(b))) {
    return no("the " + std::string(name_of(has_main_loop(a) ? a.choice.hero : b.choice.hero)) +
              " has a loop of its own, which stages that run one after another have not");
  }
  // Layers that follow one another are the most common case, and need not be composed for this.
  const MainLoops of_a = main_loops_of(a), of_b = main_loops_of(b);
  if (auto why = too_many({of_a.contractions + of_b.contractions, of_a.windows + of_b.windows}))
    return no(std::move(*why));
  auto draft = drafted(std::move(core), !alone);
  if (!draft) {
    if (draft.error() == kTooLong) drafts_[reader].too_long_from = a.code;
    return no(std::move(draft.error()));
  }
  if (alone && draft->formula.stages.size() > std::max(a.formula.stages.size(), b.formula.stages.size())) {
    return no("a " + std::string(name_of(runs_alone(a) ? a.choice.hero : b.choice.hero)) +
              " runs its stages one after another and takes only what vanishes into them");
  }
  if (auto worse = slower_together(a.choice, b.choice, draft->choice, alone)) return no(std::move(*worse));
  draft->reason = a.reason.size() > b.reason.size() ? a.reason : b.reason;
  return add(std::move(*draft));
}

tl::expected<GroupDrafts::Index, std::string> GroupDrafts::join(Index a, Index b) {
  const GroupDraft &first = drafts_[a], &second = drafts_[b];
  if (first.core.size() + second.core.size() > options_.max_nodes) return no("the group would be too large");
  if (first.code + second.code > options_.max_code) return no(kTooLong);
  if (depends(b, a) || depends(a, b)) return no("one needs a value of the other");
  std::vector<NodeId> core = first.core;
  core.insert(core.end(), second.core.begin(), second.core.end());
  auto draft = drafted(std::move(core), false);
  if (!draft) return no(std::move(draft.error()));
  std::size_t buffers = draft->inputs.size() + draft->outputs.size();
  if (static_cast<std::int64_t>(buffers) > target_.storage_buffers)
    return no("it would need too many buffers");
  draft->choice = first.choice;
  if (second.choice.hero == Hero::None) draft->choice.hero = Hero::None;
  draft->choice.schedule = {ScheduleKind::Horizontal, Exactness::Exact, {}};
  draft->choice.flops = first.choice.flops + second.choice.flops;
  draft->choice.predicted_ns =
      std::max({first.choice.predicted_ns, second.choice.predicted_ns,
                first.choice.predicted_ns + second.choice.predicted_ns -
                    launch_of(target_, std::min(first.choice.predicted_ns, second.choice.predicted_ns))});
  draft->bytes_in = first.bytes_in + second.bytes_in;
  draft->bytes_out = first.bytes_out + second.bytes_out;
  draft->reason = "independent loops horizontally fused in one launch";
  return add(std::move(*draft));
}

}  // namespace xyntra
