#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "kir/intrinsics.h"
#include "kir/sim/sim_fragments.h"
#include "kir/sim/sim_runner.h"

namespace xyntra::kir::sim {

constexpr std::uint32_t kGroupThreads = kWarpgroupThreads;

std::uint32_t Runner::copy_agent(const Barrier& object) const {
  return static_cast<std::uint32_t>(thread_count_) + static_cast<std::uint32_t>(&object - barriers_.data());
}
std::uint32_t Runner::warpgroup_agent(std::uint32_t group) const {
  return static_cast<std::uint32_t>(thread_count_) + static_cast<std::uint32_t>(barriers_.size()) + group;
}
std::uint32_t Runner::store_agent() const {
  return warpgroup_agent(static_cast<std::uint32_t>(warpgroups_.size()));
}

Runner::Progress Runner::call(Context& context, const Step& step) {
  if (!evaluate(context, step)) return Progress::Failed;
  if (!of_units_.empty() && !places_free(context, step)) return Progress::Failed;
  const LaneSet& set = lanes(context);
  const Intrinsic intrinsic = step.node->intrinsic;
  bool good = true;
  auto each_lane = [&](auto action) {
    for (std::size_t i = 0; good && i < set.size(); ++i) good = action(i);
  };
  switch (intrinsic) {
    case Intrinsic::NamedBarrier:
    case Intrinsic::ClusterBarrier:
    case Intrinsic::SetRegisters:
    case Intrinsic::MbarrierWait: {
      Progress progress = intrinsic == Intrinsic::MbarrierWait   ? wait(context, step)
                          : intrinsic == Intrinsic::SetRegisters ? set_registers(context, step)
                                                                 : named_barrier(context, step);
      if (progress == Progress::Continues) ++context.step;
      return progress;
    }
    case Intrinsic::Barrier: good = barrier(context, step); break;
    case Intrinsic::ShuffleXor: good = shuffle(context, step); break;
    case Intrinsic::AsyncFence:
      each_lane([&](std::size_t i) { return orders_[0].fence(set.thread[i]), true; });
      break;
    case Intrinsic::MbarrierInit:
    case Intrinsic::MbarrierArrive:
    case Intrinsic::MbarrierExpect:
      each_lane([&](std::size_t i) { return barrier_call(context, step, i); });
      break;
    case Intrinsic::ClusterLoad:
    case Intrinsic::ClusterStore:
    case Intrinsic::ClusterArrive:
      each_lane([&](std::size_t i) { return cluster_call(context, step, i); });
      break;
    case Intrinsic::AsyncCopyBox:
    case Intrinsic::AsyncCopyBox3:
    case Intrinsic::AsyncCopyBox4:
    case Intrinsic::AsyncCopyBox5:
    case Intrinsic::AsyncCopyBoxMulticast:
    case Intrinsic::AsyncCopyBox3Multicast:
    case Intrinsic::AsyncCopyBox4Multicast:
    case Intrinsic::AsyncCopyBox5Multicast:
      each_lane([&](std::size_t i) { return copy_box(context, step, i); });
      break;
    case Intrinsic::AsyncStoreBox:
    case Intrinsic::AsyncStoreBox3:
    case Intrinsic::AsyncStoreBox4:
    case Intrinsic::AsyncStoreBox5:
      each_lane([&](std::size_t i) { return store_box(context, step, i); });
      break;
    case Intrinsic::AsyncStoreWait:
      for (std::uint32_t thread : set.thread) {
        auto last = stores_in_flight_.find(thread);
        if (last == stores_in_flight_.end()) continue;
        orders_[0].acquire(thread, {store_agent(), last->second});
        stores_in_flight_.erase(last);
      }
      break;
    case Intrinsic::AtomicAdd:
    case Intrinsic::AtomicMin:
    case Intrinsic::AtomicMax:
    case Intrinsic::AtomicAnd:
    case Intrinsic::AtomicOr:
      each_lane([&](std::size_t i) { return atomic_update(context, step, i); });
      break;
    case Intrinsic::Prefetch:
    case Intrinsic::PrefetchL2: break;
    case Intrinsic::TileZero:
    case Intrinsic::TileLoad:
    case Intrinsic::TileLoadRows:
    case Intrinsic::TileLoadRowsL2:
    case Intrinsic::TileStore:
    case Intrinsic::TileMultiplyBf16:
      each_lane([&](std::size_t i) { return tile_call(context, step, i); });
      break;
    case Intrinsic::TileMultiplyI8:
    case Intrinsic::Dot4I8:
    case Intrinsic::MmlaI8: each_lane([&](std::size_t i) { return multiply_bytes(context, step, i); }); break;
    case Intrinsic::SplitBf16x3:
      each_lane([&](std::size_t i) { return split_bf16x3(context, step, i); });
      break;
    case Intrinsic::Dot2Bf16:
    case Intrinsic::MmlaBf16: each_lane([&](std::size_t i) { return dot_groups(context, step, i); }); break;
    case Intrinsic::AsyncCopy: each_lane([&](std::size_t i) { return async_copy(context, step, i); }); break;
    case Intrinsic::AsyncCommit: async_commit(context); break;
    case Intrinsic::AsyncWait: good = async_wait(context, step); break;
    case Intrinsic::ShuffleIdx:
    case Intrinsic::ShuffleDown:
    case Intrinsic::VoteAny:
    case Intrinsic::VoteAll:
    case Intrinsic::Ballot:
    case Intrinsic::LoadFragment:
    case Intrinsic::LoadFragmentTransposed:
    case Intrinsic::WarpMultiplyBf16:
    case Intrinsic::WarpMultiplyF16:
    case Intrinsic::WarpMultiplyTf32:
    case Intrinsic::WarpMultiplyI8:
    case Intrinsic::WarpMultiplyU8:
    case Intrinsic::WarpMultiplyU8I8:
    case Intrinsic::WarpMultiplyI8U8:
    case Intrinsic::WarpMultiplyF8E4M3:
    case Intrinsic::WarpMultiplyF8E5M2: good = warp_call(context, step); break;
    case Intrinsic::RoundWordsBf16:
    case Intrinsic::RoundWordsF16:
      each_lane([&](std::size_t i) { return round_words(context, step, i); });
      break;
    case Intrinsic::RoundWordsTf32:
      each_lane([&](std::size_t i) { return round_words_tf32(context, step, i); });
      break;
    case Intrinsic::WarpgroupFence:
    case Intrinsic::WarpgroupMultiply:
    case Intrinsic::WarpgroupMultiplyTurned:
    case Intrinsic::WarpgroupMultiplyRs:
    case Intrinsic::WarpgroupMultiplyRsTurned:
    case Intrinsic::WarpgroupCommit:
    case Intrinsic::WarpgroupWait: good = warpgroup_call(context, step); break;
  }
  if (!good) return Progress::Failed;
  ++context.step;
  return Progress::Continues;
}

std::int64_t Runner::number(const Step& step, std::size_t which, std::size_t lane) const {
  te::LaneOperand source = operand(step.numbers[which]);
  return static_cast<const std::int64_t*>(source.lanes)[source.uniform ? 0 : lane];
}

// All read before one writes: they do so at once.
bool Runner::shuffle(const Context& context, const Step& step) {
  if (!meet(context, step, "shuffle")) return false;
  const LaneSet& set = lanes(context);
  std::unordered_map<std::uint32_t, Elements> given;  // by thread
  Box box;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!find_box(context, step, 1, i, box)) return false;
    if (!read_box(context, step, box, i, toucher(set.thread[i]), given[set.thread[i]])) return false;
  }
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!find_box(context, step, 0, i, box)) return false;
    const auto threads = static_cast<std::uint32_t>(block_threads_);
    const std::uint32_t first = set.thread[i] / threads * threads;
    const auto mask = static_cast<std::uint32_t>(number(step, 0, i));
    const std::uint32_t other = first + ((set.thread[i] - first) ^ mask);
    if (!write_box(context, step, box, i, toucher(set.thread[i]), given.at(other))) return false;
  }
  return true;
}

