#include "kir/sim/sim_memory.h"

#include <algorithm>
#include <utility>

#include "support/copy_bytes.h"
#include "te/lanes.h"

namespace xyntra::kir::sim {

void Clocks::join(const Clocks& other) {
  auto larger = [](std::vector<std::uint32_t>& own, const std::vector<std::uint32_t>& theirs) {
    own.resize(std::max(own.size(), theirs.size()), 0);
    for (std::size_t i = 0; i < theirs.size(); ++i) own[i] = std::max(own[i], theirs[i]);
  };
  larger(seen, other.seen);
  larger(fenced, other.fenced);
}

Order::Order(std::size_t threads, std::size_t agents, std::size_t copies, bool objects)
    : threads_(threads), first_copy_(agents - copies), copies_(copies), objects_(objects) {
  if (!objects) return;
  rows_.resize(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    rows_[t].seen.assign(agents, 0);
    rows_[t].fenced.assign(agents, 0);
    rows_[t].seen[t] = 1;
  }
}

Epoch Order::now(std::size_t thread) const {
  return {static_cast<std::uint32_t>(thread), objects_ ? rows_[thread].seen[thread] : barriers_};
}

bool Order::seen(std::size_t by, Epoch epoch) const {
  if (!objects_) return epoch.agent == by || epoch.clock < barriers_;
  return epoch.clock <= rows_[by].seen[epoch.agent];
}

bool Order::fenced(std::size_t by, Epoch epoch) const {
  if (!objects_ || (epoch.agent >= threads_ && epoch.agent < first_copy_)) return seen(by, epoch);
  return epoch.clock <= rows_[by].fenced[epoch.agent];
}

void Order::barrier(std::size_t first, std::size_t count) {
  ++barriers_;
  if (!objects_) return;
  Clocks all;
  for (std::size_t t = first; t < first + count; ++t) all.join(rows_[t]);
  for (std::size_t t = first; t < first + count; ++t) {
    rows_[t] = all;
    tick(t);
  }
}

bool Order::has_seen_any(std::size_t by, std::size_t first, std::size_t count) const {
  const std::vector<std::uint32_t>& seen = rows_[by].seen;
  return std::any_of(seen.begin() + static_cast<std::ptrdiff_t>(first),
                     seen.begin() + static_cast<std::ptrdiff_t>(first + count),
                     [](std::uint32_t clock) { return clock != 0; });
}

void Order::release(std::size_t thread, Clocks& into) {
  into.join(rows_[thread]);
  tick(thread);
}

void Order::acquire(std::size_t thread, Epoch epoch) {
  std::uint32_t& known = rows_[thread].seen[epoch.agent];
  known = std::max(known, epoch.clock);
}

void Order::fence(std::size_t thread) {
  if (!objects_) return;
  Clocks& own = rows_[thread];
  own.fenced[thread] = own.seen[thread];
  if (thread < copies_) own.fenced[first_copy_ + thread] = own.seen[first_copy_ + thread];
  tick(thread);
}

Storage::Storage(const Buffer& buffer, std::int64_t elements)
    : dtype_(buffer.dtype),
      elements_(elements),
      element_bytes_(static_cast<std::size_t>(te::storage_bytes(buffer.dtype))),
      local_(buffer.scope == Scope::Shared || buffer.scope == Scope::Register),
      tracks_defined_(buffer.scope != Scope::Global || buffer.written) {
  bool packed = buffer.scope == Scope::Global || buffer.scope == Scope::Workspace;
  if (packed && bits_of(dtype_) < 8) per_touch_ = 8 / bits_of(dtype_);
  if (!local_) restart(1);
}

void Storage::restart(std::int64_t copies) {
  auto count = static_cast<std::size_t>(elements_ * copies);
  bytes_.resize(count * element_bytes_);
  if (tracks_defined_) defined_.assign(count, 0);
}

void Storage::watch(std::uint32_t phase, bool items, bool threads) {
  phase_ = phase;
  watch_items_ = items;
  watch_threads_ = threads;
  std::size_t touches = bytes_.size() / element_bytes_ / static_cast<std::size_t>(per_touch_) + 1;
  if (items) item_touches_.resize(touches);
  if (threads) thread_touches_.assign(touches, {});
  reader_lists_.clear();
}

void Storage::give(std::span<const std::byte> packed) {
  if (bits_of(dtype_) >= 8) {
    copy_bytes(packed.first(bytes_.size()), bytes_);
    return;
  }
  const auto bits = static_cast<std::size_t>(bits_of(dtype_));
  const unsigned mask = (1U << bits) - 1U;
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    unsigned value = std::to_integer<unsigned>(packed[i * bits / 8]) >> (i * bits % 8) & mask;
    bool negative = is_signed_integer(dtype_) && (value >> (bits - 1)) != 0;
    bytes_[i] = static_cast<std::byte>(negative ? value | ~mask : value);
  }
}

