// A scan whose steps do the same for many sequences, on GPUs: which loops are those of sequences, what a step sums, what it computes
// element by element, and how a workgroup shares that out.
//
//   h = 0;  scan t < T { g[b, j] = sum(k) h[b, k] * r[j, k];  h'[b, j] = tanh(x[t, b, j] + g[b, j]) }
//
// Nothing goes from one b to another, so a workgroup takes some of them through all steps: h stays in its shared memory, r in the
// registers of its threads as far as there is room.
#pragma once

#include <optional>
#include <span>

#include "schedule/analysis/access_analysis.h"
#include "schedule/analysis/alignment.h"
#include "schedule/forms.h"

namespace xyntra {

class Recurrence {
 public:
  // The scan at the front of these stages, with those that begin its states and those that read them when it has ended; nothing where it
  // is of another kind.
  static std::optional<Recurrence> find(const AccessAnalysis& analysis, std::span<const te::Stage> stages);

  enum class Part : std::uint8_t { Before, Step, After };
  struct Step {
    te::Stage stage;  // what was next becoming the state is one, too
    Part part = Part::Step;
    std::vector<te::VarId> rows;  // its loops of sequences, as `extents` has them
    std::vector<te::VarId> free;  // those that threads share out
    std::vector<te::VarId> ones;  // loops of one iteration
    bool sums() const { return stage.reducer != te::Reducer::None; }
  };

  std::size_t taken = 0;  // of the stages
  te::VarId time;
  std::vector<Step> steps;
  std::vector<Dim> extents;  // of sequences, by loop; one may be none
  std::vector<Dim> elements;  // that a step computes one by one, of one sequence
  // Values that live on chip.
  struct Value {
    te::BufferId buffer;
    bool own = false;  // each thread reads what it wrote; else threads share it
    std::vector<bool> kept;  // dimensions of one sequence
  };
  std::vector<Value> values;

  const Value* value(te::BufferId buffer) const;
  // Whether an expression is the same in each step, and, along a loop of sequences, for all of them.
  bool is_steady(const te::Expr& expr, te::VarId sequence) const;
  // The factor of a sum that is, or nothing: 0 or 1.
  std::optional<std::size_t> steady_factor(const Step& step) const;
  std::int64_t count(const te::Formula& formula, const std::vector<te::VarId>& loops) const;
};

// How a workgroup shares a step out.
struct RecurrenceTile {
  std::int64_t threads = 32;
  std::int64_t rows = 1;  // sequences of a workgroup
  std::int64_t slices = 1;  // threads of a sum
  std::int64_t kept = 0;  // weights that a thread has in registers
  std::int64_t lanes = 1;  // terms that it reads at a time
  std::int64_t results_at_once() const { return threads / slices; }
};
// `exchanged`: threads that exchange values without waiting.
std::optional<RecurrenceTile> choose_recurrence_tile(const AccessAnalysis& analysis,
                                                     const Recurrence& recurrence, std::int64_t exchanged,
                                                     bool keep_order, Forms& forms);

}  // namespace xyntra
