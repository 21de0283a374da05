#include "runtime/drivers/device_copies.h"

#include <algorithm>

#include "runtime/artifact/blocks.h"

namespace xyntra {
namespace {

bool whole_words(const KernelArgument::Rows& rows) {
  return rows.count > 0 && rows.first % 4 == 0 && rows.bytes % 4 == 0 && rows.distance % 4 == 0;
}

}  // namespace

std::uint64_t LastWriters::write(const std::byte* memory) {
  const std::lock_guard lock(mutex_);
  if (runs_.size() >= kMost && !runs_.contains(memory)) runs_.clear();
  return runs_[memory] = next_++;
}

bool LastWriters::is_last(const std::byte* memory, std::uint64_t run) const {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(memory);
  return found != runs_.end() && found->second == run;
}

std::size_t LastWriters::size() const {
  const std::lock_guard lock(mutex_);
  return runs_.size();
}

std::int64_t rounded_within(std::int64_t bytes, std::int64_t step, std::int64_t most) {
  const std::int64_t rounded = round_up(bytes, step);
  return rounded <= most ? rounded : round_up(bytes, 4);
}

template <DeviceMemory Device>
void DeviceCopiesOf<Device>::begin(std::span<const KernelDriver::Memory> unchanged) {
  for (auto& [memory, piece] : pieces_) piece.kept = false;
  std::erase_if(known_, [&](const auto& entry) {
    const auto& [begin, known] = entry;
    if (known.piece->constant) return false;
    const bool same = std::ranges::any_of(unchanged, [&](KernelDriver::Memory memory) {
      return memory.data() == begin && memory.data() + memory.size() == known.end;
    });
    // Still newer: the last run failed before the host had it.
    return !same || known.newer || known.writer == 0 || !writers_->is_last(begin, known.writer);
  });
  for (auto& [begin, known] : known_) known.piece->kept = true;
  std::erase_if(pieces_, [](const auto& entry) {
    const Piece& piece = entry.second;
    return !piece.constant && !piece.used && !piece.kept;
  });
  for (auto& [memory, piece] : pieces_) piece.used = false;
  uses_ = 0;
}

template <DeviceMemory Device>
auto DeviceCopiesOf<Device>::range_of(const KernelArgument& argument, bool is_read) -> Result<BufferRange> {
  Piece& piece = pieces_[argument.piece];
  const std::int64_t bytes = rounded_within(argument.piece_bytes, kRangeStep, device_->most_bytes());
  if (!piece.buffer || piece.buffer.bytes() < bytes) {
    forget({argument.piece, static_cast<std::size_t>(argument.piece_bytes)});
    if (piece.buffer) outgrown_();
    piece.buffer = argument.constant ? Buffer() : left_by_another(bytes);
  }
  if (!piece.buffer) {
    XYNTRA_TRY(piece.buffer, device_->allocate(bytes));
  }
  piece.constant = argument.constant;
  if (!piece.used) piece.use = uses_++;
  piece.used = true;
  if (is_read || argument.rows.count > 0) XYNTRA_CHECK_OK(bring(argument, piece, is_read));
  return BufferRange{&piece.buffer, argument.memory - argument.piece, round_up(argument.bytes, 4)};
}

// In this piece: arrays of callers may overlap.
template <DeviceMemory Device>
auto DeviceCopiesOf<Device>::known_of(const KernelArgument& argument, const Piece& piece) ->
    typename std::map<std::byte*, Known>::iterator {
  auto found = known_.upper_bound(argument.memory);
  if (found == known_.begin()) return known_.end();
  --found;
  const Known& known = found->second;
  const bool covers = known.piece == &piece && known.end >= argument.memory + argument.bytes;
  return covers ? found : known_.end();
}

template <DeviceMemory Device>
auto DeviceCopiesOf<Device>::nothing_of(const KernelArgument& argument, Piece& piece) const -> Known {
  Known known{argument.memory + argument.bytes, &piece, argument.memory - argument.piece};
  known.distance = argument.bytes;
  if (whole_words(argument.rows)) {
    known.distance = argument.rows.distance;
    known.count = argument.rows.count;
  }
  return known;
}

// What the device does not have yet. Of memory that is written in part only what is in use: the rest is room that nobody
// reads. All of it where words are shared between rows, or where it is looked at in some other way.
template <DeviceMemory Device>
Status DeviceCopiesOf<Device>::bring(const KernelArgument& argument, Piece& piece, bool is_read) {
  auto found = known_of(argument, piece);
  if (found == known_.end()) {
    forget({argument.memory, static_cast<std::size_t>(argument.bytes)});
    found = known_.emplace(argument.memory, nothing_of(argument, piece)).first;
  }
  auto& [begin, known] = *found;
  const KernelArgument::Rows& rows = argument.rows;
  const bool by_rows = whole_words(rows) && begin == argument.memory && rows.distance == known.distance &&
                       rows.count == known.count;
  const std::int64_t needed = by_rows ? rows.first + (is_read ? rows.bytes : 0) : known.distance;
  if (needed <= known.valid) return {};
  if (piece.pending) XYNTRA_CHECK_OK(submit_());
  for (std::int64_t i = 0; i < known.count; ++i) {
    const std::int64_t at = i * known.distance + known.valid;
    XYNTRA_CHECK_OK(device_->write(piece.buffer, known.offset + at,
                                   {begin + at, static_cast<std::size_t>(needed - known.valid)}));
  }
  known.valid = needed;
  return {};
}

// Rows come to what is there; everything else is new as a whole.
template <DeviceMemory Device>
void DeviceCopiesOf<Device>::know_written(const KernelArgument& argument, Piece& piece) {
  const auto found = known_of(argument, piece);
  const bool by_rows = argument.rows.count > 0 && found != known_.end() && found->first == argument.memory &&
                       found->second.end == argument.memory + argument.bytes;
  Known known = by_rows ? found->second : nothing_of(argument, piece);
  forget({argument.memory, static_cast<std::size_t>(argument.bytes)});
  known.newer = true;
  known.rows = argument.rows;
  known.valid = by_rows ? std::max(known.valid, argument.rows.first + argument.rows.bytes) : known.distance;
  known.writer = by_rows ? writers_->write(argument.memory) : 0;
  known_.emplace(argument.memory, known);
}

// Callers bring their arrays from new places. The buffer of one that was there in the last run and is not yet in this one
// serves: what was recorded with it can stay (Recording::follow).
template <DeviceMemory Device>
auto DeviceCopiesOf<Device>::left_by_another(std::int64_t bytes) -> Buffer {
  Piece* first = nullptr;
  for (auto& [memory, piece] : pieces_) {
    if (piece.used || piece.kept || piece.constant || !piece.buffer || piece.buffer.bytes() != bytes)
      continue;
    if (first == nullptr || piece.use < first->use) first = &piece;
  }
  return first == nullptr ? Buffer() : std::exchange(first->buffer, {});
}

template <DeviceMemory Device>
void DeviceCopiesOf<Device>::use(const KernelArgument& argument, bool is_written) {
  const auto piece = pieces_.find(argument.piece);
  if (piece == pieces_.end()) return;
  if (is_written && argument.bytes > 0) know_written(argument, piece->second);
  piece->second.pending = true;
}

template <DeviceMemory Device>
void DeviceCopiesOf<Device>::submitted() {
  for (auto& [memory, piece] : pieces_) piece.pending = false;
}

template <DeviceMemory Device>
void DeviceCopiesOf<Device>::forget(std::span<const std::byte> memory) {
  auto* begin = const_cast<std::byte*>(memory.data());
  std::byte* end = begin + memory.size();
  auto first = known_.lower_bound(begin);
  if (first != known_.begin() && std::prev(first)->second.end > begin) --first;
  known_.erase(first, known_.lower_bound(end));
}

template <DeviceMemory Device>
auto DeviceCopiesOf<Device>::newer_in(std::span<const std::span<std::byte>> places) -> std::vector<Rows> {
  std::vector<Rows> found;
  for (const std::span<std::byte> memory : places) {
    std::byte* end = memory.data() + memory.size();
    for (auto& [begin, known] : known_) {
      if (begin >= end || known.end <= memory.data() || !known.newer) continue;
      known.newer = false;
      KernelArgument::Rows rows = known.rows;
      if (rows.count == 0) rows = {0, known.end - begin, 0, 1};
      if (rows.bytes == 0) continue;
      found.push_back({&known.piece->buffer, known.offset + rows.first, begin + rows.first, rows.bytes,
                       rows.distance, rows.count});
    }
  }
  return found;
}

template class DeviceCopiesOf<webgpu::Device>;
template class DeviceCopiesOf<cuda::Stream>;

}  // namespace xyntra
