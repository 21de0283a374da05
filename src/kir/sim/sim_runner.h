// Executes the steps of a compiled kernel; see sim.h. One file for plain steps, one for intrinsics.
#pragma once

#include <cfloat>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "kir/intrinsics.h"
#include "kir/sim/sim.h"
#include "kir/sim/sim_memory.h"
#include "kir/sim/sim_program.h"

namespace xyntra::kir::sim {

// Lanes that go through the steps together: a thread of a work item each, times the lanes of a vector loop.
struct LaneSet {
  std::vector<std::uint32_t>
      thread;  // number within the work items that run at the same time: item * threads + thread
  std::vector<std::uint32_t> lane;  // of the vector loop
  bool vector = false;  // inside one
  std::size_t size() const { return thread.size(); }
};
using Lanes = std::shared_ptr<const LaneSet>;

// Where some lanes stand. When an if sends lanes both ways, each way is a context of its own until they meet again.
struct Context {
  std::size_t step = 0, end = 0;
  std::vector<Lanes> lanes;  // the innermost last
  std::vector<std::int64_t> iterations;  // of the serial loops, by variable
  Context* parent = nullptr;
  int running = 0;  // ways not yet at their end
  std::vector<std::uint64_t>
      arrived;  // phases of the named barriers that its lanes wait for; empty where they do not
};

// A barrier object.
struct Barrier {
  bool ready = false;
  std::int64_t expected = 0, missing = 0;  // arrivals of a phase, arrivals still missing
  std::int64_t bytes = 0;  // of copies expected and not yet there
  std::uint64_t phase = 0;  // how many are complete
  std::uint32_t copies = 0;  // clock of its copies
  std::int64_t block = 0;  // of the cluster: the one whose shared memory it lies in
  Clocks gathered, released;
};

// 128 threads and their matrix unit.
struct Warpgroup {
  std::uint32_t formed = 1, committed = 0, completed = 0;  // groups of multiplications
  bool open = false;  // something was issued and not committed
  std::map<std::uint32_t, std::uint32_t> busy;  // registers, by buffer: the group that last used them
  std::optional<std::int64_t> registers;  // of a thread; none: what the kernel says
};

inline constexpr std::size_t kNamedBarriers = 16;

// Asynchronous copies of one thread.
struct ThreadCopies {
  std::uint32_t formed = 1, committed = 0, completed = 0;  // groups
  std::uint32_t last = 0;  // group that something was copied in
};

// Units for bf16 take numbers below 2^-126 for zero.
inline float flushed(float x) { return std::abs(x) < FLT_MIN ? std::copysign(0.0F, x) : x; }

class Runner {
 public:
  Runner(const Kernel& kernel, const Program& program, const SimOptions& options);
  Status bind(std::span<const std::span<std::byte>> arguments);
  Status run();
  void take(std::span<const std::span<std::byte>> arguments) const;
  const SimReport& report() const { return report_; }

 private:
  enum class Progress : std::uint8_t { Continues, Waits, Failed };

  // ---- work items (sim_run.cpp)
  Status run_phase(const PhaseProgram& phase);
  std::int64_t items_together(const PhaseProgram& phase) const;
  Status start_items(std::int64_t first, std::int64_t count);
  Status run_contexts();
  Progress advance(Context& context);
  Progress take_step(Context& context, const Step& step);
  void split(Context& context, const Step& step, std::span<const std::int64_t> condition);
  void finish(Context& context);
  Status stuck();

