#include "codegen/wgsl/adapter/probe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
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
    // Which NaN comes out is the device's affair.
    facts.stores = facts.stores && (is(3, 1) || a != a) && is(6, -a) && is(7, std::fabs(a));
    facts.rounds = facts.rounds && is(0, numbers[i]);
    facts.adds = facts.adds && is(1, a + b) && is(2, a - b) && is(4, a < b ? 1 : 0) && is(5, a == b ? 1 : 0);
  }
  return facts;
}

// ---- subgroups

constexpr const char* kSubgroupShader = R"(
@group(0) @binding(0) var<storage, read_write> answer: array<u32>;
@compute @workgroup_size($)
fn main(@builtin(local_invocation_index) i: u32, @builtin(subgroup_size) lanes: u32) {
  var least = 1u;
  if (subgroupShuffleXor(i, 1u) == (i ^ 1u)) { least = 2u; }
  let by_two = subgroupShuffleXor(i, 2u);
  let by_four = subgroupShuffleXor(i, 4u);
  let by_eight = subgroupShuffleXor(i, 8u);
  let by_sixteen = subgroupShuffleXor(i, 16u);
  if (least == 2u && by_two == (i ^ 2u)) { least = 4u; }
  if (least == 4u && by_four == (i ^ 4u)) { least = 8u; }
  if (least == 8u && by_eight == (i ^ 8u)) { least = 16u; }
  if (least == 16u && by_sixteen == (i ^ 16u)) { least = 32u; }
  answer[i] = min(least, lanes);
}
)";

struct SubgroupFacts {
  int lanes = 0;
  bool directive = false;
};

// A driver may give each kernel another size: the least is what counts. wgpu-native does not tell it, so only drivers are
// asked that have one size for all kernels; 0 for others.
std::uint32_t least_lanes_of(const webgpu::Adapter& adapter) {
  if (adapter.subgroup_min > 0) return static_cast<std::uint32_t>(adapter.subgroup_min);
  constexpr std::array kOneSize{"NVIDIA", "llvmpipe"};
  const bool one_size = std::ranges::any_of(
      kOneSize, [&](const char* name) { return adapter.name.find(name) != std::string::npos; });
  return one_size ? 32 : 0;
}

SubgroupFacts ask_about_subgroups(webgpu::Device& device) {
  for (const bool directive : {true, false}) {
    std::uint32_t least = least_lanes_of(device.adapter());
    if (least == 0) return {};
    for (const std::uint32_t threads : {256U, 32U}) {
      std::string text = kSubgroupShader;
      text.replace(text.find('$'), 1, std::to_string(threads));
      const std::vector<std::uint32_t> found =
          answers(device, (directive ? "enable subgroups;" : "") + text, {}, threads);
      least = found.empty() ? 0 : std::min(least, std::ranges::min(found));
    }
    if (least > 1) return {static_cast<int>(std::bit_floor(least)), directive};
  }
  return {};
}

// ---- what was asked

// Once for each adapter: two devices of one adapter compute alike.
template <class Facts>
Facts asked_once(webgpu::Device& device, Facts (*ask)(webgpu::Device&)) {
  static std::mutex mutex;
  static std::map<std::string, Facts> known;
  const std::lock_guard lock(mutex);
  const webgpu::Adapter& adapter = device.adapter();
  const auto [place, is_new] = known.try_emplace(adapter.api + "/" + adapter.name + "/" + adapter.driver);
  if (is_new) place->second = ask(device);
  const Facts facts = place->second;
  if (device.lost()) known.erase(place);  // it may answer better next time
  return facts;
}

SubgroupFacts subgroup_facts(webgpu::Device& device) {
  return device.adapter().subgroups ? asked_once(device, ask_about_subgroups) : SubgroupFacts{};
}

}  // namespace

std::int64_t subgroup_lanes_of(webgpu::Device& device) { return subgroup_facts(device).lanes; }

WgslFeatures features_for(webgpu::Device& device, std::span<const kir::Kernel> kernels) {
  const webgpu::Adapter& adapter = device.adapter();
  WgslFeatures features{.int64 = adapter.int64, .float64 = adapter.f64};
  features.binding_bytes = adapter.limits.binding_bytes;
  features.storage_buffers = adapter.limits.storage_buffers;
  const bool halves = std::ranges::any_of(
      kernels, [](const kir::Kernel& kernel) { return wgsl::dtypes_of(kernel).contains(DType::F16); });
  if (adapter.f16 && halves) {
    const HalfFacts facts = asked_once(device, ask_about_halves);
    features.float16 = facts.stores;
    features.float16_rounds = facts.stores && facts.rounds;
    features.float16_adds = facts.stores && facts.adds;
  }
  const bool shuffles =
      std::ranges::any_of(kernels, [](const kir::Kernel& kernel) { return wgsl::shuffles(kernel); });
  if (shuffles) {
    const SubgroupFacts facts = subgroup_facts(device);
    features.subgroup_lanes = facts.lanes;
    features.subgroup_directive = facts.directive;
  }
  return features;
}

}  // namespace xyntra