bool Runner::atomic_update(const Context& context, const Step& step, std::size_t lane) {
  const Intrinsic intrinsic = step.node->intrinsic;
  const std::uint32_t thread = lanes(context).thread[lane];
  Toucher by = toucher(thread);
  Box to, from;
  Elements given;
  if (!find_box(context, step, 0, lane, to) || !find_box(context, step, 1, lane, from) ||
      !read_box(context, step, from, lane, by, given))
    return false;
  by.atomic =
      static_cast<std::uint8_t>(1 + static_cast<int>(intrinsic) - static_cast<int>(Intrinsic::AtomicAdd));
  const std::int64_t place = place_in(to, 0, 0, thread);
  if (!touch_write(context, step, to.buffer, lane, place, by)) return false;
  ++report_.loads;
  ++report_.stores;
  Storage& storage = storages_[to.buffer.index];
  const DType dtype = storage.dtype();
  std::byte* held = storage.data() + place * static_cast<std::int64_t>(storage.element_bytes());
  std::array<std::int64_t, 3>
      values{};  // as lanes have them: what is held, what is given, what becomes of both
  te::load_lanes(dtype, &values[0], held, 1, 1);
  te::load_lanes(dtype, &values[1], given.data(), 1, 1);
  const std::array<te::LaneOperand, 3> operands{{{&values[0], true}, {&values[1], true}, {}}};
  te::compute({operation_of_atomic(intrinsic), dtype, dtype, {}}, &values[2], operands.data(), 1);
  te::settle_nans(dtype, &values[2], 1);
  te::store_lanes(dtype, held, 1, &values[2], 1);
  return true;
}

