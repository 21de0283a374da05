// An e-graph: many equal ways to write a program, held at once.
//
// A class is a set of nodes known to be equal; a node is an operation whose children are classes, so one
// class stands for every term that can be read off below it. Adding hash-conses; unite() says that two terms
// are equal; rebuild() closes that under congruence: equal children make equal nodes.
//
//   TermId x = graph.add(kInput, 0, {}), two = graph.add(kNumber, 2, {});
//   TermId product = graph.add(kMultiply, 0, {x, two});
//   TermId shift = graph.add(kShiftLeft, 0, {x, graph.add(kNumber, 1, {})});
//   graph.unite(product, shift, graph.reason("times-two"));
//   graph.rebuild();                       // now class_of(product) == class_of(shift), with two nodes
//
// The library knows no operation: a Head says which it is and is what patterns look at, a Payload says which
// attributes or constant and is opaque. An operation of several results is a node that stands for their
// tuple, and a projection is a node with the position as its payload: nothing special.
//
// Order is fixed by the calls made, never by the hashing: classes and nodes are walked in the order of their
// numbers, and the seed of the hash can be varied to prove it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "egraph/hash_index.h"
#include "egraph/proof_forest.h"
#include "egraph/stable_pool.h"
#include "support/ids.h"

namespace xyntra::egraph {

using ClassId = Id<struct ClassTag>;  // a class; EGraph::find gives the canonical one
using Head = std::uint32_t;           // which operation
using Payload = std::uint32_t;        // which attributes or constant; interned by the client

// A node of a class. The view is valid until the next add, unite or rebuild.
struct ENode {
  Head head = 0;
  Payload payload = 0;
  TermId term;                         // the term it was first written as
  std::span<const ClassId> children;  // canonical after rebuild()
};

class EGraph;

// Facts about classes (a type, a constant), stored by the client in arrays indexed by the number of a class.
class Analysis {
 public:
  virtual ~Analysis() = default;
  // A class was made for this node.
  virtual void made(const EGraph&, ClassId, const ENode&) {}
  // `from` went into `into`: join their facts. True when those of `into` changed, so that users of both are
  // looked at again (users of `from` always are).
  virtual bool merged(EGraph&, ClassId /*into*/, ClassId /*from*/) { return false; }
  // Facts of a child changed: join what this node now says into the facts of its class; true when they changed.
  virtual bool remade(const EGraph&, ClassId, const ENode&) { return false; }
  // Called during rebuild() for a class that is new, was merged or whose facts changed. May add and unite, as
  // constant folding does.
  virtual void settled(EGraph&, ClassId) {}
};

// How a rule was applied: enough to say later what it matched. See rule.h.
struct Application {
  std::span<const TermId> nodes;  // per Node of the pattern, in its order: the term matched
  std::span<const TermId> variables;  // per variable: the term that stands for it
  std::span<const Payload> payloads;  // per payload variable
  std::uint64_t swapped =
      0;  // per Node of the pattern a bit: its two children were matched in the other order
};

class EGraph {
 public:
  explicit EGraph(Analysis* analysis = nullptr, std::uint64_t hash_seed = 0);
  EGraph(const EGraph&) = delete;
  EGraph& operator=(const EGraph&) = delete;

  TermId add(Head head, Payload payload, std::span<const TermId> children);
  TermId add(Head head, Payload payload, std::initializer_list<TermId> children) {
    return add(head, payload, std::vector<TermId>(children));
  }
  // Says that two terms are equal; false when that was known. Classes merge at once, congruence waits for rebuild().
  bool unite(TermId a, TermId b, Justification why);
  void rebuild();
  bool rebuilt() const {
    return pending_.empty() && revisit_.empty() && unsettled_.empty() && dirty_.empty();
  }
  // Facts kept outside of an Analysis changed: searches look at the class again.
  void touch(ClassId id);

  // Names a reason for unite(); the same name gives the same reason.
  Justification reason(std::string_view name);
  std::string_view reason_name(Justification why) const;
  Justification applied(Justification reason, const Application& application);
  const Application& application(Justification why) const { return applications_[why.record]; }

