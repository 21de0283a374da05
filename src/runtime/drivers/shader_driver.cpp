#include "runtime/drivers/shader_driver.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "runtime/artifact/blocks.h"
#include "runtime/drivers/device_copies.h"
#include "support/limits/current_budget.h"

namespace xyntra {
namespace {

using webgpu::Buffer;
using webgpu::BufferRange;

constexpr std::int64_t kFaultBytes = 16;
constexpr std::int64_t kNothingBytes = 16;  // of an empty argument: a whole vector, which its array may be of
constexpr std::int64_t kWorkspaceStep = 1 << 14;

// What all contexts share.
struct Shaders {
  std::shared_ptr<webgpu::Device> device;
  std::shared_ptr<LastWriters> writers = std::make_shared<LastWriters>();
  std::vector<ShaderKernel> kernels;
  std::vector<std::vector<webgpu::Pipeline>> pipelines;  // by kernel and phase
};

class ShaderDriver : public KernelDriver {
 public:
  explicit ShaderDriver(std::shared_ptr<const Shaders> shaders)
      : shaders_(std::move(shaders)),
        alignment_(shaders_->device->adapter().limits.offset_alignment),
        copies_(
            shaders_->device, shaders_->writers, [this] { return submit(); }, [this] { let_go(); }),
        gathered_rows_(shaders_->device) {}

  std::unique_ptr<KernelDriver> another() const override { return std::make_unique<ShaderDriver>(shaders_); }

  void begin(Timed timed, std::span<const Memory> unchanged) override {
    timed_ = timed == Timed::EachLaunch && shaders_->device->adapter().timestamps;
    times_.clear();
    steps_.clear();
    copies_.begin(unchanged);
    recording_ = fresh_recording();
    earlier_.resize(std::min(earlier_.size(), submissions_));
    submissions_ = 0;
    dispatches_ = 0;
    if (!faulty_.empty()) fault_buffer_ = {};  // the last run did not look at it
    faulty_.clear();
    records_.clear();
  }

  Status launch(const ProgramStep& step, std::span<const KernelArgument> arguments,
                const SymbolBindings& sizes) override {
    const ShaderKernel& kernel = shaders_->kernels.at(step.callee);
    XYNTRA_TRY(std::vector<std::byte> uniform, size_bytes(kernel, sizes));
    XYNTRA_CHECK_OK(fits(kernel, sizes));
    std::vector<BufferRange> ranges;
    std::vector<bool> reads;  // by range: all that is done with it
    for (const ShaderBinding& binding : kernel.bindings) {
      XYNTRA_TRY(const BufferRange range, binding.is_pack() ? packed(step, binding, arguments)
                                                            : part_of(step, binding.parts[0], arguments));
      ranges.push_back(range);
      reads.push_back(binding.parts[0].argument < step.inputs.size());
    }
    XYNTRA_CHECK_OK(add_workspace(kernel, sizes, ranges));
    if (kernel.has_faults) XYNTRA_CHECK_OK(add_fault_record(step, ranges));
    widen(ranges);
    XYNTRA_CHECK_OK(keep_apart(ranges, reads));  // last: a submission lets go of its copies
    for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
      XYNTRA_TRY(std::int64_t items, kernel.phases[p].items.evaluate(sizes));
      if (items <= 0) continue;
      const std::int64_t most = shaders_->device->adapter().limits.workgroups_per_dimension;
      const std::int64_t groups =
          round_up(items, kernel.phases[p].items_per_group) / kernel.phases[p].items_per_group;
      const std::int64_t across = std::min(groups, most), down = round_up(groups, across) / across;
      if (down > most) return limit_error("a launch has " + std::to_string(items) + " work items");
      std::vector<BufferRange> used;
      for (const std::uint32_t binding : kernel.phases[p].bindings) used.push_back(ranges.at(binding));
      XYNTRA_CHECK_OK(
          recording_.dispatch(shaders_->pipelines[step.callee][p], used, uniform, across, down, 1));
      steps_.push_back(&step);
      ++dispatches_;
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) copies_.use(arguments[i], i >= step.inputs.size());
    return {};
  }