// A warpgroup that wants more than what is left waits for others to give some back.
Runner::Progress Runner::set_registers(const Context& context, const Step& step) {
  const LaneSet& set = lanes(context);
  std::map<std::uint32_t, std::int64_t> present;  // threads, by warpgroup
  for (std::uint32_t thread : set.thread) ++present[thread / kGroupThreads];
  for (const auto& [group, threads] : present) {
    if (threads == kGroupThreads) continue;
    fault(context, step, 0,
          "only " + std::to_string(threads) + " of 128 threads of a warpgroup reach this set_registers");
    return Progress::Failed;
  }
  const std::int64_t wanted = number(step, 0, 0);
  const auto groups = static_cast<std::uint32_t>((block_threads_ + kGroupThreads - 1) / kGroupThreads),
             first = static_cast<std::uint32_t>(block_of(set.thread[0])) * groups;
  std::int64_t all = 0;
  for (std::uint32_t group = first; group < first + groups; ++group)
    all += present.contains(group) ? wanted : warpgroups_[group].registers.value_or(kernel_.registers);
  if (all > kernel_.registers * groups) return Progress::Waits;
  for (const auto& [group, threads] : present) warpgroups_[group].registers = wanted;
  return Progress::Continues;
}

bool Runner::barrier(const Context& context, const Step& step) {
  if (!meet(context, step, "barrier")) return false;
  std::set<std::int64_t> blocks;
  for (std::uint32_t thread : lanes(context).thread) blocks.insert(block_of(thread));
  for (std::int64_t block : blocks) {
    const std::int64_t first = block * block_threads_;
    orders_[static_cast<std::size_t>(first / thread_count_)].barrier(
        static_cast<std::size_t>(first % thread_count_), static_cast<std::size_t>(block_threads_));
    ++report_.barriers;
  }
  return true;
}

// Whether all threads of each work item are here.
bool Runner::meet(const Context& context, const Step& step, const std::string& where) {
  const LaneSet& set = lanes(context);
  std::vector<std::int64_t> present(static_cast<std::size_t>(item_count_ * phase_->cluster), 0);
  for (std::uint32_t thread : set.thread) ++present[static_cast<std::size_t>(block_of(thread))];
  for (std::size_t item = 0; item < present.size(); ++item) {
    if (present[item] == 0) continue;
    if (present[item] != block_threads_) {
      auto at = std::find_if(set.thread.begin(), set.thread.end(), [&](std::uint32_t thread) {
        return block_of(thread) == static_cast<std::int64_t>(item);
      });
      return fault(context, step, static_cast<std::size_t>(at - set.thread.begin()),
                   "only " + std::to_string(present[item]) + " of " + std::to_string(block_threads_) +
                       " threads reach this " + where);
    }
  }
  return true;
}

