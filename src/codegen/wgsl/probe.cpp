#include "codegen/wgsl/probe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <vector>

#include "codegen/wgsl/emitter.h"
#include "types/float_formats.h"

namespace xyntra {
namespace {

// Runs a shader of one workgroup over buffers of words; the last one is read back. Nothing where the device refuses any of it.
std::vector<std::uint32_t> answers(webgpu::Device& device, const std::string& text,
                                   std::span<const std::vector<std::uint32_t>> questions, std::size_t count) {
  webgpu::Shader shader;
  shader.wgsl = text;
  std::vector<webgpu::Buffer> buffers;
  for (std::size_t i = 0; i <= questions.size(); ++i) {
    const std::size_t words = i < questions.size() ? questions[i].size() : count;
    auto buffer = device.allocate(static_cast<std::int64_t>(4 * words));
    if (!buffer) return {};
    if (i < questions.size() && !device.write(*buffer, 0, std::as_bytes(std::span(questions[i])))) return {};
    buffers.push_back(std::move(*buffer));
    shader.writable.push_back(true);
  }
  auto pipeline = device.pipeline(shader);
  if (!pipeline) return {};
  std::vector<webgpu::BufferRange> ranges;
  for (const webgpu::Buffer& buffer : buffers) ranges.push_back({&buffer, 0, buffer.bytes()});
  webgpu::Recording recording;
  std::vector<std::uint32_t> found(count);
  if (!recording.dispatch(*pipeline, ranges, {}, 1, 1, 1) || !device.submit(recording) ||
      !device.read(buffers.back(), 0, std::as_writable_bytes(std::span(found))))
    return {};
  return found;
}

// ---- f16

constexpr std::size_t kQuestions = 256;  // an invocation each
constexpr const char* kHalfShader = R"(enable f16;
@group(0) @binding(0) var<storage, read_write> single: array<f32>;
@group(0) @binding(1) var<storage, read_write> pair: array<vec2<f16>>;
@group(0) @binding(2) var<storage, read_write> wide: array<u32>;
@group(0) @binding(3) var<storage, read_write> answer: array<vec4<f16>>;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) i: u32) {
  let a = pair[i].x;
  let b = pair[i].y;
  let exact = bitcast<u32>(f32(a)) == wide[i];
  answer[2u * i] = vec4<f16>(f16(single[i]), a + b, a - b, select(0.0h, 1.0h, exact));
  answer[2u * i + 1u] = vec4<f16>(select(0.0h, 1.0h, a < b), select(0.0h, 1.0h, a == b), -a, abs(a));
}
)";

struct HalfFacts {
  bool stores = false, rounds = false, adds = false;
};

HalfFacts ask_about_halves(webgpu::Device& device) {
  // Between two neighbours: ties, what is just beside them, and themselves; zeros, denormals, the edge of what is finite.
  std::vector<std::uint32_t> single, pair, wide;
  std::vector<float> numbers;
  std::vector<std::uint16_t> first, second;
  for (std::uint32_t i = 0; i < kQuestions; ++i) {
    constexpr std::array<std::uint16_t, 16> kCodes{0x0000, 0x0001, 0x0002, 0x03fe, 0x03ff, 0x0400,
                                                   0x0401, 0x3555, 0x3bff, 0x3c00, 0x3c01, 0x63d1,
                                                   0x7bfe, 0x7bff, 0x7c00, 0x7e00};
    const auto code = static_cast<std::uint16_t>(kCodes.at(i / 16) | (i % 2 == 0 ? 0 : 0x8000));
    const std::uint32_t here = std::bit_cast<std::uint32_t>(f16_to_f32(code));
    // A sixteenth of the way to the next code and so on; the last bit tells a tie from what is beside it.
    const bool finite = (code & 0x7c00U) != 0x7c00U;
    const float next = f16_to_f32(static_cast<std::uint16_t>(code + 1));
    const float top = (code & 0x7fffU) == 0x7bffU ? (code > 0x7fffU ? -65536.F : 65536.F) : next;
    const float middle = f16_to_f32(code) + (top - f16_to_f32(code)) * 0.5F;
    const std::uint32_t tie = std::bit_cast<std::uint32_t>(middle);
    const std::array<std::uint32_t, 8> ways{here,     tie,        tie - 1,    tie + 1,
                                            here + 1, tie + 4096, tie - 4096, here};
    single.push_back(finite ? ways.at(i / 2 % 8) : here);
    numbers.push_back(std::bit_cast<float>(single.back()));
    first.push_back(code);
    second.push_back(static_cast<std::uint16_t>(kCodes.at((i * 7 + 3) % 16) | (i % 3 == 0 ? 0x8000 : 0)));
    pair.push_back(static_cast<std::uint32_t>(first.back()) | static_cast<std::uint32_t>(second.back())
                                                                  << 16U);
    wide.push_back(here);
  }
  const std::vector<std::vector<std::uint32_t>> questions{single, pair, wide};
  const std::vector<std::uint32_t> found = answers(device, kHalfShader, questions, 4 * kQuestions);
  if (found.empty()) return {};
  HalfFacts facts{true, true, true};
  for (std::size_t i = 0; i < kQuestions; ++i) {
    auto half = [&](std::size_t which) {
      return static_cast<std::uint16_t>(found[4 * i + which / 2] >> (16 * (which % 2)));
    };
    auto is = [&](std::size_t which, float wanted) {
      const std::uint16_t code = f32_to_f16(wanted);
      const bool both_nan = (half(which) & 0x7fffU) > 0x7c00U && (code & 0x7fffU) > 0x7c00U;
      return both_nan || half(which) == code;
    };
    const float a = f16_to_f32(first[i]), b = f16_to_f32(second[i]);
    facts.stores = facts.stores && (is(3, 1) || a != a) && half(6) == (first[i] ^ 0x8000U) &&
                   half(7) == (first[i] & 0x7fffU);
    facts.rounds = facts.rounds && is(0, numbers[i]);
    facts.adds = facts.adds && is(1, a + b) && is(2, a - b) && is(4, a < b ? 1 : 0) && is(5, a == b ? 1 : 0);
  }
  return facts;
}

// Asked once for each adapter: two devices of one adapter compute alike.
HalfFacts half_facts(webgpu::Device& device) {
  static std::mutex mutex;
  static std::map<std::string, HalfFacts> known;
  const std::lock_guard lock(mutex);
  const webgpu::Adapter& adapter = device.adapter();
  const auto [place, is_new] = known.try_emplace(adapter.api + "/" + adapter.name + "/" + adapter.driver);
  if (is_new) place->second = ask_about_halves(device);
  const HalfFacts facts = place->second;
  if (device.lost()) known.erase(place);  // it may answer better next time
  return facts;
}

}  // namespace

WgslFeatures features_for(webgpu::Device& device, std::span<const kir::Kernel> kernels) {
  const webgpu::Adapter& adapter = device.adapter();
  WgslFeatures features{.int64 = adapter.int64, .float64 = adapter.f64};
  features.binding_bytes = adapter.limits.binding_bytes;
  features.storage_buffers = adapter.limits.storage_buffers;
  const bool halves = std::ranges::any_of(
      kernels, [](const kir::Kernel& kernel) { return wgsl::dtypes_of(kernel).contains(DType::F16); });
  if (adapter.f16 && halves) {
    const HalfFacts facts = half_facts(device);
    features.float16 = facts.stores;
    features.float16_rounds = facts.stores && facts.rounds;
    features.float16_adds = facts.stores && facts.adds;
  }
  return features;
}

}  // namespace xyntra
