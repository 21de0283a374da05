#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "runtime/drivers/cuda/state.h"
#include "support/text/text.h"

namespace xyntra::cuda {
namespace {

Error device_error(std::string message, bool fatal = false) {
  return Error{ErrorClass::Device, std::move(message), {}, {}, {}, {}, fatal};
}

// After these nothing in the context works any more.
bool ends_context(CUresult result) {
  static const std::set<int> kEnds{kDeinitialized,
                                   kEccUncorrectable,
                                   kContained,
                                   kIllegalAddress,
                                   kLaunchTimeout,
                                   kContextIsDestroyed,
                                   kAssert,
                                   kHardwareStackError,
                                   kIllegalInstruction,
                                   kMisalignedAddress,
                                   kInvalidAddressSpace,
                                   kInvalidProgramCounter,
                                   kLaunchFailed,
                                   kUnknown};
  return kEnds.contains(result);
}

int attribute(const Library& cuda, CUdeviceAttribute which, CUdevice device) {
  int value = 0;
  cuda.DeviceGetAttribute(&value, which, device);
  return value;
}

Chip chip_of(const Library& cuda, CUdevice device) {
  Chip chip;
  std::array<char, 256> name{};
  cuda.DeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device);
  chip.name = name.data();
  chip.major = attribute(cuda, kComputeCapabilityMajor, device);
  chip.minor = attribute(cuda, kComputeCapabilityMinor, device);
  chip.multiprocessors = attribute(cuda, kMultiprocessorCount, device);
  chip.block_shared_bytes = attribute(cuda, kMaxSharedMemoryPerBlockOptin, device);
  chip.block_threads = attribute(cuda, kMaxThreadsPerBlock, device);
  chip.multiprocessor_threads = attribute(cuda, kMaxThreadsPerMultiprocessor, device);
  size_t bytes = 0;
  cuda.DeviceTotalMem(&bytes, device);
  chip.memory_bytes = static_cast<std::int64_t>(bytes);
  return chip;
}

std::string lowercase(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

std::string too_old(const Chip& chip) {
  return chip.name + " is of compute capability " + std::to_string(chip.major) + "." +
         std::to_string(chip.minor) + "; kernels need 8.0 (Ampere) or newer";
}

}  // namespace

Result<std::vector<Chip>> chips() {
  XYNTRA_TRY(const Library* cuda, library());
  int count = 0;
  if (const CUresult result = cuda->DeviceGetCount(&count); result != kSuccess)
    return failure(device_error("CUDA cannot count its devices: " + words_of(result)));
  std::vector<Chip> found;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    if (cuda->DeviceGet(&device, i) == kSuccess) found.push_back(chip_of(*cuda, device));
  }
  return found;
}

std::string why_no_chip() {
  const auto found = chips();
  if (!found) return found.error().with_its_hint();
  if (found->empty()) return "no CUDA: this machine has no NVIDIA GPU";
  const bool some = std::ranges::any_of(*found, [](const Chip& chip) { return chip.is_supported(); });
  return some ? "" : too_old(found->front());
}

// ---- errors

void Device::State::lose(const std::string& why) {
  const std::lock_guard lock(mutex);
  if (lost.exchange(true)) return;
  loss = why;
}

Status Device::State::usable() {
  if (!lost.load()) return {};
  const std::lock_guard lock(mutex);
  return failure(device_error(chip.name + " is lost: " + loss, true));
}

Status Device::State::status(CUresult result, const std::string& doing) {
  if (result == kSuccess) return {};
  if (ends_context(result)) {
    lose(doing + ": " + words_of(result));
    return usable();
  }
  return failure(device_error(chip.name + ", " + doing + ": " + words_of(result)));
}

// ---- devices

Device::Device(std::shared_ptr<State> state) : state_(std::move(state)) {}
Device::~Device() =
    default;  // the primary context stays: others of the process may use it, and memory is freed later
