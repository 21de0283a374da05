// Groups while they are being grown.
#pragma once

#include <map>
#include <set>

#include "fusion/layout/extensions.h"

namespace xyntra {

std::string in_units(std::int64_t ns);

struct GroupDraft {
  std::vector<NodeId> core;   // nodes this group computes for everyone, in topological order
  std::vector<NodeId> nodes;  // and those it computes for itself: changes of index it reads through
  std::vector<ValueId> inputs, outputs;
  te::Formula formula;
  Choice choice;
  Dim bytes_in, bytes_out;
  std::int64_t code = 0;  // on GPUs: operations of its kernel (kir/code_size.h)
  std::int64_t too_long_from = INT64_MAX;  // of producers that would make it too long: the shortest
  std::string reason;
  bool alive = true;
};

// What was found for groups of the same make: composing and choosing is most of the work, and layers repeat. Holds for one
// FusionNodes, one target and one ChooseOptions, for as many groupings as are tried.
struct DraftCache {
  using Key = std::vector<std::uint64_t>;
  struct Found {
    te::Formula formula;
    Decision decision;
    Dim bytes_in, bytes_out;
    std::int64_t code = 0;
    std::optional<Fallback> fallback;  // where we failed
  };
  std::map<Key, Found> found;
};

class GroupDrafts {
 public:
  // `extended`: inputs whose copy to the result that extends them is left out.
  GroupDrafts(const FusionNodes& fusion_nodes, const Target& target, const FusionOptions& options,
              Extended extended, DraftCache& cache);

  using Index = std::size_t;
  static constexpr Index kNone = SIZE_MAX;

  const std::vector<GroupDraft>& all() const { return drafts_; }
  Index of(NodeId node) const { return owner_[node.index]; }  // the group that computes it for everyone

  // A new group of these nodes, which must have none yet; null with a reason when no schedule takes them.
  tl::expected<Index, std::string> make(std::vector<NodeId> core, std::string reason);
  // The producer's group and its reader's become one, if that is legal and pays.
  tl::expected<Index, std::string> merge(Index producer, Index reader);
  // Two groups of simple loops that do not depend on one another share a launch: horizontal fusion.
  tl::expected<Index, std::string> join(Index a, Index b);

  // Groups whose values a group reads, through changes of index.
  std::vector<Index> producers(Index reader) const;
  // Whether a node must be computed by a group of its own, although it only moves values.
  bool materialised(NodeId node) const { return materialised_[node.index]; }
  // Why a node that only moves values is a launch of its own; empty where it is not.
  const std::string& why_stage(NodeId node) const;
  std::vector<std::string> names_of(const std::vector<NodeId>& nodes) const;  // in order
  bool depends(Index reader, Index on) const;  // directly or through other groups
  const std::vector<Fallback>& fallbacks() const { return fallbacks_; }  // groups that we failed to draft

 private:
  using NodeSet = std::set<NodeId>;
  tl::expected<GroupDraft, std::string> drafted(std::vector<NodeId> core, bool merged) const;
  void gather(NodeId node, const NodeSet& core, NodeSet& taken, GroupDraft& draft) const;
  bool needed_outside(ValueId value, const NodeSet& core) const;
  bool path_around(Index from, Index to) const;
  void count_bytes(GroupDraft& draft) const;
  // Why not, where two groups take longer as one.
  std::optional<std::string> slower_together(const Choice& a, const Choice& b, const Choice& together,
                                             bool alone) const;
  std::int64_t code_of(const te::Formula& formula, const Schedule& schedule) const;
  Decision decided(const GroupDraft& draft, bool merged) const;
  void compose_and_decide(GroupDraft& draft, bool merged, DraftCache::Found& found) const;
  DraftCache::Key key_of(const GroupDraft& draft, bool merged) const;
  Index add(GroupDraft draft);

  const FusionNodes& fusion_nodes_;
  const Target& target_;
  const FusionOptions& options_;
  Extended extended_;
  std::vector<GroupDraft> drafts_;
  std::vector<Index> owner_;  // by node
  std::vector<bool> materialised_;  // by node
  DraftCache& cache_;
  mutable std::vector<Fallback> fallbacks_;
};

}  // namespace xyntra
