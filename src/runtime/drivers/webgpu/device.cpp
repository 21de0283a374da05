// Opening a device, its memory, and waiting for it.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <thread>

#include "runtime/drivers/webgpu/state.h"
#include "support/limits/current_budget.h"
#include "support/limits/stop_hook.h"
#include "support/text/text.h"

namespace xyntra::webgpu {
namespace {

constexpr std::int64_t kStagingBytes = std::int64_t{64} << 20;    // read back at once
constexpr std::int64_t kUnsubmittedBytes = std::int64_t{256}
                                           << 20;  // written before the device is waited for
constexpr std::chrono::milliseconds kPatienceOfSoftware(600'000);

thread_local Reports* innermost = nullptr;

Error device_error(std::string message, std::string hint = {}) {
  return Error{ErrorClass::Device, std::move(message), {}, {}, {}, std::move(hint), false};
}

// Lives as long as the process, as a driver may call back after its device is released.
Loss* new_loss() {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<Loss>> all;
  const std::lock_guard lock(mutex);
  return all.emplace_back(std::make_unique<Loss>()).get();
}

void on_lost(WGPUDevice const*, WGPUDeviceLostReason, WGPUStringView message, void* loss, void*) {
  static_cast<Loss*>(loss)->set(text_of(message));
}

// Tells the waiting thread; shared with it, because that one may have stopped waiting.
struct Signal {
  std::atomic<bool> done{false};
  std::atomic<bool> failed{false};
};

void* shared_with_callback(const std::shared_ptr<Signal>& signal) {
  return new std::shared_ptr<Signal>(signal);
}
void set_and_release(void* shared, bool succeeded) {
  const std::unique_ptr<std::shared_ptr<Signal>> signal(static_cast<std::shared_ptr<Signal>*>(shared));
  if (!succeeded) (*signal)->failed.store(true);
  (*signal)->done.store(true);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

Result<AdapterEntry> choose(std::vector<AdapterEntry> entries, std::string_view which) {
  if (entries.empty()) {
    return failure(
        device_error("no WebGPU adapter on this machine",
                     "a Vulkan driver gives one; Debian's mesa-vulkan-drivers has one that runs on the CPU"));
  }
  std::uint64_t place = 0;
  if (const std::optional<std::uint64_t> number = parse_u64(which)) {
    place = *number;
  } else {  // a name, or nothing
    while (place < entries.size() && lower(entries[place].facts.name).find(lower(which)) == std::string::npos)
      ++place;
  }
  if (place < entries.size()) return std::move(entries[place]);
  return failure(Error{ErrorClass::Usage,
                       "no WebGPU adapter '" + std::string(which) + "'",
                       {},
                       {},
                       {},
                       "xyntra devices lists them",
                       false});
}

Status check_range(const Buffer& buffer, std::int64_t offset, std::size_t bytes, const char* doing) {
  if (!buffer) return usage_error(std::string(doing) + " a buffer that was never allocated");
  const auto size = static_cast<std::int64_t>(bytes);
  if (offset % 4 != 0)
    return usage_error(std::string(doing) + " a buffer from an offset that is no multiple of 4");
  if (offset < 0 || size > buffer.bytes() || offset > buffer.bytes() - size) {
    return usage_error(std::string(doing) + " " + std::to_string(size) + " bytes at " +
                       std::to_string(offset) + " of a buffer of " + std::to_string(buffer.bytes()));
  }
  return {};
}

}  // namespace

// --- what wgpu-native reports

void Loss::set(const std::string& reason) {
  const std::lock_guard lock(mutex);
  if (why.empty()) why = reason.empty() ? "no reason given" : reason;
  lost.store(true);
}

Error Loss::error() {
  const std::lock_guard lock(mutex);
  Error error = device_error("the WebGPU device is lost: " + why, "open it again");
  error.fatal = true;
  return error;
}

Reports::Reports() : outer_(innermost) { innermost = this; }
Reports::~Reports() { innermost = outer_; }

void Reports::receive(WGPUDevice const*, WGPUErrorType type, WGPUStringView message, void*, void*) {
  if (innermost == nullptr || innermost->any_) return;
  innermost->any_ = true;
  innermost->type_ = type;
  innermost->message_ = text_of(message);
}

Status Reports::status(Loss& loss, const char* doing) const {
  if (!any_) return {};
  if (loss.lost.load() || message_.find("device is lost") != std::string::npos) {
    loss.set("its driver gave up");
    return failure(loss.error());
  }
  if (type_ == WGPUErrorType_OutOfMemory || message_.find("Not enough memory") != std::string::npos) {
    return failure(device_error("the WebGPU device has no memory left: " + std::string(doing)));
  }
  return failure(device_error("WebGPU refuses " + std::string(doing) + ": " + joined(lines(), "; ")));
}

// `Validation Error`, `Caused by:`, `In wgpuSomething`, then what is wrong.
std::vector<std::string> Reports::lines() const {
  std::vector<std::string> lines;
  for (std::string_view line : split(message_, '\n')) {
    line = trimmed(line);
    if (line.empty() || line == "Validation Error" || line == "Caused by:" || line.starts_with("In wgpu"))
      continue;
    lines.emplace_back(line);
  }
  return lines;
}

// --- the device

Device::State::~State() {
  if (loss != nullptr && loss->hangs.load()) device.forget();
}

Status Device::State::usable() const {
  if (loss->lost.load()) return failure(loss->error());
  return {};
}

Result<std::shared_ptr<Device>> Device::open(std::string_view which) {
  static std::atomic<std::uint64_t> last_id{0};
  const Watchdog in_driver;
  XYNTRA_TRY(const Library* wgpu, library());
  XYNTRA_TRY(std::vector<AdapterEntry> entries, adapter_entries());
  XYNTRA_TRY(const AdapterEntry chosen, choose(std::move(entries), which));

  auto state = std::make_shared<State>();
  state->id = ++last_id;
  state->adapter = std::make_shared<const Adapter>(chosen.facts);
  state->loss = new_loss();
  if (chosen.facts.kind == "cpu") state->patience = kPatienceOfSoftware;

  struct Answer {
    WGPUDevice device = nullptr;
    std::string message;
  } answer;
  WGPUDeviceDescriptor descriptor = {};
  descriptor.requiredFeatureCount = chosen.features.size();
  descriptor.requiredFeatures = chosen.features.data();
  descriptor.requiredLimits = &chosen.limits;
  descriptor.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowSpontaneous;
  descriptor.deviceLostCallbackInfo.callback = on_lost;
  descriptor.deviceLostCallbackInfo.userdata1 = state->loss;
  descriptor.uncapturedErrorCallbackInfo.callback = &Reports::receive;
  WGPURequestDeviceCallbackInfo request = {};
  request.mode = WGPUCallbackMode_AllowProcessEvents;  // wgpu-native calls back before it returns
  request.callback = [](WGPURequestDeviceStatus, WGPUDevice device, WGPUStringView message, void* to, void*) {
    *static_cast<Answer*>(to) = {device, text_of(message)};
  };
  request.userdata1 = &answer;
  wgpu->AdapterRequestDevice(chosen.handle.get(), &descriptor, request);
  if (answer.device == nullptr) {
    return failure(device_error("the adapter " + chosen.facts.name + " gives no device: " + answer.message));
  }
  state->device = DeviceHandle(answer.device);
  state->queue = QueueHandle(wgpu->DeviceGetQueue(answer.device));
  return std::shared_ptr<Device>(new Device(std::move(state)));
}

Device::Device(std::shared_ptr<State> state) : state_(std::move(state)) {}
Device::~Device() = default;
const Adapter& Device::adapter() const { return *state_->adapter; }
bool Device::lost() const { return state_->loss->lost.load(); }
void Device::set_patience(std::chrono::milliseconds patience) { state_->patience = patience; }

void Device::lose() {
  const std::unique_lock alone(state_->gate);
  if (lost()) return;
  state_->loss->set("it was destroyed");
  opened_library().DeviceDestroy(state_->device.get());
}

// --- memory

std::int64_t Buffer::bytes() const { return state_ == nullptr ? 0 : state_->bytes; }

Result<BufferHandle> Device::State::make_buffer(std::int64_t bytes, WGPUBufferUsage usage) {
  XYNTRA_CHECK_OK(usable());
  const std::int64_t size = std::max<std::int64_t>(round_up(bytes, 4), 4);
  WGPUBufferDescriptor descriptor = {};
  descriptor.usage = usage;
  descriptor.size = static_cast<std::uint64_t>(size);
  const Reports reports;
  BufferHandle handle(opened_library().DeviceCreateBuffer(device.get(), &descriptor));
  XYNTRA_CHECK_OK(reports.status(*loss, ("a buffer of " + human_bytes(bytes)).c_str()));
  if (handle.get() == nullptr)
    return failure(device_error("WebGPU gives no buffer of " + human_bytes(bytes)));
  return handle;
}

Result<Buffer> Device::allocate(std::int64_t bytes) {
  if (bytes < 0) return usage_error("a buffer of a negative size");
  const std::int64_t most = adapter().limits.buffer_bytes;
  if (bytes > most) {
    return limit_error("a buffer of " + human_bytes(bytes) + " on " + adapter().name +
                       ", where one has at most " + human_bytes(most));
  }
  XYNTRA_TRY(BufferHandle handle,
             state_->make_buffer(
                 bytes, WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst));
  Buffer buffer;
  buffer.state_ = std::make_shared<Buffer::State>();
  buffer.state_->device = state_->id;
  buffer.state_->bytes = bytes;
  buffer.state_->handle = std::move(handle);
  return buffer;
}

Status Device::write(const Buffer& buffer, std::int64_t offset, std::span<const std::byte> bytes) {
  const Library& wgpu = opened_library();
  XYNTRA_CHECK_OK(state_->usable());
  XYNTRA_CHECK_OK(check_range(buffer, offset, bytes.size(), "write"));
  if (buffer.state_->device != state_->id) return usage_error("write a buffer of another device");
  const Reports reports;
  auto put = [&](const void* data, std::size_t size) {
    wgpu.QueueWriteBuffer(state_->queue.get(), buffer.state_->handle.get(),
                          static_cast<std::uint64_t>(offset), data, size);
    offset += static_cast<std::int64_t>(size);
  };
  while (bytes.size() >= 4) {
    const std::size_t piece = std::min<std::size_t>(bytes.size() / 4 * 4, kStagingBytes);
    put(bytes.data(), piece);
    bytes = bytes.subspan(piece);
    if (state_->unsubmitted_bytes.fetch_add(static_cast<std::int64_t>(piece)) > kUnsubmittedBytes) {
      XYNTRA_CHECK_OK(reports.status(*state_->loss, "a write"));
      XYNTRA_CHECK_OK(state_->submit({}));
      XYNTRA_CHECK_OK(state_->wait(nullptr));
    }
  }
  if (!bytes.empty()) {
    std::uint32_t last = 0;
    std::memcpy(&last, bytes.data(), bytes.size());
    put(&last, sizeof last);
  }
  return reports.status(*state_->loss, "a write");
}

Result<Device::State::Staging> Device::State::take_staging(std::int64_t bytes) {
  {
    const std::lock_guard lock(mutex);
    if (spare.bytes >= bytes) return std::exchange(spare, Staging{});
  }
  Staging staging;
  staging.bytes = std::max<std::int64_t>(bytes, 1 << 16);
  XYNTRA_TRY(staging.handle, make_buffer(staging.bytes, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst));
  return staging;
}

// Copies all of them into one staging buffer, of which `bytes` are used, and from there to where they go.
Status Device::State::read_batch(std::span<const Device::Read> reads, std::int64_t bytes,
                                 const Budget* budget, const std::function<void()>& meanwhile) {
  const Library& wgpu = opened_library();
  XYNTRA_TRY(Staging staging, take_staging(bytes));
  const Reports reports;
  CommandEncoderHandle encoder(wgpu.DeviceCreateCommandEncoder(device.get(), nullptr));
  std::int64_t at = 0;
  for (const Device::Read& read : reads) {
    const std::int64_t size = round_up(static_cast<std::int64_t>(read.to.size()), 4);
    wgpu.CommandEncoderCopyBufferToBuffer(encoder.get(), read.from->state_->handle.get(),
                                          static_cast<std::uint64_t>(read.offset), staging.handle.get(),
                                          static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(size));
    at += size;
  }
  XYNTRA_TRY(const CommandBufferHandle commands, finished(encoder));
  XYNTRA_CHECK_OK(submit(commands));
  const auto signal = std::make_shared<Signal>();
  WGPUBufferMapCallbackInfo info = {};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.callback = [](WGPUMapAsyncStatus status, WGPUStringView, void* shared, void*) {
    set_and_release(shared, status == WGPUMapAsyncStatus_Success);
  };
  info.userdata1 = shared_with_callback(signal);
  wgpu.BufferMapAsync(staging.handle.get(), WGPUMapMode_Read, 0, static_cast<std::size_t>(at), info);
  if (meanwhile) meanwhile();
  XYNTRA_CHECK_OK(poll_until([&] { return signal->done.load(); }, budget));
  XYNTRA_CHECK_OK(reports.status(*loss, "a read"));
  const std::shared_lock running(gate);  // asking a lost device for what it mapped ends the process
  XYNTRA_CHECK_OK(usable());
  const auto* mapped = signal->failed.load() ? nullptr
                                             : static_cast<const std::byte*>(wgpu.BufferGetConstMappedRange(
                                                   staging.handle.get(), 0, static_cast<std::size_t>(at)));
  if (mapped == nullptr) return failure(device_error("WebGPU does not give a buffer back to read"));
  for (const Device::Read& read : reads) {
    std::memcpy(read.to.data(), mapped, read.to.size());
    mapped += round_up(static_cast<std::int64_t>(read.to.size()), 4);
  }
  wgpu.BufferUnmap(staging.handle.get());
  const std::lock_guard lock(mutex);
  if (staging.bytes > spare.bytes) spare = std::move(staging);
  return {};
}

Status Device::read(std::span<const Read> reads, const Budget* budget,
                    const std::function<void()>& meanwhile) {
  XYNTRA_CHECK_OK(state_->usable());
  std::vector<Read> batch;
  std::int64_t bytes = 0;
  auto flush = [&]() -> Status {
    if (batch.empty()) return {};
    XYNTRA_CHECK_OK(state_->read_batch(batch, bytes, budget, meanwhile));
    batch.clear();
    bytes = 0;
    return {};
  };
  for (Read read : reads) {
    if (read.from == nullptr) return usage_error("read from no buffer");
    XYNTRA_CHECK_OK(check_range(*read.from, read.offset, read.to.size(), "read"));
    if (read.from->state_->device != state_->id) return usage_error("read from a buffer of another device");
    while (!read.to.empty()) {
      if (bytes == kStagingBytes) XYNTRA_CHECK_OK(flush());
      const auto piece =
          std::min<std::size_t>(read.to.size(), static_cast<std::size_t>(kStagingBytes - bytes));
      batch.push_back({read.from, read.offset, read.to.first(piece)});
      bytes += round_up(static_cast<std::int64_t>(piece), 4);
      read.offset += static_cast<std::int64_t>(piece);
      read.to = read.to.subspan(piece);
    }
  }
  return flush();
}

Status Device::read(const Buffer& buffer, std::int64_t offset, std::span<std::byte> bytes) {
  const Read one{&buffer, offset, bytes};
  return read(std::span(&one, 1));
}

// --- submitting and waiting

Result<CommandBufferHandle> Device::State::finished(const CommandEncoderHandle& encoder) {
  const std::shared_lock running(gate);
  const Reports reports;
  CommandBufferHandle commands(opened_library().CommandEncoderFinish(encoder.get(), nullptr));
  XYNTRA_CHECK_OK(reports.status(*loss, "commands"));
  return commands;
}

Status Device::State::submit(const CommandBufferHandle& commands) {
  const Library& wgpu = opened_library();
  const Watchdog in_driver;  // software adapters work off what was submitted before
  const std::shared_lock running(gate);
  XYNTRA_CHECK_OK(poll());  // a loss, which QueueSubmit does not survive
  WGPUCommandBuffer list[1] = {commands.get()};
  const Reports reports;
  wgpu.QueueSubmit(queue.get(), list[0] == nullptr ? 0 : 1, list);
  unsubmitted_bytes.store(0);
  return reports.status(*loss, "commands");
}

Status Device::State::poll() {
  const Library& wgpu = opened_library();
  const Watchdog in_driver;
  XYNTRA_CHECK_OK(usable());
  wgpu.InstanceProcessEvents(wgpu.instance);
  const Reports reports;
  const CommandEncoderHandle encoder(wgpu.DeviceCreateCommandEncoder(device.get(), nullptr));
  const CommandBufferHandle commands(wgpu.CommandEncoderFinish(encoder.get(), nullptr));
  XYNTRA_CHECK_OK(reports.status(*loss, "commands"));
  return usable();
}

// Sleeps a small part of the time waited so far, so that long work is noticed late by a percent or two, short work at once.
template <class Done>
Status Device::State::poll_until(const Done& done, const Budget* budget) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::microseconds(50);
  constexpr auto kLongestSleep = std::chrono::milliseconds(1);
  const Clock::time_point begin = Clock::now();
  while (true) {
    {
      const std::shared_lock running(gate);
      XYNTRA_CHECK_OK(poll());
    }
    if (done()) return usable();
    XYNTRA_CHECK_OK(budget != nullptr ? budget->check_time() : check_limits());
    const Clock::duration waited = Clock::now() - begin;
    if (waited > patience.load()) {
      loss->hangs.store(true);
      loss->set("it did not answer for " + std::to_string(patience.load().count()) + " ms");
      return failure(loss->error());
    }
    if (waited < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<Clock::duration>(waited / 64, kLongestSleep));
    }
  }
}

Status Device::State::wait(const Budget* budget) {
  const auto signal = std::make_shared<Signal>();
  {
    const std::shared_lock running(gate);
    XYNTRA_CHECK_OK(usable());
    WGPUQueueWorkDoneCallbackInfo info = {};
    info.mode = WGPUCallbackMode_AllowProcessEvents;
    info.callback = [](WGPUQueueWorkDoneStatus status, WGPUStringView, void* shared, void*) {
      set_and_release(shared, status == WGPUQueueWorkDoneStatus_Success);
    };
    info.userdata1 = shared_with_callback(signal);
    opened_library().QueueOnSubmittedWorkDone(queue.get(), info);
  }
  XYNTRA_CHECK_OK(poll_until([&] { return signal->done.load(); }, budget));
  if (signal->failed.load()) return failure(device_error("WebGPU could not finish what was submitted"));
  return {};
}

Status Device::wait(const Budget* budget) { return state_->wait(budget); }

}  // namespace xyntra::webgpu