// ---- barrier objects

Barrier* Runner::barrier_object(const Context& context, const Step& step, std::size_t which, std::size_t lane,
                                bool initialises) {
  Box box;
  if (!find_box(context, step, which, lane, box)) return nullptr;
  return barrier_in(context, step, box, lane, initialises);
}

Barrier* Runner::barrier_in(const Context& context, const Step& step, const Box& box, std::size_t lane,
                            bool initialises) {
  const std::uint32_t thread = lanes(context).thread[lane];
  const std::int64_t place = place_in(box, 0, 0, thread);
  const Toucher by = toucher(thread);
  bool good = initialises ? touch_write(context, step, box.buffer, lane, place, by)
                          : touch_read(context, step, box.buffer, lane, place, by);
  if (!good) return nullptr;
  auto key = static_cast<std::int64_t>(box.buffer.index) << 40 | place;
  Barrier& object = barriers_[barrier_numbers_.try_emplace(key, barrier_numbers_.size()).first->second];
  object.block = place / program_.buffers[box.buffer.index].elements;
  return &object;
}

void Runner::complete_if_done(Barrier& object) {
  if (object.missing != 0 || object.bytes != 0) return;
  object.released.join(object.gathered);
  object.released.seen.resize(std::max<std::size_t>(object.released.seen.size(), copy_agent(object) + 1), 0);
  object.released.seen[copy_agent(object)] = object.copies;
  object.gathered = {};
  object.missing = object.expected;
  ++object.phase;
}

bool Runner::barrier_call(const Context& context, const Step& step, std::size_t lane) {
  const Intrinsic intrinsic = step.node->intrinsic;
  const std::uint32_t thread = lanes(context).thread[lane];
  Barrier* object = barrier_object(context, step, 0, lane, intrinsic == Intrinsic::MbarrierInit);
  if (object == nullptr) return false;
  if (intrinsic == Intrinsic::MbarrierInit) {
    std::int64_t arrivals = number(step, 0, lane);
    if (arrivals <= 0) return fault(context, step, lane, "a barrier expects at least one arrival");
    const std::int64_t block = object->block;
    *object = {};
    object->block = block;
    object->ready = true;
    object->expected = object->missing = arrivals;
    return true;
  }
  if (intrinsic == Intrinsic::MbarrierExpect) object->bytes += number(step, 0, lane);
  orders_[0].release(thread, object->gathered);
  --object->missing;
  if (object->missing < 0) {  // its phase cannot end before its copies have come
    return fault(context, step, lane, "more arrivals than the barrier expects while it waits for copies");
  }
  if (object->missing == 0 && object->bytes < 0)
    return fault(context, step, lane,
                 "copies have brought " + std::to_string(-object->bytes) +
                     " bytes more than this phase of the barrier expects");
  complete_if_done(*object);
  return true;
}

Runner::Progress Runner::wait(const Context& context, const Step& step) {
  const LaneSet& set = lanes(context);
  std::vector<const Barrier*> objects;
  bool all = true;
  for (std::size_t i = 0; i < set.size(); ++i) {
    const Barrier* object = barrier_object(context, step, 0, i, false);
    if (object == nullptr) return Progress::Failed;
    std::int64_t parity = number(step, 0, i);
    if (parity != 0 && parity != 1) {
      fault(context, step, i, "parity " + std::to_string(parity) + " is neither 0 nor 1");
      return Progress::Failed;
    }
    all = all && static_cast<std::int64_t>(object->phase & 1) != parity;
    objects.push_back(object);
  }
  if (!all) return Progress::Waits;
  for (std::size_t i = 0; i < set.size(); ++i) orders_[0].acquire(set.thread[i], objects[i]->released);
  return Progress::Continues;
}