void Storage::take(std::span<std::byte> packed) const {
  if (bits_of(dtype_) >= 8) {
    copy_bytes(bytes_, packed);
    return;
  }
  const auto bits = static_cast<std::size_t>(bits_of(dtype_));
  const unsigned mask = (1U << bits) - 1U;
  std::fill(packed.begin(), packed.end(), std::byte{0});
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    unsigned value = std::to_integer<unsigned>(bytes_[i]) & mask;
    packed[i * bits / 8] |= static_cast<std::byte>(value << (i * bits % 8));
  }
}

Conflict Storage::read(std::int64_t place, const Toucher& toucher) {
  if (tracks_defined_ && !is_defined(place)) return {Conflict::Kind::Undefined, 0, false};
  if (watch_items_) {
    Conflict found = touch_item(item_touches_[touch_index(place)], toucher, false);
    if (found.kind != Conflict::Kind::None) return found;
  }
  if (watch_threads_) return read_thread(thread_touches_[touch_index(place)], toucher);
  return {};
}

Conflict Storage::write(std::int64_t place, const Toucher& toucher) {
  if (toucher.atomic != 0 && tracks_defined_ && !is_defined(place))
    return {Conflict::Kind::Undefined, 0, false};
  if (tracks_defined_) defined_[static_cast<std::size_t>(place)] = 1;
  if (watch_items_) {
    Conflict found = touch_item(item_touches_[touch_index(place)], toucher, true);
    if (found.kind != Conflict::Kind::None) return found;
  }
  if (watch_threads_) return write_thread(thread_touches_[touch_index(place)], toucher);
  return {};
}

Conflict Storage::touch_item(ItemTouch& touch, const Toucher& toucher, bool writes) {
  if (touch.phase != phase_) touch = {phase_, kNobody, kNobody, 0};
  const bool alike = writes && toucher.atomic != 0 && toucher.atomic == touch.atomic;
  if (touch.writer != kNobody && touch.writer != toucher.item && !alike)
    return {Conflict::Kind::Item, touch.writer, true};
  if (writes) {
    if (touch.reader != kNobody && touch.reader != toucher.item) {
      return {Conflict::Kind::Item, touch.reader, false};
    }
    // A plain write among them stays one, though it was this item's own.
    if (touch.writer == kNobody) touch.atomic = toucher.atomic;
    if (touch.atomic != toucher.atomic) touch.atomic = 0;
    touch.writer = touch.writer == kNobody || touch.writer == toucher.item ? toucher.item : kMany;
  } else if (touch.reader == kNobody) {
    touch.reader = toucher.item;
  } else if (touch.reader != toucher.item) {
    touch.reader = kMany;
  }
  return {};
}

Epoch Storage::unseen_writer(const ThreadTouch& touch, const Toucher& toucher) const {
  const Order& order = *toucher.order;
  if (touch.write.agent != kNobody && !order.seen(toucher.thread, touch.write)) return touch.write;
  if (touch.writers < 0) return {};
  for (Epoch writer : reader_lists_[static_cast<std::size_t>(touch.writers)]) {
    if (!order.seen(toucher.thread, writer)) return writer;
  }
  return {};
}

