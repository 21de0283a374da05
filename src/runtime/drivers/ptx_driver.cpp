#include "runtime/drivers/ptx_driver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/artifact/blocks.h"
#include "runtime/drivers/device_copies.h"
#include "support/limits/current_budget.h"

namespace xyntra::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;  // that kernels read and write vectors by
constexpr std::int64_t kWorkspaceGrain = 1 << 14;
constexpr std::int64_t kMostBlocks = INT32_MAX;

// What all contexts share.
struct LoadedKernels {
  std::shared_ptr<Device> device;
  std::shared_ptr<LastWriters> writers = std::make_shared<LastWriters>();
  std::vector<PtxKernel> kernels;
  std::vector<std::vector<Function>> functions;  // by kernel and phase
};

class PtxDriver : public KernelDriver {
 public:
  explicit PtxDriver(std::shared_ptr<const LoadedKernels> loaded)
      : loaded_(std::move(loaded)),
        stream_(std::make_shared<Stream>(loaded_->device)),
        copies_(stream_, loaded_->writers, [this] { return submit(); }, [] {}) {}

  std::unique_ptr<KernelDriver> another() const override { return std::make_unique<PtxDriver>(loaded_); }

  void begin(Timed timed, std::span<const Memory> unchanged) override {
    timed_ = timed;
    is_bound_ = false;
    timings_.clear();
    times_.clear();
    pending_.clear();
    apart_.clear();
    outgrown_.clear();
    segments_.resize(std::min(segments_.size(), work_.submissions));
    copies_.begin(unchanged);
    bound_.clear();
    work_ = {};
    if (!faulty_.empty()) fault_buffer_ = {};  // the last run did not look at it
    faulty_.clear();
  }

  Status bind(std::span<const Memory> pieces, std::uint64_t stream) override {
    for (const Memory piece : pieces) {
      if (piece.empty()) continue;
      const auto address = reinterpret_cast<std::uint64_t>(piece.data());
      if (address % kAlignment != 0)
        return usage_error("a tensor in the memory of the GPU does not begin at a multiple of 16 bytes");
      XYNTRA_TRY(bound_[piece.data()], stream_->borrow(address, static_cast<std::int64_t>(piece.size())));
    }
    callers_ = stream;
    is_bound_ = true;
    return stream_->follow(stream);
  }

  Status store(std::span<const std::byte> from, std::span<std::byte> bound) override {
    const auto buffer = bound_.find(bound.data());
    require(buffer != bound_.end(), "a result is stored in memory that is not bound");
    XYNTRA_CHECK_OK(submit());
    XYNTRA_CHECK_OK(stream_->write(buffer->second, 0, from));
    return stream_->wait();  // for the host's memory
  }

  Status load(Memory bound, std::span<std::byte> to) override {
    auto piece = bound_.upper_bound(bound.data());
    require(piece != bound_.begin(), "memory is loaded that is not bound");
    --piece;
    XYNTRA_CHECK_OK(submit());
    const Stream::Read read{&piece->second, bound.data() - piece->first, to.data(),
                            static_cast<std::int64_t>(to.size())};
    return stream_->read(std::span(&read, 1));
  }

