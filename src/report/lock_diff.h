// What changed from one lock to another, in words and in the model's own names.
#pragma once

#include "plan/text.h"

namespace xyntra {

struct LockChange {
  enum class Kind : std::uint8_t { Header, Graph, Weights, Rules, Groups, Schedules, Edges, Layouts, Memory };
  Kind kind = Kind::Header;
  std::string text;  // one sentence; names of the model are made printable
};
const char* name_of(LockChange::Kind kind);  // "groups"

// Nothing when they say the same. What is far from every reader (reasons, predicted times) is not compared.
std::vector<LockChange> changes_between(const Lock& before, const Lock& after);

}  // namespace xyntra