Conflict Storage::read_thread(ThreadTouch& touch, const Toucher& toucher) {
  if (touch.owner != toucher.owner) touch = {toucher.owner, {}, {}};
  const Order& order = *toucher.order;
  if (touch.write.agent != kNobody) {
    if (const Epoch writer = unseen_writer(touch, toucher); writer.agent != kNobody)
      return {Conflict::Kind::Thread, writer.agent, true};
    if (toucher.asynchronous && !order.fenced(toucher.thread, touch.write)) {
      return {Conflict::Kind::Unfenced, touch.write.agent, true};
    }
  }
  auto done = [&](Epoch earlier) { return earlier.agent == kNobody || order.seen(toucher.thread, earlier); };
  if (touch.readers < 0 && done(touch.read)) {
    touch.read = toucher.epoch;
    return {};
  }
  if (touch.read.agent == toucher.epoch.agent && touch.readers < 0) return {};
  if (!order.has_objects()) {  // since the last barrier: which of them does not matter
    touch.read = {kMany, toucher.epoch.clock};
    return {};
  }
  if (touch.readers < 0) {
    touch.readers = static_cast<std::int32_t>(reader_lists_.size());
    reader_lists_.push_back({touch.read});
  }
  std::vector<Epoch>& readers = reader_lists_[static_cast<std::size_t>(touch.readers)];
  std::erase_if(readers, [&](Epoch earlier) { return done(earlier); });
  readers.push_back(toucher.epoch);
  return {};
}

Conflict Storage::write_thread(ThreadTouch& touch, const Toucher& toucher) {
  if (touch.owner != toucher.owner) touch = {toucher.owner, {}, {}};
  const Order& order = *toucher.order;
  const Epoch writer = unseen_writer(touch, toucher);
  const bool alike = toucher.atomic != 0 && toucher.atomic == touch.atomic;
  if (writer.agent != kNobody && !alike) return {Conflict::Kind::Thread, writer.agent, true};
  if (touch.readers >= 0) {
    for (Epoch reader : reader_lists_[static_cast<std::size_t>(touch.readers)]) {
      if (!order.seen(toucher.thread, reader)) return {Conflict::Kind::Thread, reader.agent, false};
    }
  } else if (touch.read.agent != kNobody && !order.seen(toucher.thread, touch.read)) {
    return {Conflict::Kind::Thread, touch.read.agent, false};
  }
  ThreadTouch next{toucher.owner, toucher.epoch, {}, -1, -1, toucher.atomic};
  // A plain write of its own that nobody else has seen yet stays what others find.
  const bool own = touch.write.agent == toucher.epoch.agent && touch.write.clock == toucher.epoch.clock;
  if (own && touch.atomic != toucher.atomic) next.atomic = 0;
  if (alike && writer.agent != kNobody) {
    if (order.has_objects()) {
      next.writers = touch.writers;
      if (next.writers < 0) {
        next.writers = static_cast<std::int32_t>(reader_lists_.size());
        reader_lists_.emplace_back();
      }
      reader_lists_[static_cast<std::size_t>(next.writers)].push_back(touch.write);
    } else {
      next.write = {kMany, toucher.epoch.clock};  // since the last barrier: which of them does not matter
    }
  }
  touch = next;
  return {};
}

bool Storage::all_defined(std::span<const std::int64_t> places) const {
  bool all = true;
  for (std::int64_t place : places) all = all && (place < 0 || is_defined(place));
  return all;
}

void Storage::define(std::span<const std::int64_t> places) {
  if (!tracks_defined_) return;
  for (std::int64_t place : places) defined_[static_cast<std::size_t>(place)] = 1;
}

bool Storage::stamp(std::int64_t place, std::uint32_t stamp) {
  if (stamps_.size() * element_bytes_ < bytes_.size()) stamps_.resize(bytes_.size() / element_bytes_, 0);
  std::uint32_t& own = stamps_[static_cast<std::size_t>(place)];
  return std::exchange(own, stamp) == stamp;
}

}  // namespace xyntra::kir::sim