// Lanes that have come are counted once; then they wait for the others: at a barrier with a number, or for the whole cluster.
Runner::Progress Runner::named_barrier(Context& context, const Step& step) {
  const LaneSet& set = lanes(context);
  const bool of_cluster = step.node->intrinsic == Intrinsic::ClusterBarrier;
  if (of_cluster && context.arrived.empty() && !meet(context, step, "cluster_barrier"))
    return Progress::Failed;
  auto object = [&](std::size_t lane) -> Barrier& {
    if (of_cluster) return cluster_barrier_;
    const auto first = static_cast<std::size_t>(block_of(set.thread[lane])) * kNamedBarriers;
    return named_barriers_[first + static_cast<std::size_t>(number(step, 0, lane))];
  };
  if (context.arrived.empty()) {
    for (std::size_t i = 0; i < set.size(); ++i) {
      Barrier& own = object(i);
      const std::int64_t threads = of_cluster ? thread_count_ : number(step, 1, i);
      if (own.expected != 0 && own.missing != own.expected && own.expected != threads) {
        fault(context, step, i,
              "the barrier waits for " + std::to_string(own.expected) + " threads, not " +
                  std::to_string(threads));
        return Progress::Failed;
      }
      if (own.expected == 0 || own.missing == own.expected) own.expected = own.missing = threads;
      context.arrived.push_back(own.phase);
      orders_[0].release(set.thread[i], own.gathered);
      if (--own.missing > 0) continue;
      own.released = own.gathered;
      own.gathered = {};
      own.missing = own.expected;
      ++own.phase;
    }
  }
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (object(i).phase == context.arrived[i]) return Progress::Waits;
  }
  for (std::size_t i = 0; i < set.size(); ++i) orders_[0].acquire(set.thread[i], object(i).released);
  context.arrived.clear();
  if (of_cluster) ++report_.barriers;
  return Progress::Continues;
}

// ---- tile registers

bool Runner::tile_call(const Context& context, const Step& step, std::size_t lane) {
  const Toucher by = toucher(lanes(context).thread[lane]);
  std::array<Box, 3> boxes;
  for (std::size_t i = 0; i < step.places.size(); ++i) {
    if (!find_box(context, step, i, lane, boxes[i])) return false;
  }
  auto dtype = [&](std::size_t i) { return kernel_.buffer(boxes[i].buffer).dtype; };
  const auto bytes = static_cast<std::int64_t>(storages_[boxes[0].buffer.index].element_bytes());
  Elements elements;
  if (step.node->intrinsic == Intrinsic::TileZero) {
    elements.assign(static_cast<std::size_t>(boxes[0].rows * boxes[0].columns * bytes), std::byte{0});
    return write_box(context, step, boxes[0], lane, by, elements);
  }
  if (step.node->intrinsic == Intrinsic::TileMultiplyBf16) {
    constexpr std::int64_t kRows = 16, kPairs = 16;
    for (std::size_t i = 0; i < 3; ++i) {
      if (boxes[i].rows == kRows && boxes[i].columns == (i == 0 ? kRows : 2 * kPairs)) continue;
      return fault(context, step, lane, "tiles of 16 rows of 64 bytes are multiplied");
    }
    std::array<std::vector<float>, 3> tiles;
    for (std::size_t i = 0; i < 3; ++i) {
      if (!read_box(context, step, boxes[i], lane, by, elements)) return false;
      tiles[i] = floats(boxes[i], elements);
      for (float& one : tiles[i]) one = flushed(one);
    }
    auto at = [](std::int64_t row, std::int64_t columns, std::int64_t column) {
      return static_cast<std::size_t>(row * columns + column);
    };
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kRows; ++j) {
        float even = 0, odd = 0;
        for (std::int64_t p = 0; p < kPairs; ++p) {
          even = flushed(std::fma(tiles[1][at(i, 32, 2 * p)], tiles[2][at(p, 32, 2 * j)], even));
          odd = flushed(std::fma(tiles[1][at(i, 32, 2 * p + 1)], tiles[2][at(p, 32, 2 * j + 1)], odd));
        }
        float& sum = tiles[0][at(i, 16, j)];
        sum = flushed(sum + flushed(even + odd));
      }
    }
    te::settle_nans(DType::F32, tiles[0].data(), static_cast<int>(tiles[0].size()));
    elements.resize(tiles[0].size() * sizeof(float));
    te::store_lanes(DType::F32, elements.data(), 1, tiles[0].data(), static_cast<int>(tiles[0].size()));
    return write_box(context, step, boxes[0], lane, by, elements);
  }
  if (dtype(0) != dtype(1)) return fault(context, step, lane, "the tile has another dtype");
  const bool loads = step.node->intrinsic != Intrinsic::TileStore;
  const Box &tile = boxes[loads ? 0 : 1], &memory = boxes[loads ? 1 : 0];
  if (memory.rows > tile.rows || memory.columns > tile.columns) {
    return fault(context, step, lane, "the box is larger than the tile");
  }
  if (!read_box(context, step, boxes[1], lane, by, elements)) return false;
  const Box& target = boxes[0];
  Elements placed(static_cast<std::size_t>(target.rows * target.columns * bytes), std::byte{0});
  for (std::int64_t row = 0; row < memory.rows; ++row) {
    std::copy_n(elements.begin() + row * boxes[1].columns * bytes, memory.columns * bytes,
                placed.begin() + row * target.columns * bytes);
  }
  return write_box(context, step, target, lane, by, placed);
}

