// What a build without the headers of wgpu-native has instead: every call says so.
#include "runtime/drivers/webgpu.h"

namespace xyntra::webgpu {
namespace {

tl::unexpected<Error> absent() {
  return failure(Error{ErrorClass::Device,
                       "no WebGPU: this build was made without the headers of wgpu-native",
                       {},
                       {},
                       {},
                       "run scripts/setup wgpu, then build again",
                       false});
}

}  // namespace

struct Buffer::State {};
struct Pipeline::State {};
struct Recording::State {};
struct Device::State {
  Adapter adapter;
};

Result<std::vector<Adapter>> adapters() { return absent(); }
Result<std::string> library_version() { return absent(); }
std::int64_t Buffer::bytes() const { return 0; }

Recording::Recording() = default;
Recording Recording::timed() { return {}; }
Recording::Recording(Recording&&) noexcept = default;
Recording& Recording::operator=(Recording&&) noexcept = default;
Recording::~Recording() = default;
Status Recording::dispatch(const Pipeline&, std::span<const BufferRange>, std::span<const std::byte>,
                           std::int64_t, std::int64_t, std::int64_t) {
  return absent();
}
Status Recording::copy(const BufferRange&, const Buffer&, std::int64_t) { return absent(); }
int Recording::dispatches() const { return 0; }
bool Recording::empty() const { return true; }
void Recording::follow(Recording) {}

Device::Device(std::shared_ptr<State> state) : state_(std::move(state)) {}
Device::~Device() = default;
Result<std::shared_ptr<Device>> Device::open(std::string_view) { return absent(); }
const Adapter& Device::adapter() const { return state_->adapter; }
bool Device::lost() const { return true; }
Result<Buffer> Device::allocate(std::int64_t) { return absent(); }
Status Device::write(const Buffer&, std::int64_t, std::span<const std::byte>) { return absent(); }
Status Device::read(std::span<const Read>, const Budget*) { return absent(); }
Status Device::read(const Buffer&, std::int64_t, std::span<std::byte>) { return absent(); }
Result<Pipeline> Device::pipeline(const Shader&) { return absent(); }
Status Device::submit(Recording&) { return absent(); }
Status Device::wait(const Budget*) { return absent(); }
void Device::set_patience(std::chrono::milliseconds) {}
Result<std::vector<double>> Device::nanoseconds(const Recording&) { return absent(); }
void Device::lose() {}

}  // namespace xyntra::webgpu