  void changed(std::span<const std::byte> memory) override { copies_.forget(memory); }

  Status fetch(std::span<const std::span<std::byte>> places, const Budget* budget) override {
    const std::vector<DeviceRows> newer = copies_.newer_in(places);
    if (newer.empty()) return {};
    Status done = fetch(newer, budget);
    if (!done) {  // the host may not have what the device has
      for (const std::span<std::byte> place : places) copies_.forget(place);
    }
    return done;
  }

  Work work() const override { return {dispatches_, submissions_}; }

  std::vector<Time> times() const override { return times_; }

  Result<std::vector<Fault>> finish() override {
    std::vector<Fault> faults;
    if (faulty_.empty()) {
      XYNTRA_CHECK_OK(submit());
      return faults;
    }
    if (!recording_.empty() || records_.size() < records_bytes()) {
      XYNTRA_CHECK_OK(submit());
      const webgpu::Device::Read read = read_of_records();
      XYNTRA_CHECK_OK(shaders_->device->read(std::span(&read, 1)));
    }
    for (std::size_t i = 0; i < faulty_.size(); ++i) {
      std::array<std::uint32_t, 4> words{};
      const auto record = std::span(records_).subspan(i * static_cast<std::size_t>(alignment_), kFaultBytes);
      std::memcpy(words.data(), record.data(), record.size());
      if (words[0] == 0) continue;
      faults.push_back({faulty_[i],
                        {static_cast<std::int32_t>(words[1]), static_cast<std::int32_t>(words[2]),
                         static_cast<std::int32_t>(words[3])}});
    }
    if (faults.empty()) faulty_.clear();  // the records are as they were: the next run has them
    return faults;
  }

 private:
  // ---- sizes

  static Result<std::vector<std::byte>> size_bytes(const ShaderKernel& kernel, const SymbolBindings& sizes) {
    std::vector<std::int32_t> values(
        static_cast<std::size_t>(round_up(static_cast<std::int64_t>(kernel.sizes.size()), 4)));
    for (std::size_t i = 0; i < kernel.sizes.size(); ++i) {
      XYNTRA_TRY(std::int64_t value, kernel.sizes[i].evaluate(sizes));
      if (value < INT32_MIN || value > INT32_MAX)
        return limit_error("a size of " + std::to_string(value) + " does not fit a shader's integers");
      values[i] = static_cast<std::int32_t>(value);
    }
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }

  // Positions are computed in 32 bits; a driver that ends loops early would give wrong numbers.
  Status fits(const ShaderKernel& kernel, const SymbolBindings& sizes) const {
    auto small = [&sizes](const Dim& count) -> Status {
      XYNTRA_TRY(std::int64_t value, count.evaluate(sizes));
      if (value <= INT32_MAX) return {};
      return limit_error(std::to_string(value) + " elements or work items are more than a shader can count");
    };
    for (const Dim& elements : kernel.argument_elements) XYNTRA_CHECK_OK(small(elements));
    const webgpu::Adapter& adapter = shaders_->device->adapter();
    const std::int64_t most = adapter.limits.loop_iterations;
    for (const ShaderPhase& phase : kernel.phases) {
      XYNTRA_CHECK_OK(small(phase.items));
      XYNTRA_TRY(const std::int64_t iterations, phase.iterations.evaluate(sizes));
      if (most > 0 && iterations > most)
        return limit_error(adapter.name + " ends the loops of a shader after " + std::to_string(most) +
                           " iterations, and this one has " + std::to_string(iterations));
    }
    return {};
  }

  // ---- results

