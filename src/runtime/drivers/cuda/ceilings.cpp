// What an NVIDIA GPU reaches at most: kernels that do nothing but copy, or multiply and add in registers.
#include <algorithm>
#include <array>

#include "runtime/drivers/cuda.h"

namespace xyntra::cuda {
namespace {

constexpr std::int64_t kGpuCopyBytes = 1 << 30;
constexpr std::int64_t kGpuBlockThreads = 256, kGpuIterations = 512, kGpuChains = 8;
constexpr int kGpuRounds = 5;

constexpr const char* kHead = ".version 7.8\n.target sm_80\n.address_size 64\n";

// Each thread copies 16 bytes.
constexpr const char* kCopyEntry = R"(
.visible .entry copy(.param .u64 from, .param .u64 to)
.reqntid 256
{
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [from];
  ld.param.u64 %d1, [to];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %tid.x;
  mad.lo.s32 %r2, %r0, 256, %r1;
  mad.wide.s32 %d2, %r2, 16, %d0;
  mad.wide.s32 %d3, %r2, 16, %d1;
  ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d2];
  st.global.v4.b32 [%d3], {%r4, %r5, %r6, %r7};
  ret;
}
)";

// Chains of fma that do not wait for one another.
std::string multiply_entry() {
  std::string text = R"(
.visible .entry multiply(.param .u64 from, .param .u64 to)
.reqntid 256
{
  .reg .b32 %r<4>, %f<10>;
  .reg .b64 %d<2>;
  .reg .pred %p<1>;
  ld.param.u64 %d0, [to];
  mov.u32 %r0, %tid.x;
  cvt.rn.f32.s32 %f8, %r0;
  mul.rn.f32 %f8, %f8, 0f358637BD;
)";
  for (int i = 0; i < kGpuChains; ++i) text += "  mov.b32 %f" + std::to_string(i) + ", %f8;\n";
  text += "  mov.u32 %r1, 0;\n$NEXT:\n";
  for (int i = 0; i < kGpuChains; ++i) {
    const std::string one = "%f" + std::to_string(i);
    text += "  fma.rn.f32 " + one + ", " + one + ", %f8, %f8;\n";
  }
  text += "  add.s32 %r1, %r1, 1;\n  setp.lt.s32 %p0, %r1, " + std::to_string(kGpuIterations) +
          ";\n  @%p0 bra $NEXT;\n";
  for (int i = 1; i < kGpuChains; ++i) text += "  add.rn.f32 %f0, %f0, %f" + std::to_string(i) + ";\n";
  return text + "  mad.wide.s32 %d1, %r0, 4, %d0;\n  st.global.b32 [%d1], %f0;\n  ret;\n}\n";
}

Result<double> least_nanoseconds(Stream& stream, const Function& function, std::int64_t blocks,
                                 std::span<const std::uint64_t> parameters) {
  double least = 0;
  for (int round = 0; round < kGpuRounds; ++round) {
    XYNTRA_TRY(const Stream::Moment begin, stream.moment());
    XYNTRA_CHECK_OK(stream.launch(function, {blocks, kGpuBlockThreads, 0}, parameters));
    XYNTRA_TRY(const Stream::Moment end, stream.moment());
    XYNTRA_CHECK_OK(stream.wait());
    XYNTRA_TRY(const double spent, stream.nanoseconds(begin, end));
    if (round == 0 || spent < least) least = spent;
  }
  return std::max(least, 1.0);
}

}  // namespace

Result<Ceilings> measure_ceilings(const std::shared_ptr<Device>& device) {
  const std::array<Entry, 2> entries{{{"copy", 0}, {"multiply", 0}}};
  XYNTRA_TRY(const std::vector<Function> functions,
             device->load(kHead + std::string(kCopyEntry) + multiply_entry(), entries));
  Stream stream(device);
  const std::int64_t bytes = std::min(kGpuCopyBytes, device->chip().memory_bytes / 16 / 4096 * 4096);
  XYNTRA_TRY(const Buffer from, stream.allocate(bytes));
  XYNTRA_TRY(const Buffer to, stream.allocate(bytes));
  XYNTRA_CHECK_OK(stream.clear(from));
  const std::array<std::uint64_t, 2> parameters{from.address(), to.address()};
  XYNTRA_TRY(const double copying,
             least_nanoseconds(stream, functions[0], bytes / 16 / kGpuBlockThreads, parameters));
  const std::int64_t blocks = std::int64_t{64} * device->chip().multiprocessors;
  XYNTRA_TRY(const double multiplying, least_nanoseconds(stream, functions[1], blocks, parameters));
  Ceilings ceilings;
  ceilings.bytes_per_ns = 2 * static_cast<double>(bytes) / copying;
  ceilings.flops_per_ns =
      static_cast<double>(blocks * kGpuBlockThreads * kGpuIterations * kGpuChains * 2) / multiplying;
  return ceilings;
}

}  // namespace xyntra::cuda
