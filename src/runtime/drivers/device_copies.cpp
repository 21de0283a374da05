#include "runtime/drivers/device_copies.h"

#include <algorithm>

#include "runtime/blocks.h"

namespace xyntra {

using webgpu::Buffer;
using webgpu::BufferRange;

std::uint64_t LastWriters::write(const std::byte* memory) {
  const std::lock_guard lock(mutex_);
  return runs_[memory] = next_++;
}

bool LastWriters::is_last(const std::byte* memory, std::uint64_t run) const {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(memory);
  return found != runs_.end() && found->second == run;
}

void DeviceCopies::begin(std::span<const KernelDriver::Memory> unchanged) {
  for (auto& [memory, piece] : pieces_) piece.kept = false;
  std::erase_if(known_, [&](const auto& entry) {
    const auto& [begin, known] = entry;
    if (known.piece->constant) return false;
    const bool same = std::ranges::any_of(unchanged, [&](KernelDriver::Memory memory) {
      return memory.data() == begin && memory.data() + memory.size() == known.end;
    });
    return !same || known.writer == 0 || !writers_->is_last(begin, known.writer);
  });
  for (auto& [begin, known] : known_) {
    known.newer = false;
    known.piece->kept = true;
  }
  std::erase_if(pieces_, [](const auto& entry) {
    const Piece& piece = entry.second;
    return !piece.constant && !piece.used && !piece.kept;
  });
  for (auto& [memory, piece] : pieces_) piece.used = false;
  turns_ = 0;
}

Result<BufferRange> DeviceCopies::range_of(const KernelArgument& argument, bool is_read) {
  Piece& piece = pieces_[argument.piece];
  const std::int64_t bytes = round_up(argument.piece_bytes, 4);
  if (!piece.buffer || piece.buffer.bytes() < bytes) {
    forget({argument.piece, static_cast<std::size_t>(argument.piece_bytes)});
    if (piece.buffer) outgrown_();
    piece.buffer = argument.constant ? Buffer() : left_by_another(bytes);
  }
  if (!piece.buffer) {
    XYNTRA_TRY(piece.buffer, device_->allocate(bytes));
  }
  piece.constant = argument.constant;
  if (!piece.used) piece.turn = turns_++;
  piece.used = true;
  if ((is_read || argument.rows.count > 0) && !is_known(argument, piece)) {
    if (piece.pending) XYNTRA_CHECK_OK(submit_());
    XYNTRA_CHECK_OK(bring(argument, piece));
    know(argument, piece, false);
  }
  return BufferRange{&piece.buffer, argument.memory - argument.piece, round_up(argument.bytes, 4)};
}

bool DeviceCopies::whole_words(const KernelArgument::Rows& rows) {
  return rows.count > 0 && rows.first % 4 == 0 && rows.bytes % 4 == 0 && rows.distance % 4 == 0;
}

// Of memory that is written in part only what lies before the new rows: the rest is room that nobody reads.
Status DeviceCopies::bring(const KernelArgument& argument, Piece& piece) {
  const std::int64_t offset = argument.memory - argument.piece;
  const KernelArgument::Rows& rows = argument.rows;
  if (!whole_words(rows))
    return device_->write(piece.buffer, offset, {argument.memory, static_cast<std::size_t>(argument.bytes)});
  for (std::int64_t i = 0; i < rows.count && rows.first > 0; ++i) {
    const std::int64_t at = i * rows.distance;
    XYNTRA_CHECK_OK(device_->write(piece.buffer, offset + at,
                                   {argument.memory + at, static_cast<std::size_t>(rows.first)}));
  }
  return {};
}

// Callers bring their arrays from new places. The buffer of one that was there in the last run and is not yet in this one
// serves: what was recorded with it can stay (Recording::follow).
Buffer DeviceCopies::left_by_another(std::int64_t bytes) {
  Piece* first = nullptr;
  for (auto& [memory, piece] : pieces_) {
    if (piece.used || piece.kept || piece.constant || !piece.buffer || piece.buffer.bytes() != bytes)
      continue;
    if (first == nullptr || piece.turn < first->turn) first = &piece;
  }
  return first == nullptr ? Buffer() : std::exchange(first->buffer, {});
}

// In this piece: arrays of callers may overlap.
bool DeviceCopies::is_known(const KernelArgument& argument, const Piece& piece) const {
  auto after = known_.upper_bound(argument.memory);
  if (after == known_.begin()) return false;
  const Known& known = std::prev(after)->second;
  return known.piece == &piece && known.end >= argument.memory + argument.bytes;
}

void DeviceCopies::know(const KernelArgument& argument, Piece& piece, bool newer) {
  std::byte* end = argument.memory + argument.bytes;
  forget({argument.memory, static_cast<std::size_t>(argument.bytes)});
  Known& known = known_[argument.memory];
  known = {end, &piece, argument.memory - argument.piece, newer};
  if (!newer || argument.rows.count == 0) return;
  if (whole_words(argument.rows)) known.rows = argument.rows;
  known.writer = writers_->write(argument.memory);
}

void DeviceCopies::use(const KernelArgument& argument, bool is_written) {
  const auto piece = pieces_.find(argument.piece);
  if (piece == pieces_.end()) return;
  if (is_written && argument.bytes > 0) know(argument, piece->second, true);
  piece->second.pending = true;
}

void DeviceCopies::submitted() {
  for (auto& [memory, piece] : pieces_) piece.pending = false;
}

void DeviceCopies::forget(std::span<const std::byte> memory) {
  auto* begin = const_cast<std::byte*>(memory.data());
  std::byte* end = begin + memory.size();
  auto first = known_.lower_bound(begin);
  if (first != known_.begin() && std::prev(first)->second.end > begin) --first;
  known_.erase(first, known_.lower_bound(end));
}

std::vector<webgpu::Device::Read> DeviceCopies::reads_of(std::span<const std::span<std::byte>> places) {
  std::vector<webgpu::Device::Read> reads;
  for (const std::span<std::byte> memory : places) {
    std::byte* end = memory.data() + memory.size();
    for (auto& [begin, known] : known_) {
      if (begin >= end || known.end <= memory.data() || !known.newer) continue;
      known.newer = false;
      KernelArgument::Rows rows = known.rows;
      if (rows.count == 0) rows = {0, known.end - begin, 0, 1};
      for (std::int64_t i = 0; i < rows.count && rows.bytes > 0; ++i) {
        const std::int64_t at = rows.first + i * rows.distance;
        reads.push_back(
            {&known.piece->buffer, known.offset + at, {begin + at, static_cast<std::size_t>(rows.bytes)}});
      }
    }
  }
  return reads;
}

}  // namespace xyntra