  Status fetch(std::span<const DeviceRows> newer, const Budget* budget) {
    std::vector<webgpu::Device::Read> reads;
    std::vector<DeviceRows> gathered;
    for (const DeviceRows& rows : newer) {
      if (!timed_ && gathered_rows_.takes(rows, gathered)) {
        gathered.push_back(rows);
      } else {
        add_reads(rows, reads);
      }
    }
    const bool gathers = !gathered.empty();
    if (gathers) XYNTRA_CHECK_OK(gathered_rows_.record(std::move(gathered), recording_));
    XYNTRA_CHECK_OK(submit());
    if (gathers) reads.push_back(gathered_rows_.read());
    if (!faulty_.empty()) reads.push_back(read_of_records());  // finish() need not ask again
    XYNTRA_CHECK_OK(shaders_->device->read(reads, budget, [this] { write_ahead(); }));
    if (gathers) gathered_rows_.put();
    return {};
  }

  static void add_reads(const DeviceRows& rows, std::vector<webgpu::Device::Read>& reads) {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const std::int64_t first = rows.offset + i * rows.distance, before = first % 4;  // by words
      reads.push_back(
          {rows.from,
           first - before,
           {rows.to + i * rows.distance - before, static_cast<std::size_t>(rows.bytes + before)}});
    }
  }

  // ---- memory

  Result<BufferRange> range_of(const KernelArgument& argument, std::size_t position, bool is_read) {
    if (argument.bytes == 0) {  // bound all the same, and never looked at
      if (!nothing_) {
        XYNTRA_TRY(nothing_, shaders_->device->allocate(alignment_ * kMostArguments));
      }
      return BufferRange{&nothing_, alignment_ * static_cast<std::int64_t>(position % kMostArguments),
                         kNothingBytes};
    }
    return copies_.range_of(argument, is_read);
  }

  // Some bytes of an argument: of one that is larger than a binding.
  Result<BufferRange> part_of(const ProgramStep& step, const ShaderBinding::Part& part,
                              std::span<const KernelArgument> arguments) {
    XYNTRA_TRY(BufferRange range,
               range_of(arguments[part.argument], part.argument, part.argument < step.inputs.size()));
    if (part.bytes < 0) return range;
    range.offset += part.first;
    range.bytes = round_up(part.bytes, 4);
    return range;
  }

  // Small arguments one behind another: constants are put there once, the others before each launch.
  Result<BufferRange> packed(const ProgramStep& step, const ShaderBinding& binding,
                             std::span<const KernelArgument> arguments) {
    const ShaderBinding::Part& last = binding.parts.back();
    const std::int64_t bytes = round_up(last.at + last.bytes, 16);
    Buffer& pack = packs_[{&step, last.argument}];
    if (!pack) {
      XYNTRA_TRY(pack, pack_of_constants(binding, arguments, bytes));
    }
    for (const ShaderBinding::Part& part : binding.parts) {
      const KernelArgument& argument = arguments[part.argument];
      if (argument.constant) continue;
      XYNTRA_TRY(const BufferRange from, range_of(argument, part.argument, true));
      XYNTRA_CHECK_OK(recording_.copy(from, pack, part.at));
    }
    return BufferRange{&pack, 0, bytes};
  }

  Result<Buffer> pack_of_constants(const ShaderBinding& binding, std::span<const KernelArgument> arguments,
                                   std::int64_t bytes) const {
    XYNTRA_TRY(Buffer pack, shaders_->device->allocate(bytes));
    for (const ShaderBinding::Part& part : binding.parts) {
      const KernelArgument& argument = arguments[part.argument];
      if (!argument.constant) continue;
      XYNTRA_CHECK_OK(shaders_->device->write(pack, part.at,
                                              {argument.memory, static_cast<std::size_t>(argument.bytes)}));
    }
    return pack;
  }

  static bool overlap(const BufferRange& a, const BufferRange& b) {
    return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }

