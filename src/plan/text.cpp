#include "plan/text.h"

#include <algorithm>
#include <functional>

#include "ir/text_lexer.h"
#include "support/limits/threads.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

std::string spelled(std::string_view word) { return is_plain_word(word) ? std::string(word) : quote(word); }

template <class Items, class Spell>
std::string listed(const Items& items, Spell spell) {
  std::string text = "(";
  bool first = true;
  for (const auto& item : items) {
    if (!first) text += ", ";
    first = false;
    text += spell(item);
  }
  return text + ")";
}

std::string sized(const Dim& dim) { return "[" + dim.to_string() + "]"; }

class Printer {
 public:
  explicit Printer(const Lock& lock) : lock_(lock), plan_(lock.plan), graph_(lock.plan.graph) {}

  std::string run() {
    header();
    out_ += print_graph(graph_, lock_.weights);
    if (!plan_.derived_constants.outputs.empty())
      out_ += print_graph(plan_.derived_constants, lock_.derived_weights);
    for (const CertificateLine& line : plan_.certificate) certificate(line);
    for (const Assumption& one : plan_.assumptions)
      out_ += "assume " + spelled(one.symbol) + " = " + sized(one.equals) + "\n";
    for (const Group& one : plan_.groups) group(one);
    for (const EdgeVerdict& one : plan_.edges) edge(one);
    for (const ValueLayout& one : plan_.layouts)
      out_ += "layout " + value(one.value) + " " + quote(to_string(one.layout)) + "\n";
    for (const LayoutChoice& one : plan_.choices) choice(one);
    memory();
    out_ += "end\n";
    return std::move(out_);
  }

 private:
  std::string value(ValueId id) const {
    const std::string& name = graph_.value(id).name;
    return "%" + (is_plain_name(name) ? name : quote(name));
  }
  std::string node(NodeId id) const { return value(name_of_node(graph_, id)); }

  void header() {
    out_ += "xlock 4\n";
    out_ += "model " + quote(plan_.model_hash) + "\n";
    out_ += "target " + spelled(plan_.target) + " " + quote(plan_.target_hash) + "\n";
    out_ += "configuration " + quote(plan_.configuration_hash) + "\n";
    for (const auto& [symbol, size] : plan_.nominal)
      out_ += "nominal " + spelled(symbol) + " = " + std::to_string(size) + "\n";
  }

  void certificate(const CertificateLine& line) {
    out_ += "rule " + quote(line.rule) + " " + spelled(name_of(line.exactness)) + " from " +
            listed(line.origins, [](const std::string& origin) { return quote(origin); }) + " to " +
            quote(line.result) + "\n";
  }

  void group(const Group& group) {
    const auto by_value = [this](ValueId id) { return value(id); };
    out_ += "group " + spelled(name_of(group.hero)) + " {\n";
    out_ += "  nodes " + listed(group.nodes, [this](NodeId id) { return node(id); }) + "\n";
    out_ += "  inputs " + listed(group.inputs, by_value) + "\n";
    out_ += "  outputs " + listed(group.outputs, by_value) + "\n";
    out_ += "  schedule " + spelled(name_of(group.schedule.kind)) + " " +
            spelled(name_of(group.schedule.exactness)) + " {";
    bool first = true;
    for (const Knob& knob : group.schedule.knobs) {
      out_ += (first ? "" : ", ") + spelled(knob.name) + " = " + std::to_string(knob.value);
      first = false;
    }
    out_ += "}\n";
    if (!group.schedule.forms.empty())
      out_ += "  forms " +
              listed(group.schedule.forms, [](const std::string& form) { return spelled(form); }) + "\n";
    out_ += "  bytes_in " + sized(group.bytes_in) + "\n";
    out_ += "  bytes_out " + sized(group.bytes_out) + "\n";
    out_ += "  flops " + sized(group.flops) + "\n";
    out_ += "  scratch " + sized(group.scratch_bytes) + "\n";
    out_ += "  predicted_ns " + std::to_string(group.predicted_ns) + "\n";
    out_ += "  reason " + quote(group.reason) + "\n";
    out_ += "}\n";
  }

