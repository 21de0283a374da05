#include <algorithm>
#include <array>
#include <utility>

#include "egraph/match/pattern.h"
#include "support/limits/current_budget.h"

namespace xyntra::egraph {

// The state of one search: registers, and what the match found so far is made of.
struct Matcher::Machine {
  const EGraph& graph;
  std::size_t limit;
  MatchList& found;
  std::vector<ClassId> registers;
  std::vector<ClassId> classes;  // scratch for a finished match
  std::vector<Payload> payloads;
  std::vector<TermId> nodes;
  std::uint64_t swapped = 0;
  bool full = false;
};

Matcher::Matcher(const Pattern& pattern) : pattern_(pattern) {
  require(pattern.check_left().has_value(), "a pattern was compiled that is not a left side");
  root_head_ = pattern_[pattern_.root()].head;
  variable_registers_.assign(pattern_.variable_count(), kNoVariable);
  std::vector<bool> bound_payloads(pattern_.payload_count(), false);
  compile(pattern_.root(), 0, bound_payloads);
}

void Matcher::compile(PartId id, std::uint32_t from, std::vector<bool>& bound_payloads) {
  const Part& part = pattern_[id];
  if (part.variable != kNoVariable) {
    std::uint32_t& known = variable_registers_[part.variable];
    if (known == kNoVariable) {
      known = from;
    } else {
      program_.push_back({Instruction::Kind::Compare, from, known, id, false});
    }
  }
  if (part.kind == Part::Kind::Variable) return;
  if (part.kind == Part::Kind::Predicate) {
    program_.push_back({Instruction::Kind::Check, from, 0, id, false});
    return;
  }
  Instruction bind{Instruction::Kind::Bind, from, register_count_, id, false};
  if (part.payload.kind == PayloadMatch::Kind::Variable) {
    bind.binds_payload = !bound_payloads[part.payload.value];
    bound_payloads[part.payload.value] = true;
  }
  program_.push_back(bind);
  register_count_ += static_cast<std::uint32_t>(part.children.size());
  compile_children(part, bind.other, bound_payloads);
}

// What can fail without opening another class comes first, then constants and the like, then the rest.
void Matcher::compile_children(const Part& node, std::uint32_t first, std::vector<bool>& bound_payloads) {
  const auto rank_of = [&](const Part& part) {
    if (part.kind != Part::Kind::Node) return 0;
    return part.children.empty() ? 1 : 2;
  };
  for (int rank = 0; rank < 3; ++rank) {
    for (std::uint32_t i = 0; i < node.children.size(); ++i) {
      if (rank_of(pattern_[node.children[i]]) == rank) compile(node.children[i], first + i, bound_payloads);
    }
  }
}

void Matcher::step(Machine& machine, std::size_t at) const {
  for (; at < program_.size(); ++at) {
    const Instruction& instruction = program_[at];
    const ClassId looked_at = machine.registers[instruction.from];
    switch (instruction.kind) {
      case Instruction::Kind::Compare:
        if (looked_at != machine.registers[instruction.other]) return;
        break;
      case Instruction::Kind::Check:
        if (!pattern_.predicate_of(pattern_[instruction.part])(machine.graph, looked_at)) return;
        break;
      case Instruction::Kind::Bind: choose(machine, at); return;
    }
  }
  for (std::size_t i = 0; i < variable_registers_.size(); ++i) {
    machine.classes[i] = machine.registers[variable_registers_[i]];
  }
  machine.found.push(machine.classes, machine.payloads, machine.nodes, machine.swapped);
  machine.full = machine.found.size() >= machine.limit;
}

// Tries every node of the class that fits, in both orders where that is asked, each with the rest of the program.
void Matcher::choose(Machine& machine, std::size_t at) const {
  const Instruction& instruction = program_[at];
  const Part& part = pattern_[instruction.part];
  const std::uint64_t bit = std::uint64_t{1} << part.number;
  for (const ENode& node : machine.graph.nodes(machine.registers[instruction.from], part.head)) {
    if (machine.full) return;
    if (node.children.size() != part.children.size()) continue;
    if (part.payload.kind == PayloadMatch::Kind::Fixed && node.payload != part.payload.value) continue;
    if (part.payload.kind == PayloadMatch::Kind::Variable) {
      if (!instruction.binds_payload && machine.payloads[part.payload.value] != node.payload) continue;
      machine.payloads[part.payload.value] = node.payload;
    }
    machine.nodes[part.number] = node.term;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      machine.registers[instruction.other + i] = node.children[i];
    }
    machine.swapped &= ~bit;
    step(machine, at + 1);
    if (part.order == Order::Given || node.children[0] == node.children[1] || machine.full) continue;
    // The rest of the program overwrote what lies behind this node; its own entries are set again.
    if (instruction.binds_payload) machine.payloads[part.payload.value] = node.payload;
    machine.nodes[part.number] = node.term;
    machine.registers[instruction.other] = node.children[1];
    machine.registers[instruction.other + 1] = node.children[0];
    machine.swapped |= bit;
    step(machine, at + 1);
    machine.swapped &= ~bit;
  }
}

bool Matcher::search_class(const EGraph& graph, ClassId root, std::size_t limit, MatchList& found) const {
  poll_limits();
  if (found.size() >= limit) return false;
  Machine machine{graph, limit, found, {}, {}, {}, {}, 0, false};
  machine.registers.resize(register_count_);
  machine.classes.resize(pattern_.variable_count());
  machine.payloads.resize(pattern_.payload_count());
  machine.nodes.resize(pattern_.node_count());
  machine.registers[0] = graph.find(root);
  step(machine, 0);
  return !machine.full;
}

bool Matcher::search(const EGraph& graph, std::size_t limit, MatchList& found) const {
  for (const ClassId root : graph.classes_with(root_head_)) {
    if (!search_class(graph, root, limit, found)) return false;
  }
  return true;
}

}  // namespace xyntra::egraph
