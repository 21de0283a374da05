#include "report/explain/occupancy.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/ptx/emit.h"
#include "kir/effects.h"
#include "support/text/table.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::int64_t kWarp = 32, kMostRegisters = 255, kRegisterGrain = 8, kReservedShared = 1024,
                       kMostBlocks = 32;  // of a multiprocessor, from Hopper back to Ampere
constexpr std::int64_t kForAddresses = 24;  // registers of a thread

std::int64_t rounded(std::int64_t count, std::int64_t grain) { return (count + grain - 1) / grain * grain; }

// Of a thread: buffers in registers that the phase writes.
std::int64_t estimated_registers(const kir::Kernel& kernel, const kir::Phase& phase) {
  std::vector<bool> used(kernel.buffers.size());
  kir::for_each_statement(phase.body, [&](const kir::StmtNode& node) {
    for (kir::BufferId id : kir::buffers_written(node)) used[id.index] = true;
  });
  std::int64_t words = kForAddresses;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const Dim count = product(kernel.buffers[i].shape);
    if (used[i] && kernel.buffers[i].scope == kir::Scope::Register && count.is_constant())
      words += count.constant() * std::max(1, bits_of(kernel.buffers[i].dtype) / 32);
  }
  return std::min(kMostRegisters, rounded(words, kRegisterGrain));
}

BlockResources resources_of(const PtxPhase& phase, std::int64_t registers, const Target& target) {
  BlockResources made;
  made.threads = phase.threads;
  made.registers = registers;
  made.shared_bytes = phase.shared_bytes;
  made.warps = (phase.threads + kWarp - 1) / kWarp;
  const std::int64_t threads = made.warps * kWarp;
  struct Room {
    std::int64_t blocks;
    const char* of;
  };
  const std::array rooms{
      Room{kMostBlocks, "blocks"}, Room{target.core_threads / threads, "threads"},
      Room{target.shared_bytes / (made.shared_bytes + kReservedShared), "shared memory"},
      Room{target.register_bytes / (4 * threads * std::max<std::int64_t>(1, registers)), "registers"}};
  const Room& least = *std::ranges::min_element(rooms, {}, &Room::blocks);
  made.blocks = least.blocks;
  made.limit = least.of;
  made.occupancy = static_cast<double>(made.blocks * threads) /
                   static_cast<double>(std::max<std::int64_t>(1, target.core_threads));
  return made;
}

}  // namespace

std::vector<BlockResources> block_resources(const LoweredPlan& lowered, const Target& target) {
  std::vector<BlockResources> found;
  if (target.kind != TargetKind::Gpu) return found;
  for (std::size_t k = 0; k < lowered.kernels.size(); ++k) {
    const kir::Kernel& kernel = lowered.kernels[k];
    const auto code = emit_ptx(kernel, PtxOptions::of(target));
    if (!code) continue;  // what has no code is said where it is compiled
    const std::vector<kir::Phase> phases = kir::phases_of(kernel);
    for (std::size_t p = 0; p < code->phases.size(); ++p) {
      BlockResources one = resources_of(code->phases[p], estimated_registers(kernel, phases[p]), target);
      one.kernel = k;
      one.phase = p;
      for (std::size_t step = 0; step < lowered.program.steps.size(); ++step) {  // a step for each group
        const ProgramStep& launch = lowered.program.steps[step];
        if (launch.kind == ProgramStep::Kind::Launch && launch.callee == k) one.groups.push_back(step);
      }
      found.push_back(std::move(one));
    }
  }
  return found;
}

std::string occupancy_table(const std::vector<BlockResources>& resources, std::size_t most,
                            std::size_t width) {
  if (resources.empty()) return "";
  using enum Table::Align;
  Table table({Right, Right, Right, Right, Right, Right, Right, Right, Left});
  table.header(
      {"group", "launches", "threads", "warps", "registers", "shared", "blocks", "occupancy", "limited by"});
  for (std::size_t i = 0; i < std::min(most, resources.size()); ++i) {
    const BlockResources& one = resources[i];
    table.row({one.groups.empty() ? "" : std::to_string(one.groups.front()),
               std::to_string(one.groups.size()), std::to_string(one.threads), std::to_string(one.warps),
               "~" + std::to_string(one.registers), human_bytes(one.shared_bytes), std::to_string(one.blocks),
               std::to_string(std::lround(100 * one.occupancy)) + "%", one.limit});
  }
  return table.to_string(width);
}

Json occupancy_json(const std::vector<BlockResources>& resources) {
  Json json = Json::array();
  for (const BlockResources& one : resources) {
    Json line{{"kernel", one.kernel},
              {"phase", one.phase},
              {"groups", Json::array()},
              {"threads", one.threads},
              {"warps", one.warps},
              {"estimated_registers", one.registers},
              {"shared_bytes", one.shared_bytes},
              {"blocks", one.blocks},
              {"occupancy", one.occupancy},
              {"limit", one.limit}};
    for (const std::size_t group : one.groups) line["groups"].push_back(group);
    json.push_back(std::move(line));
  }
  return json;
}

}  // namespace xyntra