  // To the next step, where nothing else of the launch lies: a tensor that grows by an element from run to run is bound as it
  // was, and what was recorded can stay.
  void widen(std::vector<BufferRange>& ranges) const {
    const std::int64_t most = shaders_->device->adapter().limits.binding_bytes;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      BufferRange wide = ranges[i];
      wide.bytes =
          std::min(round_up(wide.offset + wide.bytes, kRangeStep), round_up(wide.buffer->bytes(), 4)) -
          wide.offset;
      bool alone = wide.bytes <= most;
      for (std::size_t j = 0; j < ranges.size(); ++j) alone = alone && (j == i || !overlap(wide, ranges[j]));
      if (alone) ranges[i] = wide;
    }
  }

  // Ranges of one launch do not overlap; one that does is read from a copy.
  Status keep_apart(std::vector<BufferRange>& ranges, const std::vector<bool>& reads) {
    for (std::size_t i = 0; i < reads.size(); ++i) {
      bool meets = false;
      for (std::size_t j = 0; j < ranges.size(); ++j)
        meets = meets || (j != i && overlap(ranges[i], ranges[j]));
      if (!meets || !reads[i]) continue;
      XYNTRA_TRY(Buffer copy, shaders_->device->allocate(ranges[i].bytes));
      XYNTRA_CHECK_OK(recording_.copy(ranges[i], copy, 0));
      apart_.push_back(std::make_unique<Buffer>(std::move(copy)));
      ranges[i] = {apart_.back().get(), 0, ranges[i].bytes};
    }
    return {};
  }

  Status add_workspace(const ShaderKernel& kernel, const SymbolBindings& sizes,
                       std::vector<BufferRange>& ranges) {
    const webgpu::Limits& limits = shaders_->device->adapter().limits;
    std::int64_t end = 0;
    std::vector<std::pair<std::int64_t, std::int64_t>> parts;
    for (const std::int64_t step : {kWorkspaceStep, std::int64_t{4}}) {
      if (step != kWorkspaceStep && end <= limits.buffer_bytes) break;  // in words where steps are too much
      end = 0;
      parts.clear();
      for (const Dim& dim : kernel.workspace_bytes) {
        XYNTRA_TRY(std::int64_t bytes, dim.evaluate(sizes));
        parts.emplace_back(end, rounded_within(std::max<std::int64_t>(bytes, 4), step, limits.binding_bytes));
        end = round_up(end + parts.back().second, alignment_);
      }
    }
    if (end > 0 && (!workspace_ || workspace_.bytes() < end)) {
      XYNTRA_CHECK_OK(submit());
      let_go();
      workspace_ = {};
      XYNTRA_TRY(workspace_, shaders_->device->allocate(end));
    }
    for (const auto& [offset, bytes] : parts) ranges.push_back({&workspace_, offset, bytes});
    return {};
  }

  Status add_fault_record(const ProgramStep& step, std::vector<BufferRange>& ranges) {
    const auto number = static_cast<std::int64_t>(faulty_.size());
    if (!fault_buffer_ || fault_buffer_.bytes() < (number + 1) * alignment_) {
      XYNTRA_CHECK_OK(submit());
      XYNTRA_TRY(Buffer larger,
                 shaders_->device->allocate(alignment_ * std::max<std::int64_t>(64, 2 * number)));
      for (std::int64_t done = 0; done < number; ++done) {
        const BufferRange record{&fault_buffer_, done * alignment_, kFaultBytes};
        XYNTRA_CHECK_OK(recording_.copy(record, larger, done * alignment_));
      }
      XYNTRA_CHECK_OK(submit());
      fault_buffer_ = std::move(larger);
    }
    ranges.push_back({&fault_buffer_, number * alignment_, kFaultBytes});
    faulty_.push_back(&step);
    return {};
  }

  std::size_t records_bytes() const { return static_cast<std::size_t>(alignment_) * faulty_.size(); }

  webgpu::Device::Read read_of_records() {
    records_.resize(records_bytes());
    return {&fault_buffer_, 0, records_};
  }

  Status submit() {
    if (!recording_.empty()) {
      earlier_.resize(std::max(earlier_.size(), submissions_ + 1));
      recording_.follow(std::move(earlier_[submissions_]));
      XYNTRA_CHECK_OK(shaders_->device->submit(recording_));
    }
    if (timed_ && !recording_.empty()) {
      XYNTRA_CHECK_OK(shaders_->device->wait());
      XYNTRA_TRY(const std::vector<double> spent, shaders_->device->nanoseconds(recording_));
      for (std::size_t i = 0; i < spent.size() && i < steps_.size(); ++i)
        times_.push_back({steps_[i], spent[i]});
    }
    steps_.clear();
    if (!recording_.empty()) earlier_[submissions_++] = std::move(recording_);
    recording_ = fresh_recording();
    apart_.clear();
    copies_.submitted();
    return {};
  }

  // The next run will most likely be as this one.
  void write_ahead() {
    for (std::size_t i = 0; i < submissions_; ++i) shaders_->device->write_ahead(earlier_[i]);
  }

  // Of recordings that hold buffers which others take the place of: there may be no memory for both.
  void let_go() {
    for (webgpu::Recording& recording : earlier_) recording = webgpu::Recording();
  }

  webgpu::Recording fresh_recording() const {
    return timed_ ? webgpu::Recording::timed() : webgpu::Recording();
  }

  static constexpr std::int64_t kMostArguments = 64;

  std::shared_ptr<const Shaders> shaders_;
  std::int64_t alignment_;
  DeviceCopiesOf<webgpu::Device> copies_;
  GatheredRows gathered_rows_;
  webgpu::Recording recording_;
  std::vector<webgpu::Recording> earlier_;  // of this run as far as it is submitted, then of the last one
  std::size_t submissions_ = 0, dispatches_ = 0;  // of this run
  std::vector<std::unique_ptr<Buffer>> apart_;  // operands that lie where others do
  std::map<std::pair<const ProgramStep*, std::uint32_t>, Buffer> packs_;  // by launch and last argument
  Buffer workspace_, nothing_, fault_buffer_;
  bool timed_ = false;
  std::vector<const ProgramStep*> steps_;  // of the recording's dispatches
  std::vector<Time> times_;
  std::vector<const ProgramStep*> faulty_;  // launches that have a fault record, in order
  std::vector<std::byte> records_;  // as they were read last
};

}  // namespace

