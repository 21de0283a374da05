// Boxes of tensors: where an intrinsic finds them, and what copies of them read and write at once.
#include <algorithm>

#include "kir/intrinsics.h"
#include "kir/sim/sim_runner.h"

namespace xyntra::kir::sim {

// Along a dimension, counted from the last one.
std::int64_t Runner::extent_of(const Box& box, std::size_t from_last) {
  if (from_last == 0) return box.columns;
  if (box.outer.empty()) return from_last == 1 ? box.rows : 1;
  return from_last <= box.outer.size() ? box.outer[box.outer.size() - from_last] : 1;
}

bool Runner::find_box(const Context& context, const Step& step, std::size_t which, std::size_t lane,
                      Box& box) {
  const Access& access = step.places[which];
  const PlaceRule& rule = places_of(step.node->intrinsic)[which];
  const std::vector<std::int64_t>& dims = program_.buffers[access.buffer.index].dims;
  box = {};
  box.buffer = access.buffer;
  for (Ref ref : access.index) {
    te::LaneOperand index = operand(ref);
    box.index.push_back(static_cast<const std::int64_t*>(index.lanes)[index.uniform ? 0 : lane]);
  }
  const std::size_t rank = dims.size();
  auto given = [&](std::size_t operand_number) {
    std::string_view signature = signature_of(step.node->intrinsic);
    auto before = signature.substr(0, operand_number);
    const auto places = std::count(before.begin(), before.end(), 'p');
    return number(step, before.size() - static_cast<std::size_t>(places), lane);
  };
  if (rule.rank != 0) {
    box.block = given(static_cast<std::size_t>(rule.rank));
    if (*box.block < 0 || *box.block >= phase_->cluster)
      return fault(context, step, lane, "the cluster has no block " + std::to_string(*box.block));
  }
  switch (rule.box) {
    case PlaceBox::Element: break;
    case PlaceBox::Row: box.columns = dims[rank - 1]; break;
    case PlaceBox::Tile:
      box.rows = dims[rank - 2];
      box.columns = dims[rank - 1];
      break;
    case PlaceBox::Given:
      box.columns = given(rule.extent_operand(0));
      for (std::size_t d = rule.extents - 1; d > 0; --d) box.outer.push_back(given(rule.extent_operand(d)));
      for (std::int64_t extent : box.outer) box.rows *= extent;
      break;
    case PlaceBox::Rows:
      box.rows = given(static_cast<std::size_t>(rule.rows));
      box.columns = given(static_cast<std::size_t>(rule.columns));
      box.along = row_dimension(*step.node, rule, rank);
      return find_rows(context, step, lane, box);
    case PlaceBox::Run:
      box.columns = run_length(*step.node, rule, kernel_.buffer(box.buffer).dtype).value_or(0);
      box.along = RowDimension{};  // one row; columns go on through all dimensions
      return find_run(context, step, lane, box);
  }
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t count = extent_of(box, rank - 1 - d);
    const bool overhangs = rule.overhangs && rank - 1 - d <= box.outer.size();
    if (overhangs ? count > 0 : count > 0 && box.index[d] >= 0 && box.index[d] <= dims[d] - count) continue;
    return fault(context, step, lane,
                 std::to_string(count) + " elements from index " + std::to_string(box.index[d]) +
                     " on leave dimension " + std::to_string(d) + " of '" + kernel_.buffer(box.buffer).name +
                     "', which has size " + std::to_string(dims[d]));
  }
  return true;
}

// Verified before: only the numbers can be wrong.
bool Runner::find_rows(const Context& context, const Step& step, std::size_t lane, const Box& box) {
  const std::vector<std::int64_t>& dims = program_.buffers[box.buffer.index].dims;
  std::int64_t place = 0, room = 1;
  bool inside = box.along.has_value() && box.rows > 0 && box.columns > 0;
  const bool overlap = inside && box.along->dimension + 1 == dims.size();
  for (std::size_t d = 0; inside && d < dims.size(); ++d) {
    std::int64_t last = box.index[d] + (d == box.along->dimension ? (box.rows - 1) * box.along->step : 0);
    if (overlap && d + 1 == dims.size()) last += box.columns - 1;
    inside = box.index[d] >= 0 && last < dims[d];
    if (d <= box.along->dimension) continue;
    place = place * dims[d] + box.index[d];
    room *= dims[d];
  }
  if (inside && (overlap || place + box.columns <= room)) return true;
  return fault(context, step, lane,
               std::to_string(box.rows) + " rows of " + std::to_string(box.columns) + " elements leave '" +
                   kernel_.buffer(box.buffer).name + "'");
}

bool Runner::find_run(const Context& context, const Step& step, std::size_t lane, const Box& box) {
  const std::vector<std::int64_t>& dims = program_.buffers[box.buffer.index].dims;
  const std::size_t first = run_dimension(kernel_.buffer(box.buffer).shape, box.columns);
  std::int64_t place = 0, room = 1;
  bool inside = box.columns > 0;
  for (std::size_t d = 0; inside && d < dims.size(); ++d) {
    inside = box.index[d] >= 0 && box.index[d] < dims[d];
    if (d < first) continue;
    place = place * dims[d] + box.index[d];
    room *= dims[d];
  }
  if (inside && place + box.columns <= room) return true;
  return fault(context, step, lane,
               "a run of " + std::to_string(box.columns) + " elements leaves '" +
                   kernel_.buffer(box.buffer).name + "'");
}

