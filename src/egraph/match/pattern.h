// Patterns: trees with holes, and the programs that find them in an e-graph.
//
//   Pattern pattern;                                        // x * 2
//   auto x = pattern.variable(0);
//   auto two = pattern.node(kNumber, PayloadMatch::fixed(2), {});
//   pattern.node(kMultiply, PayloadMatch::any(), {x, two}, Order::Either);
//
// The last part made is the root. A pattern is compiled into a short list of instructions over registers that
// hold classes; running it walks all choices of nodes by backtracking, as in de Moura and Bjørner,
// "Efficient E-matching for SMT solvers".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "egraph/egraph.h"
#include "support/ids.h"
#include "support/result.h"

namespace xyntra::egraph {

using PartId = Id<struct PartTag>;  // a part of a pattern
using Predicate = std::function<bool(const EGraph&, ClassId)>;

inline constexpr std::uint32_t kNoVariable = UINT32_MAX;

// What a node of a pattern asks of a payload, or what the node of a right-hand side gets.
struct PayloadMatch {
  enum class Kind : std::uint8_t { Any, Fixed, Variable };
  Kind kind = Kind::Any;
  std::uint32_t value = 0;  // the payload, or the number of the payload variable

  static PayloadMatch any() { return {}; }
  static PayloadMatch fixed(Payload payload) { return {Kind::Fixed, payload}; }
  static PayloadMatch variable(std::uint32_t number) { return {Kind::Variable, number}; }
};

enum class Order : std::uint8_t {
  Given,
  Either,  // a commutative operation: both orders of its two children match
};

struct Part {
  enum class Kind : std::uint8_t { Variable, Predicate, Node };
  Kind kind = Kind::Variable;
  std::uint32_t variable = kNoVariable;  // bound to the class matched; kNoVariable: not bound
  Head head = 0;  // Node
  PayloadMatch payload;
  Order order = Order::Given;
  std::uint32_t number = 0;  // Node: which of the pattern's nodes. Predicate: which of its predicates
  std::vector<PartId> children;
};

// A node of a pattern has exactly as many children as it is given: an operation of varying arity matches by count.
class Pattern {
 public:
  // The same variable twice must be the same class.
  PartId variable(std::uint32_t number);
  // Any class for which the client says yes, such as "a constant of about 0.5".
  PartId predicate(Predicate holds, std::uint32_t bind = kNoVariable);
  PartId node(Head head, PayloadMatch payload, std::span<const PartId> children, Order order = Order::Given,
              std::uint32_t bind = kNoVariable);
  PartId node(Head head, PayloadMatch payload, std::initializer_list<PartId> children,
              Order order = Order::Given, std::uint32_t bind = kNoVariable) {
    return node(head, payload, std::vector<PartId>(children), order, bind);
  }

  bool empty() const { return parts_.empty(); }
  PartId root() const { return PartId(parts_.size() - 1); }
  const Part& operator[](PartId part) const { return parts_[part.index]; }
  std::size_t size() const { return parts_.size(); }
  std::uint32_t variable_count() const { return variable_count_; }
  std::uint32_t payload_count() const { return payload_count_; }
  std::uint32_t node_count() const { return node_count_; }
  const Predicate& predicate_of(const Part& part) const { return predicates_[part.number]; }
  std::uint32_t height() const { return heights_.empty() ? 0 : heights_.back(); }  // of a lone node: 0

  // As a left-hand side: the root is a node, every part is used once, every number below the counts is bound.
  Status check_left() const;
  // As the right-hand side of `left`: no predicates, no free payloads, only variables that `left` binds.
  Status check_right(const Pattern& left) const;

 private:
  PartId push(Part part, std::uint32_t height);

  std::vector<Part> parts_;  // children before parents
  std::vector<std::uint32_t> heights_;
  std::vector<Predicate> predicates_;
  std::uint32_t variable_count_ = 0;
  std::uint32_t payload_count_ = 0;
  std::uint32_t node_count_ = 0;
};

// One way in which a pattern holds. A view: valid while the guard or applier it is handed to runs.
struct Match {
  ClassId root;
  std::span<const ClassId> classes;  // per variable, canonical
  // Per variable the term that right sides are built of: the oldest of its class, or, for a variable that names a Node
  // of the pattern, that node written with such terms.
  std::span<const TermId> terms;
  std::span<const Payload> payloads;  // per payload variable
  std::span<const TermId> nodes;  // per Node of the pattern, in the order made: the term of the node matched
  std::uint64_t swapped = 0;  // per Node a bit: matched in the other order

  TermId root_term() const { return nodes.back(); }
};

// The matches of one search, flat.
class MatchList {
 public:
  MatchList() = default;
  explicit MatchList(const Pattern& pattern)
      : variables_(pattern.variable_count()),
        payloads_(pattern.payload_count()),
        nodes_(pattern.node_count()) {}

  std::size_t size() const { return swapped_.size(); }
  void clear() {
    classes_flat_.clear();
    payloads_flat_.clear();
    nodes_flat_.clear();
    swapped_.clear();
  }
  void push(std::span<const ClassId> classes, std::span<const Payload> payloads,
            std::span<const TermId> nodes, std::uint64_t swapped);
  std::span<const ClassId> classes(std::size_t i) const {
    return std::span(classes_flat_).subspan(i * variables_, variables_);
  }
  std::span<const Payload> payloads(std::size_t i) const {
    return std::span(payloads_flat_).subspan(i * payloads_, payloads_);
  }
  std::span<const TermId> nodes(std::size_t i) const {
    return std::span(nodes_flat_).subspan(i * nodes_, nodes_);
  }
  std::uint64_t swapped(std::size_t i) const { return swapped_[i]; }

 private:
  std::size_t variables_ = 0;
  std::size_t payloads_ = 0;
  std::size_t nodes_ = 0;
  std::vector<ClassId> classes_flat_;
  std::vector<Payload> payloads_flat_;
  std::vector<TermId> nodes_flat_;
  std::vector<std::uint64_t> swapped_;
};

// A pattern compiled for searching. The e-graph searched must be rebuilt.
class Matcher {
 public:
  explicit Matcher(const Pattern& pattern);

  Head root_head() const { return root_head_; }
  // Appends every match rooted in this class; false once `limit` matches are in the list (the rest is left out).
  bool search_class(const EGraph& graph, ClassId root, std::size_t limit, MatchList& found) const;
  bool search(const EGraph& graph, std::size_t limit, MatchList& found) const;

 private:
  struct Instruction {
    enum class Kind : std::uint8_t { Bind, Compare, Check };
    Kind kind;
    std::uint32_t from = 0;  // the register looked at
    std::uint32_t other = 0;  // Bind: first register of the children. Compare: the other register
    PartId part;
    bool binds_payload = false;  // the payload variable is new here, else compared
  };
  struct Machine;
  void compile(PartId part, std::uint32_t from, std::vector<bool>& bound_payloads);
  void compile_children(const Part& node, std::uint32_t first, std::vector<bool>& bound_payloads);
  void step(Machine& machine, std::size_t at) const;
  void choose(Machine& machine, std::size_t at) const;

  Pattern pattern_;
  Head root_head_ = 0;
  std::uint32_t register_count_ = 1;
  std::vector<Instruction> program_;
  std::vector<std::uint32_t> variable_registers_;
};

}  // namespace xyntra::egraph