// ---- matrix units of warpgroups

bool Runner::warpgroup_call(const Context& context, const Step& step) {
  const LaneSet& set = lanes(context);
  std::map<std::uint32_t, std::pair<std::size_t, std::uint32_t>> groups;  // first lane, threads present
  for (std::size_t i = 0; i < set.size(); ++i) {
    auto [group, fresh] = groups.try_emplace(set.thread[i] / kGroupThreads, i, 0);
    ++group->second.second;
  }
  for (const auto& [group, present] : groups) {
    const auto& [lane, threads] = present;
    if (threads != kGroupThreads) {
      return fault(
          context, step, lane,
          "only " + std::to_string(threads) + " threads of warpgroup " + std::to_string(group) + " are here");
    }
    Warpgroup& unit = warpgroups_[group];
    switch (step.node->intrinsic) {
      case Intrinsic::WarpgroupFence:
        std::erase_if(unfenced_,
                      [g = group](const auto& entry) { return entry.first.first / kGroupThreads == g; });
        break;
      case Intrinsic::WarpgroupMultiply:
      case Intrinsic::WarpgroupMultiplyTurned:
      case Intrinsic::WarpgroupMultiplyRs:
      case Intrinsic::WarpgroupMultiplyRsTurned:
        if (!multiply(context, step, group, lane)) return false;
        break;
      case Intrinsic::WarpgroupCommit:
        unit.committed = unit.formed++;
        unit.open = false;
        break;
      case Intrinsic::WarpgroupWait: {
        std::int64_t in_flight = number(step, 0, lane);
        if (in_flight < 0) return fault(context, step, lane, "a negative number of groups");
        std::int64_t done = static_cast<std::int64_t>(unit.committed) - in_flight;
        unit.completed =
            std::max(unit.completed, static_cast<std::uint32_t>(std::max<std::int64_t>(done, 0)));
        for (std::uint32_t t = 0; t < kGroupThreads; ++t) {
          orders_[0].acquire(group * kGroupThreads + t, {warpgroup_agent(group), unit.completed});
        }
        break;
      }
      default: break;
    }
  }
  return true;
}

namespace {

// Dtypes of factors, and of the sums that go with them.
bool multiplies(DType factors, DType sums) {
  if (factors == DType::I8 || factors == DType::U8) return sums == DType::I32;
  return sums == DType::F32 && (factors == DType::BF16 || factors == DType::F16 || factors == DType::F32 ||
                                factors == DType::F8E4M3FN || factors == DType::F8E5M2);
}

}  // namespace