  // Terms: what was added, as it was written.
  std::size_t term_count() const { return terms_.size(); }
  Head head(TermId term) const { return terms_[term.index].head; }
  Payload payload(TermId term) const { return terms_[term.index].payload; }
  std::span<const TermId> children(TermId term) const { return terms_[term.index].children; }
  ClassId class_of(TermId term) const { return find(terms_[term.index].class_id); }
  bool equal(TermId a, TermId b) const { return class_of(a) == class_of(b); }

  // Classes. Numbers are given in order of making; class_limit() is above all of them.
  ClassId find(ClassId id) const;
  std::size_t class_limit() const { return classes_.size(); }
  std::size_t class_count() const { return class_count_; }
  std::vector<ClassId> classes() const;  // canonical ones in order
  std::span<const ENode> nodes(ClassId id) const { return classes_[find(id).index].nodes; }
  std::span<const ENode> nodes(ClassId id, Head head) const;  // only after rebuild(): those of one head
  std::span<const TermId> parents(ClassId id) const {
    return classes_[find(id).index].parents;
  }  // may repeat
  ENode node(TermId term) const;  // the term with the classes of its children; only for terms in nodes()
  TermId representative(ClassId id) const { return classes_[find(id).index].oldest; }  // the oldest term
  const std::vector<ClassId>& classes_with(Head head) const;  // canonical and in order after rebuild()
  std::size_t node_count() const { return memo_.size(); }
  // The class that holds this node, or an invalid id.
  ClassId lookup(Head head, Payload payload, std::span<const ClassId> children) const;

  // Counts merges and changes of facts; stamp(class) is its value when the class, its nodes or its facts last changed.
  std::uint64_t clock() const { return clock_; }
  std::uint64_t stamp(ClassId id) const { return classes_[find(id).index].stamp; }

  Analysis* analysis() const { return analysis_; }
  const ProofForest& proofs() const { return proofs_; }

 private:
  struct Term {
    Head head;
    Payload payload;
    ClassId class_id;
    bool owns_node = false;  // it stands in nodes() of its class; false: a node equal to it does
    bool revisiting = false;  // it waits in revisit_
    std::span<const TermId> children;
    std::span<ClassId> node_children;  // when it owns a node, or did
  };
  struct Class {
    std::vector<ENode> nodes;  // by head, then by term, after rebuild()
    std::vector<TermId> parents;  // terms with a child in this class
    TermId oldest;
    std::uint32_t term_count = 0;
    std::uint64_t stamp = 0;
    bool unsettled = false;  // it waits in unsettled_
    bool dirty = false;  // it waits in dirty_
  };

  std::uint64_t hash_of(Head head, Payload payload, std::span<const TermId> children) const;
  std::uint64_t hash_of(Head head, Payload payload, std::span<const ClassId> children) const;
  std::uint32_t find_node(std::uint64_t hash, Head head, Payload payload,
                          std::span<const ClassId> children) const;
  void make_class(TermId term, std::uint64_t hash, std::span<const ClassId> children);
  void merge(ClassId into, ClassId from);
  void repair(TermId term);
  void revisit_parents(ClassId id);
  void mark_dirty(ClassId id);
  void mark_unsettled(ClassId id);
  void tidy();
  void tidy_class(Class& entry);

  Analysis* analysis_;
  std::uint64_t seed_;
  std::uint64_t clock_ = 1;
  std::vector<Term> terms_;
  std::vector<Class> classes_;
  mutable std::vector<ClassId> up_;  // the union-find; paths are halved by find
  std::size_t class_count_ = 0;
  StablePool<TermId> term_pool_;
  StablePool<ClassId> class_pool_;
  StablePool<Payload> payload_pool_;
  HashIndex term_index_;  // terms as written
  HashIndex memo_;  // nodes with canonical children
  std::unordered_map<Head, std::vector<ClassId>> by_head_;  // looked up, never walked
  std::vector<Head> stale_heads_;  // their lists name classes that are gone

  std::deque<TermId> pending_;  // nodes whose children were merged
  std::deque<TermId> revisit_;  // nodes a child of which has new facts
  std::deque<ClassId> unsettled_;  // classes for Analysis::settled
  std::vector<ClassId> dirty_;  // classes whose nodes changed

  ProofForest proofs_;
  std::vector<std::string> reasons_;
  std::unordered_map<std::string, std::uint32_t> reason_index_;
  std::deque<Application> applications_;
};

}  // namespace xyntra::egraph