  // ---- code
  const LaneSet& lanes(const Context& context) const { return *context.lanes.back(); }
  te::LaneOperand operand(Ref ref) const;
  void* result(Ref ref);
  std::span<std::int64_t> integers(Ref ref);  // lane by lane; spreads what is uniform
  bool evaluate(const Context& context, const Step& step);
  void number_threads();
  void read_variable(const Context& context, const Instruction& instruction);
  bool load(const Context& context, const Step& step, const Instruction& instruction, const Access& access);
  bool store(const Context& context, const Step& step);
  bool check(const Context& context, const Step& step);
  // Places in storage of each lane's element, -1 where nothing is touched. `outside`: what else is allowed.
  enum class Outside : std::uint8_t { Fault, Skip };
  bool find_places(const Context& context, const Step& step, const Access& access, Outside outside);
  Toucher toucher(std::uint32_t thread) const;
  std::int64_t copy_of(BufferId buffer, std::uint32_t thread) const;
  bool touch_read(const Context& context, const Step& step, BufferId buffer, std::size_t lane,
                  std::int64_t place, const Toucher& toucher);
  bool touch_write(const Context& context, const Step& step, BufferId buffer, std::size_t lane,
                   std::int64_t place, const Toucher& toucher);

  // ---- intrinsics (sim_intrinsics.cpp)
  struct Box {
    BufferId buffer;
    std::vector<std::int64_t> index;  // of element (0, 0)
    std::int64_t rows = 1, columns = 1;
    std::optional<std::int64_t> block = {};  // of the cluster, whose memory it is; none: the thread's own
    std::vector<std::int64_t> outer = {};  // rows as extents along dimensions, where there are several
    std::optional<RowDimension> along = {};  // rows run along a dimension, columns along all that follow it
  };
  using Elements = std::vector<std::byte>;
  Progress call(Context& context, const Step& step);
  bool barrier(const Context& context, const Step& step);
  bool atomic_update(const Context& context, const Step& step, std::size_t lane);
  Progress set_registers(const Context& context, const Step& step);
  Progress named_barrier(Context& context, const Step& step);
  bool shuffle(const Context& context, const Step& step);
  bool meet(const Context& context, const Step& step, const std::string& where);
  std::int64_t number(const Step& step, std::size_t which, std::size_t lane) const;
  static std::int64_t extent_of(const Box& box, std::size_t from_last);
  bool find_box(const Context& context, const Step& step, std::size_t which, std::size_t lane, Box& box);
  bool find_rows(const Context& context, const Step& step, std::size_t lane, const Box& box);
  bool find_run(const Context& context, const Step& step, std::size_t lane, const Box& box);
  std::int64_t place_in(const Box& box, std::int64_t row, std::int64_t column, std::uint32_t thread) const;
  bool read_box(const Context& context, const Step& step, const Box& box, std::size_t lane, const Toucher& by,
                Elements& elements);
  bool write_box(const Context& context, const Step& step, const Box& box, std::size_t lane,
                 const Toucher& by, const Elements& elements);
  std::vector<float> floats(const Box& box, const Elements& elements) const;
  Barrier* barrier_object(const Context& context, const Step& step, std::size_t which, std::size_t lane,
                          bool initialises);
  Barrier* barrier_in(const Context& context, const Step& step, const Box& box, std::size_t lane,
                      bool initialises);
  void complete_if_done(Barrier& object);
  Progress wait(const Context& context, const Step& step);
  bool barrier_call(const Context& context, const Step& step, std::size_t lane);
  bool copy_box(const Context& context, const Step& step, std::size_t lane);
  bool store_box(const Context& context, const Step& step, std::size_t lane);
  bool tile_call(const Context& context, const Step& step, std::size_t lane);
  // sim_clusters.cpp
  std::int64_t block_of(std::uint32_t thread) const { return thread / block_threads_; }
  bool cluster_call(const Context& context, const Step& step, std::size_t lane);
  std::vector<std::optional<std::int64_t>> receivers(const Step& step, std::size_t lane) const;
  bool reach(const Context& context, const Step& step, BufferId buffer, std::size_t lane, std::int64_t place,
             const Toucher& toucher);
  Status outlived() const;
  // sim_units.cpp
  bool split_bf16x3(const Context& context, const Step& step, std::size_t lane);
  bool dot_groups(const Context& context, const Step& step, std::size_t lane);
  bool multiply_bytes(const Context& context, const Step& step, std::size_t lane);
  std::vector<std::int32_t> integers(const Box& box, const Elements& elements) const;
  // sim_warps.cpp
  bool async_copy(const Context& context, const Step& step, std::size_t lane);
  void async_commit(const Context& context);
  bool async_wait(const Context& context, const Step& step);
  bool warp_call(const Context& context, const Step& step);
  bool warp_shuffle(const Context& context, const Step& step, std::span<const std::size_t> warp);
  bool vote(const Context& context, const Step& step, std::span<const std::size_t> warp);
  bool round_words(const Context& context, const Step& step, std::size_t lane);
  bool round_words_tf32(const Context& context, const Step& step, std::size_t lane);
  bool load_fragment(const Context& context, const Step& step, std::span<const std::size_t> warp);
  bool warp_multiply(const Context& context, const Step& step, std::span<const std::size_t> warp);
  bool is_aligned(const Box& box, std::uint32_t thread) const;
  bool factor_of_words(const Context& context, const Step& step, std::uint32_t group, std::size_t first_lane,
                       DType dtype, std::vector<double>& factor);
  bool warpgroup_call(const Context& context, const Step& step);
  bool multiply(const Context& context, const Step& step, std::uint32_t group, std::size_t first_lane);
  bool registers_free(const Context& context, const Step& step, BufferId buffer, bool writes);
  bool places_free(const Context& context, const Step& step);
  Status unfinished() const;
  std::uint32_t copy_agent(const Barrier& object) const;
  std::uint32_t warpgroup_agent(std::uint32_t group) const;
  std::uint32_t store_agent() const;
  std::uint32_t thread_copy_agent(std::uint32_t thread) const;

