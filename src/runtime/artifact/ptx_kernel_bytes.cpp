#include "runtime/artifact/ptx_kernel_bytes.h"

#include "runtime/artifact/program_bytes.h"

namespace xyntra {
void write_ptx_kernel(ByteWriter& writer, const PtxKernel& kernel) {
  writer.number(kernel.phases.size());
  for (const PtxPhase& phase : kernel.phases) {
    writer.text(phase.entry);
    write_dim(writer, phase.items);
    writer.signed_number(phase.threads);
    writer.signed_number(phase.items_per_block);
    writer.signed_number(phase.shared_bytes);
  }
  for (const auto* list : {&kernel.sizes, &kernel.argument_elements, &kernel.workspace_bytes})
    write_dims(writer, *list);
  writer.number(kernel.maps.size());
  for (const PtxTensorMap& map : kernel.maps) {
    writer.number(map.address);
    writer.signed_number(map.element_bytes);
    write_dims(writer, map.shape);
    for (const std::int64_t extent : map.box) writer.signed_number(extent);
    writer.number(map.swizzled ? 1 : 0);
  }
  for (const bool flag : {kernel.has_faults, kernel.overlaps, kernel.wide}) writer.number(flag ? 1 : 0);
}

Result<PtxKernel> read_ptx_kernel(ByteReader& reader) {
  PtxKernel kernel;
  XYNTRA_TRY(const std::size_t phases, reader.count());
  for (std::size_t p = 0; p < phases; ++p) {
    PtxPhase phase;
    XYNTRA_TRY(phase.entry, reader.text());
    XYNTRA_TRY(phase.items, read_dim(reader));
    XYNTRA_TRY(phase.threads, reader.signed_number());
    XYNTRA_TRY(phase.items_per_block, reader.signed_number());
    XYNTRA_TRY(phase.shared_bytes, reader.signed_number());
    if (phase.threads < 1 || phase.items_per_block < 1 || phase.shared_bytes < 0)
      return reader.bad("a kernel has no sensible thread block");
    kernel.phases.push_back(std::move(phase));
  }
  for (auto* list : {&kernel.sizes, &kernel.argument_elements, &kernel.workspace_bytes}) {
    XYNTRA_TRY(*list, read_dims(reader));
  }
  XYNTRA_TRY(const std::size_t maps, reader.count());
  for (std::size_t m = 0; m < maps; ++m) {
    PtxTensorMap map;
    XYNTRA_TRY(const std::uint64_t address, reader.number());
    XYNTRA_TRY(const std::int64_t element_bytes, reader.signed_number());
    XYNTRA_TRY(map.shape, read_dims(reader));
    for (std::size_t d = 0; d < map.shape.size(); ++d) {
      XYNTRA_TRY(const std::int64_t extent, reader.signed_number());
      map.box.push_back(extent);
    }
    XYNTRA_TRY(map.swizzled, reader.flag());
    map.address = static_cast<std::size_t>(address);
    map.element_bytes = static_cast<int>(element_bytes);
    const bool sensible = map.address < kernel.argument_elements.size() + kernel.workspace_bytes.size() &&
                          element_bytes >= 1 && element_bytes <= 8 && map.shape.size() <= 5;
    if (!sensible) return reader.bad("a kernel has no sensible tensor map");
    kernel.maps.push_back(std::move(map));
  }
  for (bool* flag : {&kernel.has_faults, &kernel.overlaps, &kernel.wide}) {
    XYNTRA_TRY(*flag, reader.flag());
  }
  return kernel;
}

}  // namespace xyntra
