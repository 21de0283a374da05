// What groups cost once their values are laid out. That is asked again and again: by the choice of layouts, for every block that a value
// may have; by the search for groups that are slower than their parts; by the prediction of the plan. And layers repeat. So equal questions
// are answered once.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "schedule/layout/layouts.h"

namespace xyntra {

// Holds for one target and one choice of nominal sizes, for as many groupings as are tried.
class LayoutCosts {
 public:
  LayoutCosts(const Target& target, const SymbolBindings& nominal) : target_(target), nominal_(nominal) {}

  // The formula of a group whose values lie so, and what it costs.
  class LaidOut {
   public:
    const te::Formula& formula() const { return laid_out_; }
    std::optional<std::int64_t> compute_ns();  // as schedule/cost.h counts them
    std::int64_t strided_ns();  // as schedule/layout/strides.h does

   private:
    friend class LayoutCosts;
    const LayoutCosts* costs_ = nullptr;
    te::Formula given_, laid_out_;  // the former keeps the expressions alive whose addresses are the key
    Schedule schedule_;
    bool counted_ = false;
    std::optional<std::int64_t> compute_, strided_;
  };
  LaidOut& of(const te::Formula& formula, const Group& group, const LayoutsByValue& layouts);

 private:
  const Target& target_;
  const SymbolBindings& nominal_;
  std::unordered_map<std::string, LaidOut> known_;  // only looked up
};

}  // namespace xyntra