  Status launch(const ProgramStep& step, std::span<const KernelArgument> arguments,
                const SymbolBindings& sizes) override {
    const PtxKernel& kernel = loaded_->kernels.at(step.callee);
    XYNTRA_CHECK_OK(fits(kernel, sizes));
    std::vector<std::uint64_t> parameters;
    XYNTRA_CHECK_OK(add_arguments(step, arguments, parameters));
    XYNTRA_CHECK_OK(add_workspace(kernel, sizes, parameters));
    if (kernel.has_faults) XYNTRA_CHECK_OK(add_fault_record(step, parameters));
    for (const Dim& size : kernel.sizes) {
      XYNTRA_TRY(const std::int64_t value, size.evaluate(sizes));
      parameters.push_back(static_cast<std::uint64_t>(value));
    }
    for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
      const PtxPhase& phase = kernel.phases[p];
      XYNTRA_TRY(const std::int64_t items, phase.items.evaluate(sizes));
      if (items <= 0) continue;
      const std::int64_t blocks = (items + phase.items_per_block - 1) / phase.items_per_block;
      if (blocks > kMostBlocks) return limit_error("a launch has " + std::to_string(items) + " work items");
      pending_.push_back({loaded_->functions[step.callee][p],
                          {blocks, phase.threads, phase.shared_bytes, kernel.overlaps},
                          parameters});
      ++work_.dispatches;
      if (timed_ == Timed::EachLaunch) XYNTRA_CHECK_OK(submit_alone(step));
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!bound_.contains(arguments[i].piece)) copies_.use(arguments[i], i >= step.inputs.size());
    }
    return {};
  }

  void changed(std::span<const std::byte> memory) override { copies_.forget(memory); }

  Status fetch(std::span<const std::span<std::byte>> places, const Budget* budget) override {
    std::vector<Stream::Read> reads;
    for (const RowsOf<Buffer>& rows : copies_.newer_in(places))
      reads.push_back({rows.from, rows.offset, rows.to, rows.bytes, rows.distance, rows.count});
    if (reads.empty()) return {};
    Status done = submit();
    if (done) done = stream_->read(reads, budget);
    if (!done) {  // the host may not have what the device has
      for (const std::span<std::byte> place : places) copies_.forget(place);
    }
    return done;
  }

  Work work() const override { return work_; }

  std::vector<Time> times() const override { return times_; }

  std::vector<Resources> resources(std::uint32_t number) const override {
    const PtxKernel& kernel = loaded_->kernels.at(number);
    const int most = loaded_->device->chip().multiprocessor_threads;
    std::vector<Resources> found;
    for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
      const PtxPhase& phase = kernel.phases[p];
      const Occupancy one =
          loaded_->device->occupancy(loaded_->functions[number][p], phase.threads, phase.shared_bytes);
      constexpr std::int64_t kWarp = 32;
      const double warps = most > 0 ? static_cast<double>(one.blocks * one.warps * kWarp) / most : 0;
      found.push_back({phase.threads, one.registers, one.shared_bytes, one.local_bytes, one.blocks, warps});
    }
    return found;
  }

  Result<std::vector<Fault>> finish() override {
    std::vector<Fault> found;
    XYNTRA_CHECK_OK(submit());
    if (std::exchange(is_bound_, false)) XYNTRA_CHECK_OK(stream_->lead(callers_));
    if (!timings_.empty()) XYNTRA_CHECK_OK(stream_->wait());
    for (const Timing& timing : timings_) {
      XYNTRA_TRY(const double taken, stream_->nanoseconds(timing.begin, timing.end));
      const double spent = taken / timing.runs;
      if (timing.step != nullptr) times_.push_back({timing.step, spent});
      work_.nanoseconds += spent;
    }
    timings_.clear();
    if (faulty_.empty()) return found;
    std::vector<PtxFault> records(faulty_.size());
    const Stream::Read read{&fault_buffer_, 0, reinterpret_cast<std::byte*>(records.data()),
                            static_cast<std::int64_t>(records.size() * sizeof(PtxFault))};
    XYNTRA_CHECK_OK(stream_->read(std::span(&read, 1)));
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (records[i].found == 0) continue;
      found.push_back({faulty_[i],
                       {static_cast<std::int32_t>(records[i].buffer),
                        static_cast<std::int32_t>(records[i].dimension), records[i].index}});
    }
    if (found.empty()) faulty_.clear();  // the records are as they were: the next run has them
    return found;
  }

 private:
  struct Timing {
    const ProgramStep* step = nullptr;
    int runs = 1;
    Stream::Moment begin = {}, end = {};
  };

  // What is launched between two moments at which the host looks at the device, or writes what it uses: from run to run the same, most likely, or one
  // of a few, as where a caller's allocator gives results one of two places in alternation.
  struct Segment {
    std::vector<Launch> launches;
    Graph graph = {}, repeated = {};
    bool refused = false;  // it cannot be captured
  };
  static constexpr std::size_t kMostVariants = 4;  // of a segment, the one used last in front
  using Variants = std::vector<Segment>;

  // That of these launches, and whether it was there already.
  std::pair<Segment&, bool> next_segment(std::vector<Launch> launches) {
    segments_.resize(std::max(segments_.size(), work_.submissions + 1));
    Variants& variants = segments_[work_.submissions++];
    auto found = std::ranges::find(variants, launches, &Segment::launches);
    const bool known = found != variants.end();
    if (!known) {
      if (variants.size() == kMostVariants) variants.pop_back();
      found = variants.insert(variants.end(), Segment{std::move(launches)});
    }
    std::rotate(variants.begin(), found, found + 1);
    return {variants.front(), known};
  }

  Status submit() {
    copies_.submitted();
    if (pending_.empty()) return {};
    return timed_ == Timed::Run ? time_repeated() : replay();
  }

  // Several runs in one graph: what a run takes as part of a caller's work, the way to the device and back left out.
  Status time_repeated() {
    constexpr int kRuns = 5;
    Segment& segment = next_segment(std::exchange(pending_, {})).first;
    if (!segment.repeated && !segment.refused) {
      std::vector<Launch> all;
      for (int run = 0; run < kRuns; ++run)
        all.insert(all.end(), segment.launches.begin(), segment.launches.end());
      auto captured = stream_->capture(all);
      if (!captured && captured.error().fatal) return failure(std::move(captured).error());
      segment.refused = !captured;
      if (captured) segment.repeated = std::move(*captured);
    }
    if (segment.refused) return time(nullptr, 1, [&] { return launch_all(segment.launches); });
    return time(nullptr, kRuns, [&] { return stream_->launch(segment.repeated); });
  }

  // Launches that come a second time are captured, and replayed from then on.
  Status replay() {
    constexpr std::size_t kWorthAGraph = 3;
    const auto [segment, known] = next_segment(std::exchange(pending_, {}));
    if (known && !segment.graph && !segment.refused && segment.launches.size() >= kWorthAGraph) {
      auto captured = stream_->capture(segment.launches);
      if (!captured && captured.error().fatal) return failure(std::move(captured).error());
      segment.refused = !captured;
      if (captured) segment.graph = std::move(*captured);
    }
    return segment.graph ? stream_->launch(segment.graph) : launch_all(segment.launches);
  }

  Status launch_all(std::span<const Launch> launches) {
    for (const Launch& one : launches)
      XYNTRA_CHECK_OK(stream_->launch(one.function, one.grid, one.parameters));
    return {};
  }

  // The GPU waits until the launch is there: otherwise the time that the launch takes to arrive would be counted, too.
  Status wait_a_moment(int runs) {
    constexpr std::uint64_t kNanoseconds = 40000;  // for a launch, or what a graph has of a run
    constexpr const char* kWait = R"(.version 7.8
.target sm_80
.address_size 64
.visible .entry wait(.param .u64 nanoseconds)
{
  .reg .pred %p;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [nanoseconds];
  mov.u64 %d1, %globaltimer;
$again:
  mov.u64 %d2, %globaltimer;
  sub.u64 %d3, %d2, %d1;
  setp.lt.u64 %p, %d3, %d0;
  @%p bra $again;
  ret;
}
)";
    if (!wait_) {
      const std::array<Entry, 1> entries{Entry{"wait", 0}};
      XYNTRA_TRY(const std::vector<Function> functions, loaded_->device->load(kWait, entries));
      wait_ = functions.front();
    }
    const std::array<std::uint64_t, 1> parameters{kNanoseconds * static_cast<std::uint64_t>(runs)};
    return stream_->launch(*wait_, {}, parameters);
  }

  // What is captured of other runs stays.
  Status submit_alone(const ProgramStep& step) {
    copies_.submitted();
    ++work_.submissions;
    const std::vector<Launch> launches = std::exchange(pending_, {});
    return time(&step, 1, [&] { return launch_all(launches); });
  }

  // Of a launch, or of runs.
  template <class Work>
  Status time(const ProgramStep* step, int runs, Work work) {
    Timing timing{step, runs};
    XYNTRA_CHECK_OK(wait_a_moment(runs));
    XYNTRA_TRY(timing.begin, stream_->moment());
    XYNTRA_CHECK_OK(work());
    XYNTRA_TRY(timing.end, stream_->moment());
    timings_.push_back(std::move(timing));
    return {};
  }

  // Positions of a kernel that is not wide are computed in 32 bits.
  static Status fits(const PtxKernel& kernel, const SymbolBindings& sizes) {
    auto small = [&sizes](const Dim& count) -> Status {
      XYNTRA_TRY(const std::int64_t value, count.evaluate(sizes));
      if (value <= kMostNarrow) return {};
      return limit_error(std::to_string(value) +
                         " elements or work items are more than a kernel for sizes of 32 bits can count");
    };
    for (const Dim& elements : kernel.argument_elements) {
      if (!kernel.wide) XYNTRA_CHECK_OK(small(elements));
    }
    for (const PtxPhase& phase : kernel.phases) XYNTRA_CHECK_OK(small(phase.items));
    return {};
  }

  // ---- memory

  Result<BufferRange> range_of(const KernelArgument& argument, bool is_read) {
    if (const auto bound = bound_.find(argument.piece); bound != bound_.end())
      return BufferRange{&bound->second, argument.memory - argument.piece, argument.bytes};
    if (argument.bytes > 0) return copies_.range_of(argument, is_read);
    if (!nothing_) {  // never looked at
      XYNTRA_TRY(nothing_, stream_->allocate(kRangeStep));
    }
    return BufferRange{&nothing_, 0, 0};
  }

  // What a launch reads does not lie where it writes, unless rows are appended to it; what does is read from a copy.
  Status add_arguments(const ProgramStep& step, std::span<const KernelArgument> arguments,
                       std::vector<std::uint64_t>& parameters) {
    std::vector<BufferRange> ranges;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      XYNTRA_TRY(const BufferRange range, range_of(arguments[i], i < step.inputs.size()));
      ranges.push_back(range);
    }
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      bool meets = false;
      for (std::size_t j = step.inputs.size(); j < ranges.size(); ++j)
        meets = meets || (arguments[j].rows.count == 0 && overlap(ranges[i], ranges[j]));
      if (!meets) continue;
      XYNTRA_CHECK_OK(submit());
      XYNTRA_TRY(Buffer copy, stream_->allocate(ranges[i].bytes));
      XYNTRA_CHECK_OK(stream_->copy(ranges[i], copy, 0));
      apart_.push_back(std::make_unique<Buffer>(std::move(copy)));
      ranges[i] = {apart_.back().get(), 0, ranges[i].bytes};
    }
    for (const BufferRange& range : ranges) {
      parameters.push_back(range.buffer->address() + static_cast<std::uint64_t>(range.offset));
      require(parameters.back() % kAlignment == 0, "an argument of a kernel that is not aligned");
    }
    return {};
  }

  static bool overlap(const BufferRange& a, const BufferRange& b) {
    return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }

  Status add_workspace(const PtxKernel& kernel, const SymbolBindings& sizes,
                       std::vector<std::uint64_t>& parameters) {
    std::int64_t end = 0;
    std::vector<std::int64_t> offsets;
    for (const Dim& dim : kernel.workspace_bytes) {
      XYNTRA_TRY(const std::int64_t bytes, dim.evaluate(sizes));
      offsets.push_back(end);
      end = round_up(end + std::max<std::int64_t>(bytes, 1), kRangeStep);
    }
    if (end > 0 && (!workspace_ || workspace_.bytes() < end)) {
      if (workspace_) outgrown_.push_back(std::exchange(workspace_, {}));  // launches before this one have it
      XYNTRA_TRY(workspace_, stream_->allocate(round_up(end, kWorkspaceGrain)));
    }
    for (const std::int64_t offset : offsets)
      parameters.push_back(workspace_.address() + static_cast<std::uint64_t>(offset));
    return {};
  }

  Status add_fault_record(const ProgramStep& step, std::vector<std::uint64_t>& parameters) {
    const auto used = static_cast<std::int64_t>(faulty_.size() * sizeof(PtxFault));
    constexpr std::int64_t kFirst = 64 * sizeof(PtxFault);
    if (!fault_buffer_ || fault_buffer_.bytes() < used + static_cast<std::int64_t>(sizeof(PtxFault))) {
      XYNTRA_TRY(Buffer larger, stream_->allocate(std::max(kFirst, 2 * used)));
      XYNTRA_CHECK_OK(stream_->clear(larger));
      if (fault_buffer_) {
        XYNTRA_CHECK_OK(submit());
        XYNTRA_CHECK_OK(stream_->copy({&fault_buffer_, 0, used}, larger, 0));
        outgrown_.push_back(std::move(fault_buffer_));
      }
      fault_buffer_ = std::move(larger);
    }
    parameters.push_back(fault_buffer_.address() + static_cast<std::uint64_t>(used));
    faulty_.push_back(&step);
    return {};
  }

  std::shared_ptr<const LoadedKernels> loaded_;
  std::shared_ptr<Stream> stream_;
  DeviceCopiesOf<Stream> copies_;
  std::map<const std::byte*, Buffer> bound_;  // the caller's, for this run
  std::uint64_t callers_ = 0;  // the stream that is in order with this run
  bool is_bound_ = false;
  std::vector<std::unique_ptr<Buffer>> apart_;  // operands that lie where results do
  std::vector<Buffer> outgrown_;  // of this run, which still uses them
  Buffer workspace_, nothing_, fault_buffer_;
  std::vector<Launch> pending_;
  std::vector<Variants> segments_;  // of this run as far as it is submitted, then of the last one
  Timed timed_ = Timed::No;
  std::optional<Function> wait_;
  Work work_;
  std::vector<Timing> timings_;
  std::vector<Time> times_;
  std::vector<const ProgramStep*> faulty_;  // launches that have a fault record, in order
};