const Chip& Device::chip() const { return state_->chip; }
bool Device::lost() const { return state_->lost.load(); }

Result<std::shared_ptr<Device>> Device::open(std::string_view which) {
  XYNTRA_TRY(const std::vector<Chip> all, chips());
  if (all.empty()) return failure(device_error("no CUDA: this machine has no NVIDIA GPU"));
  std::size_t place = all.size();
  for (std::size_t i = all.size(); i-- > 0;) {
    const bool named =
        which.empty() ? all[i].is_supported()
                      : which == std::to_string(i) ||
                            lowercase(all[i].name).find(lowercase(std::string(which))) != std::string::npos;
    if (named) place = i;
  }
  if (place == all.size() && which.empty()) return failure(device_error("no CUDA: " + too_old(all.front())));
  if (place == all.size()) {
    std::vector<std::string> names;
    for (const Chip& chip : all) names.push_back(chip.name);
    return failure(
        device_error("there is no GPU '" + std::string(which) + "'; there are " + joined(names, ", ")));
  }
  if (!all[place].is_supported()) return failure(device_error("no CUDA: " + too_old(all[place])));
  const Library& cuda = opened_library();
  auto state = std::make_shared<State>();
  state->chip = all[place];
  constexpr int kFirstWithOverlap = 12030;  // of drivers: CUDA 12.3 captures such launches
  int version = 0;
  cuda.DriverGetVersion(&version);
  state->overlaps = all[place].major >= 9 && version >= kFirstWithOverlap;
  cuda.DeviceGet(&state->device, static_cast<int>(place));
  XYNTRA_CHECK_OK(
      state->status(cuda.DevicePrimaryCtxRetain(&state->context, state->device), "opening a context"));
  // One that an earlier error ended is replaced: whoever else has it in this process has lost it already.
  CUcontext popped = nullptr;
  size_t free = 0, total = 0;
  CUresult works = cuda.CtxPushCurrent(state->context);
  if (works == kSuccess) {
    works = cuda.MemGetInfo(&free, &total);
    cuda.CtxPopCurrent(&popped);
  }
  if (ends_context(works)) {
    cuda.DevicePrimaryCtxReset(state->device);
    XYNTRA_CHECK_OK(
        state->status(cuda.DevicePrimaryCtxRetain(&state->context, state->device), "opening a context"));
  }
  return std::shared_ptr<Device>(new Device(std::move(state)));
}

// ---- modules

namespace {

bool is_for(const std::string& ptx, std::string_view architecture) {
  return ptx.find("\n.target " + std::string(architecture) + "\n") != std::string::npos;
}

}  // namespace

Status Device::runs(const std::string& ptx) const {
  const bool lacks =
      (is_for(ptx, "sm_90a") && !chip().has_warpgroup_units()) || (is_for(ptx, "sm_90") && chip().major < 9);
  if (!lacks) return {};
  return failure(device_error(chip().name + " (" + chip().architecture() +
                              ") lacks what a kernel was made for, instructions of sm_90; plan for the "
                              "target 'ampere'"));
}

// The driver's linker, which is the one of its compilers whose result can be had.
std::vector<std::byte> Device::assemble(const std::string& ptx) {
  std::vector<std::byte> code;
  if (!state_->usable() || !runs(ptx)) return code;
  const Library& cuda = opened_library();
  const Current current(*state_);
  std::array<CUjitOption, 1> options{kJitTarget};
  std::array<void*, 1> values{reinterpret_cast<void*>(kJitTarget90a)};
  CUlinkState linking = nullptr;
  if (cuda.LinkCreate(is_for(ptx, "sm_90a") ? 1 : 0, options.data(), values.data(), &linking) != kSuccess)
    return code;
  std::string text = ptx;
  void* made = nullptr;
  size_t bytes = 0;
  if (cuda.LinkAddData(linking, kJitInputPtx, text.data(), text.size() + 1, "kernel", 0, nullptr, nullptr) ==
          kSuccess &&
      cuda.LinkComplete(linking, &made, &bytes) == kSuccess) {
    const std::span<const std::byte> result(static_cast<const std::byte*>(made), bytes);
    code.assign(result.begin(), result.end());
  }
  cuda.LinkDestroy(linking);
  return code;
}

