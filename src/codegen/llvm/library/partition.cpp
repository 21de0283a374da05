#include "codegen/llvm/library/partition.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <unordered_map>

#include "te/cost/effort.h"
#include "te/walk.h"

namespace xyntra {
namespace {

constexpr std::size_t kKindsOfModule = 4;  // of kernels
constexpr std::size_t kKernelsOfModule = 64;
constexpr std::int64_t kEffortOfModule =
    6000;  // LLVM is stopped only between modules, and cores share them: a few of them per long kernel

struct PhaseKind {
  std::uint64_t hash = 0;  // of all but integers
  std::int64_t effort = 0;  // about how long LLVM works on it
};

class KindHash {
 public:
  void add(std::uint64_t value) {
    constexpr std::uint64_t kPrime = 0x100000001b3;
    hash_ = (hash_ ^ value) * kPrime;
    hash_ ^= hash_ >> 29;
  }
  template <class Enum>
    requires std::is_enum_v<Enum>
  void add(Enum value) {
    add(static_cast<std::uint64_t>(value));
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

PhaseKind kind_of(const kir::Kernel& kernel, const kir::Phase& phase) {
  PhaseKind kind;
  KindHash hash;
  hash.add(phase.grid.size());
  kir::for_each_statement(phase.body, [&](const kir::StmtNode& statement) {
    kind.effort += 4;
    hash.add(statement.kind);
    hash.add(statement.intrinsic);
    if (statement.kind == kir::StmtNode::Kind::Loop) {
      hash.add(statement.loop);
      const Dim& extent = kernel.variable(statement.var).extent;
      const bool counted =
          statement.loop == kir::LoopKind::Unrolled || statement.loop == kir::LoopKind::Vector;
      if (counted && extent.is_constant()) hash.add(static_cast<std::uint64_t>(extent.constant()));
    }
    kir::for_each_expr(statement, [&](const te::Expr& expr) {
      te::for_each_node(expr, [&](const te::ExprNode& node) {
        kind.effort += 1 + te::effort_of_node(node);
        hash.add(node.op);
        hash.add(node.dtype);
      });
    });
  });
  kind.hash = hash.value();
  return kind;
}

using Kinds = std::vector<PhaseKind>;  // of a kernel's phases

std::uint64_t main_kind(const Kinds& kinds) {
  const auto largest = std::ranges::max_element(kinds, {}, &PhaseKind::effort);
  return largest == kinds.end() ? 0 : largest->hash;
}

// Those of one kind stand where the first of them stood.
std::vector<std::vector<std::size_t>> by_main_kind(const std::vector<Kinds>& kinds) {
  std::vector<std::vector<std::size_t>> groups;
  std::unordered_map<std::uint64_t, std::size_t> known;  // only looked up
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto [place, fresh] = known.try_emplace(main_kind(kinds[k]), groups.size());
    if (fresh) groups.emplace_back();
    groups[place->second].push_back(k);
  }
  return groups;
}

std::vector<std::vector<std::size_t>> whole_kernels(const std::vector<Kinds>& kinds) {
  std::vector<std::vector<std::size_t>> modules;
  std::set<std::uint64_t> compiled;  // kinds of phases in the last module
  std::size_t main_kinds = 0;
  std::int64_t effort = 0;
  for (const std::vector<std::size_t>& group : by_main_kind(kinds)) {
    ++main_kinds;
    for (std::size_t k : group) {
      std::int64_t more = 0;
      for (const PhaseKind& kind : kinds[k]) more += compiled.contains(kind.hash) ? 1 : kind.effort;
      const bool alike = more <= std::ssize(kinds[k]);  // to others of the module: costs nothing there
      const bool full = modules.empty() || main_kinds > kKindsOfModule ||
                        modules.back().size() == kKernelsOfModule ||
                        (effort + more > kEffortOfModule && !alike);
      if (full) {
        modules.emplace_back();
        compiled.clear();
        main_kinds = 1;
        effort = 0;
      }
      modules.back().push_back(k);
      for (const PhaseKind& kind : kinds[k]) effort += compiled.insert(kind.hash).second ? kind.effort : 1;
    }
  }
  return modules;
}

// Where the phases of a long kernel are cut: the ends of ranges that are no longer than a module should be, as far as phases allow.
std::vector<std::size_t> phase_ends(const Kinds& phases) {
  std::vector<std::size_t> ends;
  std::set<std::uint64_t> compiled;  // kinds in the last range
  std::int64_t effort = 0;
  for (std::size_t p = 0; p < phases.size(); ++p) {
    if (!compiled.empty() && !compiled.contains(phases[p].hash) &&
        effort + phases[p].effort > kEffortOfModule) {
      ends.push_back(p);
      compiled.clear();
      effort = 0;
    }
    if (compiled.insert(phases[p].hash).second) effort += phases[p].effort;
  }
  ends.push_back(phases.size());
  return ends;
}

// Phases of one kind are compiled once.
std::int64_t effort_of(const KernelModule& module, const std::vector<Kinds>& kinds) {
  std::set<std::uint64_t> compiled;
  std::int64_t effort = 0;
  for (std::size_t k : module.kernels) {
    const std::size_t end = std::min(module.phase_end, kinds[k].size());
    for (std::size_t p = module.first_phase; p < end; ++p)
      effort += compiled.insert(kinds[k][p].hash).second ? kinds[k][p].effort : 1;
  }
  return effort;
}

}  // namespace

std::vector<KernelModule> partition_kernels(std::span<const kir::Kernel> kernels) {
  std::vector<Kinds> kinds;
  for (const kir::Kernel& kernel : kernels) {
    Kinds& of_phases = kinds.emplace_back();
    for (const kir::Phase& phase : kir::phases_of(kernel)) of_phases.push_back(kind_of(kernel, phase));
  }
  std::vector<KernelModule> modules;
  for (std::vector<std::size_t>& together : whole_kernels(kinds)) {
    const Kinds& first = kinds[together.front()];
    const bool same_phases = std::ranges::all_of(together, [&](std::size_t k) {
      return std::ranges::equal(kinds[k], first, {}, &PhaseKind::hash, &PhaseKind::hash);
    });
    const std::vector<std::size_t> ends = phase_ends(first);
    if (!same_phases || ends.size() == 1) {
      modules.push_back({std::move(together)});
      continue;
    }
    for (std::size_t begin = 0; std::size_t end : ends) {
      modules.push_back({together, begin, end});
      begin = end;
    }
  }
  for (KernelModule& module : modules) module.effort = effort_of(module, kinds);
  return modules;
}

}  // namespace xyntra