bool Runner::multiply(const Context& context, const Step& step, std::uint32_t group, std::size_t first_lane) {
  Box c, a, b;
  if (!find_box(context, step, 0, first_lane, c) || !find_box(context, step, 1, first_lane, a) ||
      !find_box(context, step, 2, first_lane, b)) {
    return false;
  }
  constexpr std::int64_t kRows = 64, kDepthBits = 256, kWordBits = 32;
  const bool turned = is_turned(step.node->intrinsic), words = places_of(step.node->intrinsic)[1].registers;
  const std::int64_t m = number(step, 0, first_lane), n = turned ? b.columns : b.rows,
                     k = turned ? b.rows : b.columns;
  if (m != kRows || n % 8 != 0 || c.columns != m * n / kGroupThreads) {
    return fault(context, step, first_lane,
                 "64 rows by a multiple of 8 columns are multiplied, into m*n/128 registers");
  }
  const DType dtype = kernel_.buffer(b.buffer).dtype, sums = kernel_.buffer(c.buffer).dtype;
  const DType left_dtype = words ? dtype : kernel_.buffer(a.buffer).dtype;
  if (bits_of(left_dtype) != bits_of(dtype) || !multiplies(left_dtype, sums) || !multiplies(dtype, sums) ||
      (bits_of(dtype) == 16 && left_dtype != dtype)) {
    return fault(context, step, first_lane,
                 "bf16, f16, f8 or f32 are multiplied into f32, or i8 and u8 into i32");
  }
  if (k * bits_of(dtype) % kDepthBits != 0)
    return fault(context, step, first_lane, "a depth of so many times 32 bytes is multiplied");
  if (words && a.columns * kWordBits * kGroupThreads != m * k * bits_of(dtype))
    return fault(context, step, first_lane, "four words of a thread are a depth of 32 bytes");
  const std::uint32_t first = group * kGroupThreads;
  for (const Box* box : {&c, &a}) {
    for (std::uint32_t t = 0; t < kGroupThreads; ++t) {
      if (unfenced_.count({first + t, box->buffer.index}) == 0) continue;
      return fault(context, step, first_lane,
                   "'" + kernel_.buffer(box->buffer).name + "' was written with no warpgroup_fence after it");
    }
  }
  Warpgroup& unit = warpgroups_[group];
  Toucher by = toucher(first);
  by.asynchronous = true;
  by.epoch = {warpgroup_agent(group), unit.formed};
  Elements elements;
  std::vector<double> left, right;
  if (words) {
    if (!factor_of_words(context, step, group, first_lane, dtype, left)) return false;
    unit.busy[a.buffer.index] = unit.formed;
  } else {
    if (!read_box(context, step, a, first_lane, by, elements)) return false;
    left = unit_values(left_dtype, elements);
  }
  if (!read_box(context, step, b, first_lane, by, elements)) return false;
  right = unit_values(dtype, elements);
  Storage& registers = storages_[c.buffer.index];
  for (std::uint32_t t = 0; t < kGroupThreads; ++t) {
    const std::int64_t thread = t;
    for (std::int64_t r = 0; r < c.columns; ++r) {
      std::int64_t row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (r / 2 % 2),
                   column = 8 * (r / 4) + 2 * (thread % 4) + r % 2;
      std::int64_t place = place_in(c, 0, r, first + t);
      if (!registers.is_defined(place)) {
        return conflict(context, step, c.buffer, first_lane, place, {Conflict::Kind::Undefined, 0, false},
                        false);
      }
      std::byte* memory = registers.data() + place * static_cast<std::int64_t>(sizeof(float));
      UnitSum sum(sums, memory);
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t other = turned ? i * n + column : column * k + i;
        sum.fma(left[static_cast<std::size_t>(row * k + i)], right[static_cast<std::size_t>(other)]);
      }
      sum.put(memory);
    }
  }
  unit.open = true;
  unit.busy[c.buffer.index] = unit.formed;
  return true;
}