// By the driver's linker, which compiles several kernels at once where loading texts does not. Code that the driver refuses, as one
// of another version might, is made anew; a text that is refused is loaded for the message.
Result<std::vector<Function>> load(Device& device, const PtxKernel& kernel, std::vector<std::byte>& code) {
  std::vector<Entry> entries;
  for (const PtxPhase& phase : kernel.phases) entries.push_back({phase.entry, phase.shared_bytes});
  if (code.empty()) code = device.assemble(kernel.text);
  if (!code.empty()) {
    auto loaded = device.load(code, entries);
    if (loaded || loaded.error().fatal || kernel.text.empty()) return loaded;
    code.clear();
  }
  return device.load(kernel.text, entries);
}

}  // namespace

Result<std::shared_ptr<const KernelDriver>> drive_ptx(std::vector<PtxKernel> kernels,
                                                      std::shared_ptr<Device> device, KernelCode* code) {
  constexpr std::size_t kMostThreads = 16;
  std::vector<Result<std::vector<Function>>> made(kernels.size());
  KernelCode own;
  if (code == nullptr) code = &own;
  code->resize(kernels.size());
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t i = next++; i < kernels.size(); i = next++)
      made[i] = load(*device, kernels[i], (*code)[i]);
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(threads, kernels.size()); ++i) others.emplace_back(work);
    work();
  }
  XYNTRA_CHECK_OK(check_limits());
  auto loaded = std::make_shared<LoadedKernels>();
  for (Result<std::vector<Function>>& one : made) {
    if (!one) return failure(std::move(one).error());
    loaded->functions.push_back(std::move(*one));
  }
  loaded->kernels = std::move(kernels);
  loaded->device = std::move(device);
  return std::make_shared<const PtxDriver>(std::move(loaded));
}

}  // namespace xyntra::cuda
