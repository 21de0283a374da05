// A rule: where the left side holds and the guard agrees, the right side is equal to it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "egraph/egraph.h"
#include "egraph/match/pattern.h"

namespace xyntra::egraph {

struct Rule {
  std::string name;
  Pattern left;
  Pattern right;  // empty when `compute` makes the right side
  // Looks at facts of the classes matched; empty: always. Facts only become more precise, so that a guard that
  // held goes on to hold.
  std::function<bool(const EGraph&, const Match&)> guard;
  // Makes the right side of match.terms, match.payloads and facts; nothing: the rule does not apply after all.
  std::function<std::optional<TermId>(EGraph&, const Match&)> compute;
  int tag = 0;  // the client's class of the rule
  // How many levels below the parts of the pattern `guard` and `compute` look; searches that skip what did not
  // change take it into account.
  std::uint32_t reach = 0;

  Status check() const;  // sides well formed, right side bound
};

// The right side with terms for its variables, added to the graph.
TermId instantiate(EGraph& graph, const Pattern& right, std::span<const TermId> terms,
                   std::span<const Payload> payloads);
// A Node of the left side as the term that was matched, with the terms that stand for its variables put in.
TermId instantiate_left(EGraph& graph, const Pattern& left, const Application& application, PartId part);
// The class of the right side if all of it is there already, else an invalid id. Adds nothing.
ClassId find_instance(const EGraph& graph, const Pattern& right, std::span<const ClassId> classes,
                      std::span<const Payload> payloads);

enum class Applied : std::uint8_t { Refused, Known, Changed };  // by guard or compute; equal before; merged
Applied apply(EGraph& graph, const Rule& rule, const MatchList& found, std::size_t index);

}  // namespace xyntra::egraph