// The first factor, [64, k], from the words that its threads have of it.
bool Runner::factor_of_words(const Context& context, const Step& step, std::uint32_t group,
                             std::size_t first_lane, DType dtype, std::vector<double>& factor) {
  constexpr std::int64_t kWordBytes = 4;
  constexpr std::size_t kRows = 64;
  Box row;
  if (!find_box(context, step, 1, first_lane, row)) return false;
  const Fragment fragment(dtype);
  const auto words = static_cast<std::size_t>(row.columns);
  const std::size_t depth = words / 4 * fragment.depth();
  Storage& registers = storages_[row.buffer.index];
  factor.assign(kRows * depth, 0);
  for (std::size_t t = 0; t < kGroupThreads; ++t) {
    for (std::size_t w = 0; w < words; ++w) {
      const std::int64_t place = place_in(row, 0, static_cast<std::int64_t>(w),
                                          group * kGroupThreads + static_cast<std::uint32_t>(t));
      if (!registers.is_defined(place))
        return conflict(context, step, row.buffer, first_lane, place, {Conflict::Kind::Undefined, 0, false},
                        false);
      const auto values = unit_values(dtype, {registers.data() + place * kWordBytes, kWordBytes});
      const std::size_t line = 16 * (t / 32) + t % 32 / 4 + 8 * (w % 2);
      for (std::size_t e = 0; e < values.size(); ++e)
        factor[line * depth + w / 4 * fragment.depth() + fragment.at(t, w / 2 % 2 != 0, e)] = values[e];
    }
  }
  return true;
}

// Of registers that units of the warpgroup use: sums are nobody else's before they are waited for, factors are not written.
bool Runner::registers_free(const Context& context, const Step& step, BufferId buffer, bool writes) {
  const UnitRegisters use = of_units_[buffer.index];
  if (use == UnitRegisters::None || (use == UnitRegisters::Factors && !writes)) return true;
  const LaneSet& set = lanes(context);
  std::uint32_t checked = kNobody;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (writes) unfenced_[{set.thread[i], buffer.index}] = true;
    std::uint32_t group = set.thread[i] / kGroupThreads;
    if (group == checked) continue;
    checked = group;
    const Warpgroup& unit = warpgroups_[group];
    auto busy = unit.busy.find(buffer.index);
    if (busy != unit.busy.end() && busy->second > unit.completed) {
      return fault(context, step, i,
                   "'" + kernel_.buffer(buffer).name + "' is touched while a multiplication " +
                       (use == UnitRegisters::Sums ? "into" : "of") + " it is not waited for");
    }
  }
  return true;
}

// The same for what other intrinsics read and write in registers.
bool Runner::places_free(const Context& context, const Step& step) {
  if (is_by_warpgroup(step.node->intrinsic)) return true;
  const auto rules = places_of(step.node->intrinsic);
  for (std::size_t i = 0; i < step.places.size(); ++i) {
    const bool writes = rules[i].access != PlaceAccess::Read && rules[i].access != PlaceAccess::Hint;
    if (!registers_free(context, step, step.places[i].buffer, writes)) return false;
  }
  return true;
}

// What a work item leaves behind would be lost, or written after its memory is given to another.
Status Runner::unfinished() const {
  std::string what;
  for (const Barrier& object : barriers_) {
    if (object.ready && object.bytes != 0)
      what = "a barrier still expects " + std::to_string(object.bytes) + " bytes";
    bool waited = object.copies == 0;
    const std::int64_t first = object.block * block_threads_;
    for (std::int64_t t = first; !waited && t < first + block_threads_; ++t) {
      waited = orders_[0].seen(static_cast<std::size_t>(t), {copy_agent(object), object.copies});
    }
    if (!waited) what = "an asynchronous copy is not waited for";
  }
  for (const Warpgroup& unit : warpgroups_) {
    if (unit.open || unit.completed < unit.committed) what = "a multiplication is not waited for";
  }
  for (const ThreadCopies& copies : thread_copies_) {
    if (copies.last > copies.completed) what = "an asynchronous copy is not waited for";
  }
  if (!stores_in_flight_.empty()) what = "an asynchronous store is not waited for";
  if (what.empty()) return outlived();
  return failure(ErrorClass::Internal, "kernel " + kernel_.name + ": a work item ends while " + what);
}

}  // namespace xyntra::kir::sim
