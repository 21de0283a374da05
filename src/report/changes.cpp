#include "report/changes.h"

#include <algorithm>
#include <set>

#include "fusion/compose.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::int64_t kSmallerSizes[] = {64, 16, 1};

class CutJudge {
 public:
  CutJudge(const Plan& plan, const CompileOptions& options, const EdgeVerdict& cut,
           const FusionNodes& fusion_nodes)
      : plan_(plan), graph_(plan.graph), options_(options), cut_(cut), fusion_nodes_(fusion_nodes) {
    options_.fusion.choose.nominal = plan.nominal;
  }

  void judge(Why& why) {
    writer_ = group_that([this](const Group& group) {
      return std::ranges::find(group.outputs, cut_.value) != group.outputs.end();
    });
    reader_ = group_that([this](const Group& group) {
      return std::ranges::find(group.inputs, cut_.value) != group.inputs.end() &&
             std::ranges::find(group.nodes, cut_.to) != group.nodes.end();
    });
    if (writer_ == nullptr || reader_ == nullptr) return;
    find_other_readers();
    const std::int64_t bytes = nominal(cut_.bytes, options_.fusion.choose);
    why.bytes_saved = others_.empty() ? 2 * bytes : bytes;
    why.ns_saved = options_.target->estimate_ns(why.bytes_saved, 0, DType::F32, 1);
    if (writer_->hero == Hero::Host || reader_->hero == Hero::Host) {
      const NodeId host = writer_->hero == Hero::Host ? writer_->nodes.front() : reader_->nodes.front();
      why.changes.push_back("a formula for " + printable(graph_.node(host).op) +
                            ", so that a kernel could compute it");
    } else if (const std::string third = group_between(); !third.empty()) {
      why.changes.push_back("nothing may go from the one to the other through " + third);
    } else {
      try_changes(why.changes);
    }
  }

 private:
  template <class Condition>
  const Group* group_that(Condition condition) const {
    const auto found = std::ranges::find_if(plan_.groups, condition);
    return found == plan_.groups.end() ? nullptr : &*found;
  }

  void find_other_readers() {
    if (fusion_nodes_.is_output(cut_.value)) others_.push_back("the model's outputs");
    for (NodeId reader : fusion_nodes_.readers(cut_.value)) {
      if (std::ranges::find(reader_->nodes, reader) == reader_->nodes.end()) {
        others_.push_back(printable(short_title_of(graph_, reader)));
      }
    }
  }

  // A group that needs what the writer computes and computes what the reader needs.
  std::string group_between() const {
    std::set<ValueId> after(writer_->outputs.begin(), writer_->outputs.end());
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      const Group& group = plan_.groups[g];
      if (&group == writer_ || &group == reader_) continue;
      if (std::ranges::none_of(group.inputs, [&](ValueId value) { return after.contains(value); })) continue;
      for (ValueId output : group.outputs) {
        if (std::ranges::find(reader_->inputs, output) != reader_->inputs.end())
          return "group " + std::to_string(g);
        after.insert(output);
      }
    }
    return "";
  }

  te::Formula together(bool value_kept) const {
    std::set<NodeId> nodes(writer_->nodes.begin(), writer_->nodes.end());
    nodes.insert(reader_->nodes.begin(), reader_->nodes.end());
    std::vector<NodeId> order(nodes.begin(), nodes.end());
    std::ranges::sort(order, {}, [this](NodeId node) { return fusion_nodes_.position(node); });
    std::vector<ValueId> inputs, outputs;
    const auto add = [](std::vector<ValueId>& list, ValueId value) {
      if (std::ranges::find(list, value) == list.end()) list.push_back(value);
    };
    for (const Group* group : {writer_, reader_}) {
      for (ValueId input : group->inputs) {
        if (std::ranges::find(writer_->outputs, input) == writer_->outputs.end()) add(inputs, input);
      }
      for (ValueId output : group->outputs) {
        if (output != cut_.value || value_kept) add(outputs, output);
      }
    }
    return compose(fusion_nodes_, order, inputs, outputs);
  }

  static bool fits(const te::Formula& formula, const Target& target, const ChooseOptions& options) {
    return choose_schedule(formula, target, options).has_value();
  }

  void try_changes(std::vector<std::string>& changes) const {
    const te::Formula formula = together(!others_.empty());
    const ChooseOptions& choose = options_.fusion.choose;
    if (fits(formula, *options_.target, choose)) {
      changes.push_back(is_on(options_, "fuse")
                            ? "nothing is missing: a schedule for both exists, but it is not expected to pay"
                            : "fusion would have to be on");
      return;
    }
    if (!others_.empty() && fits(together(false), *options_.target, choose)) {
      changes.push_back("nobody else may read the value between them: " + joined(others_, ", ") + " does");
    }
    if (!choose.allow_reassociating) {
      ChooseOptions freer = choose;
      freer.allow_reassociating = true;
      if (fits(formula, *options_.target, freer)) changes.push_back("reassociation would have to be allowed");
    }
    try_targets(formula, changes);
    try_sizes(formula, changes);
    if (changes.empty()) changes.push_back("the computation itself: no target and no size changes this");
  }

  void try_targets(const te::Formula& formula, std::vector<std::string>& changes) const {
    std::vector<std::string> names;
    for (const Target& target : targets()) {
      if (fits(formula, target, options_.fusion.choose)) names.emplace_back(target.name);
    }
    if (!names.empty())
      changes.push_back("another target: " + joined(names, ", ") + " would run both in one kernel");
  }

  void try_sizes(const te::Formula& formula, std::vector<std::string>& changes) const {
    std::set<std::string> symbols;
    for (const te::BufferInfo& buffer : formula.buffers) {
      std::vector<std::string> found;
      for (const Dim& dim : buffer.shape) dim.collect_symbols(found);
      symbols.insert(found.begin(), found.end());
    }
    for (const std::string& symbol : symbols) {
      for (std::int64_t size : kSmallerSizes) {
        ChooseOptions smaller = options_.fusion.choose;
        smaller.nominal[symbol] = size;
        if (!fits(formula, *options_.target, smaller)) continue;
        changes.push_back("a smaller size: with " + printable(symbol) + "=" + std::to_string(size) +
                          " they would fit");
        break;
      }
    }
  }

  const Plan& plan_;
  const Graph& graph_;
  CompileOptions options_;
  const EdgeVerdict& cut_;
  const FusionNodes& fusion_nodes_;
  const Group* writer_ = nullptr;
  const Group* reader_ = nullptr;
  std::vector<std::string> others_;  // who reads the value, apart from the reader
};

}  // namespace

Status judge_cut(const Plan& plan, const CompileOptions& options, const EdgeVerdict& cut, Why& why) {
  XYNTRA_TRY(const FusionNodes fusion_nodes, FusionNodes::of(plan.graph, options.budget.get()));
  CutJudge(plan, options, cut, fusion_nodes).judge(why);
  return {};
}

}  // namespace xyntra
