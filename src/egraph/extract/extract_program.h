// The program that the roots need under the current choices, and moves that make it cheaper.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "egraph/extract/extract_order.h"

namespace xyntra::egraph {

// Every class knows how often roots and chosen nodes of classes in use refer to it, so the price of a move is
// exact: what becomes used for the first time, less what is used no more.
class UsedProgram {
 public:
  UsedProgram(const EGraph& graph, Choices& choices, std::span<const ClassId> roots);

  bool uses(ClassId id) const { return references_[id.index] > 0; }
  std::vector<ClassId> classes() const;  // in use, children first

  // One move tried on every class in use. True when something changed.
  bool improve_each(bool from_top);
  // For every class not in use that several could share: take it, let its users switch to it, keep all of that when
  // it pays. No single switch would have paid for it alone.
  bool improve_shared();

 private:
  static constexpr std::size_t kFollowers = 8;  // more classes than that are not tried along with a move
  struct Change {
    ClassId id;
    std::size_t index;  // a node of it
  };
  // What a move adds and frees. Both are kept, as costs have no sign.
  struct Price {
    Cost added = 0;
    Cost freed = 0;
    bool pays() const { return added < freed; }
    void operator+=(const Price& other);
  };

  Cost reference(ClassId id);
  Cost release(ClassId id);
  Price exchange(ClassId id, std::size_t index);  // counts references only; the choice is made by the caller
  void undo(std::size_t mark);
  bool try_choice(ClassId id, std::size_t index);
  bool try_with_followers(ClassId id, std::size_t index, Price price);
  std::vector<Change> possible_users(ClassId id) const;
  bool try_sharing(ClassId id);
  void switch_to(ClassId id, std::size_t index, Price& total);

  const EGraph& graph_;
  Choices& choices_;
  std::vector<std::uint32_t> references_;  // by class
  std::vector<ClassId> stack_;
  std::vector<ClassId> taken_;  // classes with a choice that came into use since it was cleared
  std::vector<Change> journal_;  // of choices made on trial: what was chosen before
};

}  // namespace xyntra::egraph