  void edge(const EdgeVerdict& edge) {
    out_ += "edge " + value(edge.value) + " to " + node(edge.to) + " " + spelled(name_of(edge.verdict)) +
            " " + sized(edge.bytes) + " " + quote(edge.reason) + "\n";
  }

  void choice(const LayoutChoice& choice) {
    const auto option = [](const LayoutChoice::Option& one) {
      return std::string(name_of(one.way)) + " " + std::to_string(one.ns);
    };
    out_ += "choice " + value(choice.value) + " " + option(choice.taken) + " not " + option(choice.other) +
            " " + quote(choice.reason) + "\n";
  }

  void memory() {
    for (const BufferAssignment& assignment : plan_.memory.assignments) {
      out_ += "buffer " + value(assignment.value) + " " + name_of(assignment.kind);
      if (assignment.kind == BufferAssignment::Kind::Arena) out_ += " " + std::to_string(assignment.slot);
      if (assignment.of.valid()) out_ += " of " + value(assignment.of);
      if (assignment.kind == BufferAssignment::Kind::View) out_ += " at " + sized(assignment.offset);
      out_ += "\n";
    }
    for (const Slot& slot : plan_.memory.slots) {
      out_ += "slot " + sized(slot.bytes) + " in " + std::to_string(slot.first) + ".." +
              std::to_string(slot.last) + " aligned " + std::to_string(slot.alignment) + "\n";
    }
    if (plan_.memory.order.empty()) return;
    out_ +=
        "order " + listed(plan_.memory.order, [](std::uint32_t slot) { return std::to_string(slot); }) + "\n";
  }

  const Lock& lock_;
  const Plan& plan_;
  const Graph& graph_;
  std::string out_;
};

}  // namespace

const std::string& HashCache::of(const Tensor& tensor) {
  std::string& hash = known_[{tensor.bytes().data(), tensor.dtype(), tensor.dims()}];
  if (hash.empty()) hash = tensor.content_hash();
  return hash;
}

void HashCache::add(const Tensor& tensor, std::string hash) {
  known_[{tensor.bytes().data(), tensor.dtype(), tensor.dims()}] = std::move(hash);
}

void HashCache::add(std::span<const Tensor> tensors) {
  std::vector<std::pair<const Tensor*, std::string*>> missing;
  for (const Tensor& tensor : tensors) {
    const auto [entry, fresh] = known_.try_emplace({tensor.bytes().data(), tensor.dtype(), tensor.dims()});
    if (fresh) missing.emplace_back(&tensor, &entry->second);
  }
  // The longest first, so that no thread is left with one of them in the end.
  std::ranges::stable_sort(missing, std::greater(),
                           [](const auto& one) { return one.first->bytes().size(); });
  ThreadPool::shared().parallel_for(0, std::ssize(missing), 2, [&](std::int64_t begin, std::int64_t end) {
    const auto& [tensor, hash] = missing[static_cast<std::size_t>(begin)];
    if (end == begin + 1) {
      *hash = tensor->content_hash();
      return;
    }
    const auto& [other, hash_of_other] = missing[static_cast<std::size_t>(begin + 1)];
    std::tie(*hash, *hash_of_other) = Tensor::content_hashes(*tensor, *other);
  });
}

WeightHashes hashes_of_weights(const Graph& graph, HashCache* cache) {
  HashCache own;
  HashCache& known = cache != nullptr ? *cache : own;
  std::vector<Tensor> constants;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Tensor& constant = graph.value(ValueId(i)).constant;
    if (!constant.defined() || constant.count() <= kInlineElements) continue;
    constants.push_back(constant);
    ids.emplace_back(i);
  }
  known.add(constants);
  WeightHashes hashes;
  for (std::size_t i = 0; i < ids.size(); ++i) hashes.emplace(ids[i], known.of(constants[i]));
  return hashes;
}

Lock lock_of(Plan plan, HashCache* cache) {
  Lock lock;
  lock.weights = hashes_of_weights(plan.graph, cache);
  lock.derived_weights = hashes_of_weights(plan.derived_constants, cache);
  lock.plan = std::move(plan);
  return lock;
}

std::string print_lock(const Lock& lock) { return Printer(lock).run(); }

}  // namespace xyntra