  // ---- faults
  bool fault(const Context& context, const Step& step, std::size_t lane, const std::string& what,
             ErrorClass error_class = ErrorClass::Internal);
  bool conflict(const Context& context, const Step& step, BufferId buffer, std::size_t lane,
                std::int64_t place, const Conflict& found, bool writes);
  std::string where(const Context& context, const Step& step, std::size_t lane) const;
  std::string element(BufferId buffer, std::int64_t place) const;
  std::string agent_name(std::uint32_t agent) const;
  std::uint32_t line_of(const Step& step) const;

  const Kernel& kernel_;
  const Program& program_;
  const SimOptions& options_;
  SimReport report_;
  std::vector<Storage> storages_;

  // The work items that run now.
  const PhaseProgram* phase_ = nullptr;
  std::uint32_t phase_number_ = 0, owner_ = 0, stamp_ = 0;
  std::int64_t first_item_ = 0, item_count_ = 0, thread_count_ = 1, block_threads_ = 1;
  std::vector<std::vector<std::int64_t>> values_of_;  // of grid and thread variables, per thread
  std::vector<Order> orders_;  // per work item
  std::vector<std::unique_ptr<Context>> contexts_;
  std::uint64_t steps_taken_ = 0;
  std::vector<Barrier> barriers_;
  std::unordered_map<std::int64_t, std::size_t> barrier_numbers_;  // by buffer and element
  std::vector<Warpgroup> warpgroups_;
  std::vector<ThreadCopies> thread_copies_;  // by thread; empty where there are none
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool>
      unfenced_;  // thread, accumulators: written since the fence
  std::uint32_t stores_issued_ = 0;
  std::map<std::uint32_t, std::uint32_t> stores_in_flight_;  // thread: its last one
  enum class UnitRegisters : std::uint8_t { None, Factors, Sums };
  std::vector<UnitRegisters> of_units_;  // by buffer: what warpgroups multiply; empty when there are none
  std::vector<Barrier> named_barriers_;  // of the first block, of the next one, …
  Barrier cluster_barrier_;
  struct Reach {
    std::uint32_t clock = 0;
    const Step* step = nullptr;
  };
  std::map<std::pair<std::int64_t, std::uint32_t>, Reach>
      reached_;  // block, agent of another one: when it was last there

  std::vector<std::int64_t> varying_, uniform_;  // lanes of temporaries, 8 bytes each
  std::size_t width_ = 0;  // lanes allotted to each varying temporary
  std::vector<std::int64_t> places_, spread_;
  mutable std::unordered_map<const StmtNode*, std::uint32_t> lines_;
  std::optional<Error> error_;
};

}  // namespace xyntra::kir::sim