Result<std::vector<Function>> Device::load(const std::string& ptx, std::span<const Entry> entries) {
  XYNTRA_CHECK_OK(runs(ptx));
  return load_image(ptx.c_str(), "PTX is refused", entries);
}

Result<std::vector<Function>> Device::load(std::span<const std::byte> code, std::span<const Entry> entries) {
  return load_image(code.data(), "machine code is refused", entries);
}

Result<std::vector<Function>> Device::load_image(const void* image, const char* refused,
                                                 std::span<const Entry> entries) {
  XYNTRA_CHECK_OK(state_->usable());
  const Library& cuda = opened_library();
  const Current current(*state_);
  std::array<char, 8192> log{};
  std::array<CUjitOption, 2> options{kJitErrorLogBuffer, kJitErrorLogBufferBytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUmodule loaded = nullptr;
  const CUresult result = cuda.ModuleLoadDataEx(&loaded, image, static_cast<unsigned>(options.size()),
                                                options.data(), values.data());
  if (result != kSuccess) {
    Status failed = state_->status(result, refused);
    Error error = std::move(failed).error();
    if (log[0] != '\0') error.message += ": " + std::string(log.data());
    return failure(std::move(error));
  }
  const std::shared_ptr<void> module(loaded, [state = state_](void* handle) {
    if (state->lost.load()) return;
    const Current here(*state);
    opened_library().ModuleUnload(static_cast<CUmodule>(handle));
  });
  std::vector<Function> made;
  for (const Entry& entry : entries) {
    if (entry.shared_bytes > state_->chip.block_shared_bytes)
      return limit_error("a kernel needs " + human_bytes(entry.shared_bytes) +
                         " of shared memory, a thread block of " + state_->chip.name + " has " +
                         human_bytes(state_->chip.block_shared_bytes));
    CUfunction found = nullptr;
    XYNTRA_CHECK_OK(
        state_->status(cuda.ModuleGetFunction(&found, loaded, entry.name.c_str()), "finding a kernel"));
    constexpr std::int64_t kAnywhere = 48 << 10;  // what need not be asked for
    if (entry.shared_bytes > kAnywhere)
      XYNTRA_CHECK_OK(state_->status(
          cuda.FuncSetAttribute(found, kFunctionMaxDynamicSharedBytes, static_cast<int>(entry.shared_bytes)),
          "asking for shared memory"));
    Function& function = made.emplace_back();
    function.module_ = module;
    function.handle_ = found;
  }
  return made;
}

// ---- occupancy

Occupancy Device::occupancy(const Function& function, std::int64_t threads, std::int64_t shared_bytes) const {
  const Library& cuda = opened_library();
  const Current current(*state_);
  auto* handle = static_cast<CUfunction>(function.handle_);
  const auto of = [&](CUfunctionAttribute which) {
    int value = 0;
    return cuda.FuncGetAttribute(&value, which, handle) == kSuccess ? value : 0;
  };
  Occupancy found;
  found.registers = of(kFunctionRegisters);
  found.local_bytes = of(kFunctionLocalBytes);
  found.shared_bytes = of(kFunctionSharedBytes) + shared_bytes;
  constexpr std::int64_t kWarp = 32;
  found.warps = (threads + kWarp - 1) / kWarp;
  int blocks = 0;
  if (cuda.OccupancyMaxActiveBlocks(&blocks, handle, static_cast<int>(threads),
                                    static_cast<size_t>(shared_bytes)) == kSuccess)
    found.blocks = blocks;
  return found;
}

}  // namespace xyntra::cuda
