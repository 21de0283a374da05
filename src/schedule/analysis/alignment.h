// Which loops of a formula's stages walk together.
//
// Two axes are in one class when a value between two stages is written along the one and read along the other:
//   m[i] = max(k) x[i, k];  s[j] = sum(k) exp(x[j, k] - m[j])        i and j are one class
// A class is independent when every value between the stages is read where it was written along it. Then the
// turns of that loop need nothing of one another, and one work item can do the same turn of every stage.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "te/walk.h"

namespace xyntra {

class Alignment {
 public:
  using Class = std::size_t;

  // Stages must be MapReduce ones.
  explicit Alignment(const te::Formula& formula);

  std::size_t class_count() const { return independent_.size(); }
  bool independent(Class id) const { return independent_[id]; }
  Class class_of(std::size_t stage, te::VarId loop) const;
  // The class's axis of a stage; invalid when it has none.
  te::VarId axis_of(std::size_t stage, Class id) const;
  const Dim& extent(Class id) const { return extents_[id]; }
  // The classes along which a dimension of a buffer is written: several where it is a merged axis.
  std::vector<Class> written_along(te::BufferId buffer, std::size_t dimension) const;
  // Which dimensions of a buffer one turn of all rows holds: not those written along rows alone, and not those of one element,
  // unless some stage may read beside it.
  std::vector<bool> held(te::BufferId buffer, const std::function<bool(Class)>& is_row) const;

 private:
  using Loop = std::pair<std::size_t, te::VarId>;
  std::size_t root(std::size_t member);

  const te::Formula& formula_;
  std::map<Loop, std::size_t> members_;  // by loop; afterwards its class
  std::vector<std::size_t> parents_;
  std::vector<bool> independent_;
  std::vector<Dim> extents_;
};

}  // namespace xyntra