// -1 where the box overhangs.
std::int64_t Runner::place_in(const Box& box, std::int64_t row, std::int64_t column,
                              std::uint32_t thread) const {
  const BoundBuffer& bound = program_.buffers[box.buffer.index];
  const std::size_t rank = bound.dims.size();
  std::int64_t place = box.block ? *box.block : copy_of(box.buffer, thread);
  if (box.along) {
    for (std::size_t d = 0; d < rank; ++d) {
      std::int64_t index = box.index[d] + (d == box.along->dimension ? row * box.along->step : 0);
      place = place * bound.dims[d] + index;
    }
    return place + column;
  }
  std::int64_t inner = box.rows;  // elements along the dimensions that are left, of a column
  for (std::size_t d = 0; d < rank; ++d) {
    std::int64_t further = column;
    if (d + 1 < rank) {
      inner /= extent_of(box, rank - 1 - d);
      further = row / inner;
      row %= inner;
    }
    const std::int64_t index = box.index[d] + further;
    if (index < 0 || index >= bound.dims[d]) return -1;
    place = place * bound.dims[d] + index;
  }
  return place;
}

bool Runner::read_box(const Context& context, const Step& step, const Box& box, std::size_t lane,
                      const Toucher& by, Elements& elements) {
  Storage& storage = storages_[box.buffer.index];
  const std::size_t bytes = storage.element_bytes();
  elements.assign(static_cast<std::size_t>(box.rows * box.columns) * bytes, std::byte{0});
  report_.loads += box.rows * box.columns;
  for (std::int64_t at = 0; at < box.rows * box.columns; ++at) {
    std::int64_t place = place_in(box, at / box.columns, at % box.columns, lanes(context).thread[lane]);
    if (place < 0) continue;
    if (storage.tracks_reads() && !touch_read(context, step, box.buffer, lane, place, by)) return false;
    std::copy_n(storage.data() + place * static_cast<std::int64_t>(bytes), bytes,
                elements.begin() + at * static_cast<std::int64_t>(bytes));
  }
  return true;
}

bool Runner::write_box(const Context& context, const Step& step, const Box& box, std::size_t lane,
                       const Toucher& by, const Elements& elements) {
  Storage& storage = storages_[box.buffer.index];
  const auto bytes = static_cast<std::int64_t>(storage.element_bytes());
  report_.stores += box.rows * box.columns;
  for (std::int64_t at = 0; at < box.rows * box.columns; ++at) {
    std::int64_t place = place_in(box, at / box.columns, at % box.columns, lanes(context).thread[lane]);
    if (place < 0) continue;
    if (!touch_write(context, step, box.buffer, lane, place, by)) return false;
    std::copy_n(elements.begin() + at * bytes, bytes, storage.data() + place * bytes);
  }
  return true;
}

std::vector<float> Runner::floats(const Box& box, const Elements& elements) const {
  std::vector<float> values(static_cast<std::size_t>(box.rows * box.columns));
  te::load_lanes(kernel_.buffer(box.buffer).dtype, values.data(), elements.data(), 1,
                 static_cast<int>(values.size()));
  return values;
}

// ---- asynchronous copies

bool Runner::copy_box(const Context& context, const Step& step, std::size_t lane) {
  Box to, from, barrier;
  if (!find_box(context, step, 0, lane, to) || !find_box(context, step, 1, lane, from) ||
      !find_box(context, step, 2, lane, barrier))
    return false;
  if (kernel_.buffer(to.buffer).dtype != kernel_.buffer(from.buffer).dtype) {
    return fault(context, step, lane, "the copy changes the dtype");
  }
  const auto blocks = receivers(step, lane);
  std::vector<Barrier*> objects;
  for (const auto& block : blocks) {
    barrier.block = block;
    objects.push_back(barrier_in(context, step, barrier, lane, false));
    if (objects.back() == nullptr) return false;
  }
  const std::uint32_t thread = lanes(context).thread[lane];
  Toucher by = toucher(thread);
  by.asynchronous = true;
  Elements elements;
  if (!read_box(context, step, from, lane, by, elements)) return false;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Barrier& object = *objects[i];
    to.block = blocks[i];
    by.epoch = {copy_agent(object), ++object.copies};
    if (!write_box(context, step, to, lane, by, elements)) return false;
    object.bytes -= static_cast<std::int64_t>(elements.size());
    // Another block may not have said yet what it expects; its phase waits until it does.
    const bool early = object.block != block_of(thread) && object.missing > 0;
    if (object.bytes < 0 && !early) {
      return fault(context, step, lane,
                   "the copy brings " + std::to_string(elements.size()) + " bytes, " +
                       std::to_string(-object.bytes) + " more than this phase of its barrier expects");
    }
    complete_if_done(object);
  }
  return true;
}

bool Runner::store_box(const Context& context, const Step& step, std::size_t lane) {
  Box to, from;
  if (!find_box(context, step, 0, lane, to) || !find_box(context, step, 1, lane, from)) return false;
  if (kernel_.buffer(to.buffer).dtype != kernel_.buffer(from.buffer).dtype) {
    return fault(context, step, lane, "the copy changes the dtype");
  }
  const std::uint32_t thread = lanes(context).thread[lane];
  Toucher by = toucher(thread);
  by.asynchronous = true;
  by.epoch = {store_agent(), ++stores_issued_};
  stores_in_flight_[thread] = stores_issued_;
  Elements elements;
  return read_box(context, step, from, lane, by, elements) &&
         write_box(context, step, to, lane, by, elements);
}

}  // namespace xyntra::kir::sim