Result<std::shared_ptr<const KernelDriver>> drive_shaders(std::vector<ShaderKernel> kernels,
                                                          std::shared_ptr<webgpu::Device> device,
                                                          bool checked) {
  auto shaders = std::make_shared<Shaders>();
  for (const ShaderKernel& kernel : kernels) {
    webgpu::Shader shader;
    shader.wgsl = kernel.text;
    shader.all_bindings = static_cast<std::uint32_t>(kernel.bindings.size() + kernel.workspace_bytes.size() +
                                                     (kernel.has_faults ? 1 : 0));
    shader.size_bytes = round_up(static_cast<std::int64_t>(kernel.sizes.size()), 4) * 4;
    shader.trusted = !checked;  // no shader is made of a kernel that is not verified
    std::vector<webgpu::Pipeline>& made = shaders->pipelines.emplace_back();
    for (const ShaderPhase& phase : kernel.phases) {
      XYNTRA_CHECK_OK(check_limits());  // the driver compiles, which nobody can stop
      shader.entry = phase.entry;
      shader.bindings = phase.bindings;
      shader.writable.assign(phase.bindings.size(), true);
      XYNTRA_TRY(webgpu::Pipeline pipeline, device->pipeline(shader));
      made.push_back(std::move(pipeline));
    }
  }
  shaders->kernels = std::move(kernels);
  shaders->device = std::move(device);
  return std::make_shared<const ShaderDriver>(std::move(shaders));
}

}  // namespace xyntra
