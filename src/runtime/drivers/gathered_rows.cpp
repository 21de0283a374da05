#include "runtime/drivers/gathered_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/artifact/blocks.h"

namespace xyntra {
namespace {

constexpr std::size_t kSources = 7;  // with the result as many buffers as every device binds
constexpr std::int64_t kFewestRows = 4;
constexpr std::int64_t kLargestRow = 1 << 16,
                       kMostGathered = 1 << 24;  // of one row, and of all that come along
constexpr std::int64_t kGroupWords = 64;

// One line of groups for each source, a thread for each word. `rows` are first word, words of a row, words from one to the next and
// how many; `places` where the first goes.
constexpr const char* kGatherRows = R"(@group(0) @binding(0) var<storage, read> b0: array<u32>;
@group(0) @binding(1) var<storage, read> b1: array<u32>;
@group(0) @binding(2) var<storage, read> b2: array<u32>;
@group(0) @binding(3) var<storage, read> b3: array<u32>;
@group(0) @binding(4) var<storage, read> b4: array<u32>;
@group(0) @binding(5) var<storage, read> b5: array<u32>;
@group(0) @binding(6) var<storage, read> b6: array<u32>;
@group(0) @binding(7) var<storage, read_write> together: array<u32>;
struct Sizes { rows: array<vec4<i32>, 7>, places: array<vec4<i32>, 7> }
@group(0) @binding(8) var<uniform> sizes: Sizes;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let source = i32(group.y);
  let rows = sizes.rows[source];
  let word = i32(group.x * 64u + lane);
  if (word >= rows.y * rows.w) { return; }
  let at = rows.x + word / rows.y * rows.z + word % rows.y;
  var found = 0u;
  switch (source) {
    case 0: { found = b0[at]; }
    case 1: { found = b1[at]; }
    case 2: { found = b2[at]; }
    case 3: { found = b3[at]; }
    case 4: { found = b4[at]; }
    case 5: { found = b5[at]; }
    default: { found = b6[at]; }
  }
  together[sizes.places[source].x + word] = found;
}
)";

struct Sizes {
  std::array<std::array<std::int32_t, 4>, kSources> rows = {}, places = {};
};

std::int64_t bytes_of(const DeviceRows& rows) { return rows.bytes * rows.count; }

}  // namespace

bool GatheredRows::takes(const DeviceRows& rows, std::span<const DeviceRows> others) const {
  const webgpu::Limits& limits = device_->adapter().limits;
  const bool words = rows.offset % 4 == 0 && rows.bytes % 4 == 0 && rows.distance % 4 == 0;
  const bool bound = rows.from->bytes() <= std::min<std::int64_t>(limits.binding_bytes, INT32_MAX) &&
                     std::cmp_greater(limits.storage_buffers, kSources);
  const std::int64_t groups = round_up(bytes_of(rows) / 4, kGroupWords) / kGroupWords;
  std::int64_t bytes = bytes_of(rows);
  for (const DeviceRows& other : others) bytes += bytes_of(other);
  return words && bound && rows.bytes > 0 && rows.bytes <= kLargestRow && bytes <= kMostGathered &&
         rows.count >= kFewestRows && groups <= limits.workgroups_per_dimension;
}

Status GatheredRows::record(std::vector<DeviceRows> rows, webgpu::Recording& recording) {
  rows_ = std::move(rows);
  if (!pipeline_) {
    webgpu::Shader shader;
    shader.wgsl = kGatherRows;
    shader.writable = std::vector<bool>(kSources + 1, false);
    shader.writable.back() = true;
    shader.size_bytes = sizeof(Sizes);
    XYNTRA_TRY(pipeline_, device_->pipeline(shader));
  }
  std::int64_t bytes = 0;
  for (const DeviceRows& one : rows_) bytes += bytes_of(one);
  if (!buffer_ || buffer_.bytes() < bytes) {
    XYNTRA_TRY(buffer_, device_->allocate(round_up(bytes, kRangeStep)));
  }
  read_.resize(static_cast<std::size_t>(bytes));
  std::int64_t first = 0;
  for (std::size_t begin = 0; begin < rows_.size(); begin += kSources) {
    const auto some = std::span(rows_).subspan(begin, std::min(kSources, rows_.size() - begin));
    XYNTRA_CHECK_OK(record_some(some, first, recording));
    for (const DeviceRows& one : some) first += bytes_of(one);
  }
  return {};
}

// Bindings that are left over are bound to the first source, and no group looks at them.
Status GatheredRows::record_some(std::span<const DeviceRows> rows, std::int64_t first,
                                 webgpu::Recording& recording) {
  Sizes sizes;
  std::vector<webgpu::BufferRange> ranges;
  std::int64_t words = 0;
  for (std::size_t i = 0; i < kSources; ++i) {
    const DeviceRows& one = rows[i < rows.size() ? i : 0];
    ranges.push_back({one.from, 0, round_up(one.from->bytes(), 4)});
    if (i >= rows.size()) continue;
    sizes.rows[i] = {static_cast<std::int32_t>(one.offset / 4), static_cast<std::int32_t>(one.bytes / 4),
                     static_cast<std::int32_t>(one.distance / 4), static_cast<std::int32_t>(one.count)};
    sizes.places[i][0] = static_cast<std::int32_t>(first / 4);
    first += bytes_of(one);
    words = std::max(words, bytes_of(one) / 4);
  }
  ranges.push_back({&buffer_, 0, round_up(buffer_.bytes(), 4)});
  return recording.dispatch(pipeline_, ranges, std::as_bytes(std::span(&sizes, 1)),
                            round_up(words, kGroupWords) / kGroupWords,
                            static_cast<std::int64_t>(rows.size()), 1);
}

webgpu::Device::Read GatheredRows::read() { return {&buffer_, 0, read_}; }

void GatheredRows::put() const {
  const std::byte* from = read_.data();
  for (const DeviceRows& one : rows_) {
    for (std::int64_t i = 0; i < one.count; ++i, from += one.bytes)
      std::memcpy(one.to + i * one.distance, from, static_cast<std::size_t>(one.bytes));
  }
}

}  // namespace xyntra
