#include "runtime/code/image.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/code/object.h"

namespace xyntra {
namespace {

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

// What a relocation writes: `size` bytes, of which `mask` are replaced, made from symbol (s), addend (a) and place (p).
// The numbers come from the ELF supplements of the architectures.
struct Patch {
  std::uint64_t bits = 0;
  std::uint64_t mask = 0;
  std::size_t size = 4;
};

[[maybe_unused]] bool fits(std::int64_t value, int bits) {
  const std::int64_t limit = std::int64_t{1} << (bits - 1);
  return value >= -limit && value < limit;
}

#if defined(__aarch64__)
Result<Patch> patch_of(std::uint32_t type, std::uint64_t s_plus_a, std::uint64_t p) {
  const auto distance = static_cast<std::int64_t>(s_plus_a - p);
  auto field = [](std::int64_t value, int bits, int position) {
    const std::uint64_t mask = ((std::uint64_t{1} << bits) - 1);
    return Patch{(static_cast<std::uint64_t>(value) & mask) << position, mask << position, 4};
  };
  auto low12 = [&](int scale) -> Result<Patch> {
    if ((s_plus_a & ((1u << scale) - 1)) != 0) return damaged_object("a misaligned address");
    return field(static_cast<std::int64_t>((s_plus_a & 0xfff) >> scale), 12 - scale, 10);
  };
  auto split21 = [&](std::int64_t value) {
    Patch low = field(value, 2, 29), high = field(value >> 2, 19, 5);
    return Patch{low.bits | high.bits, low.mask | high.mask, 4};
  };
  auto far = [] { return damaged_object("a relocation out of reach"); };
  switch (type) {
    case R_AARCH64_ABS64: return Patch{s_plus_a, ~std::uint64_t{0}, 8};
    case R_AARCH64_PREL64: return Patch{static_cast<std::uint64_t>(distance), ~std::uint64_t{0}, 8};
    case R_AARCH64_PREL32:
      if (!fits(distance, 32)) return far();
      return Patch{static_cast<std::uint32_t>(distance), 0xffffffff, 4};
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      if (!fits(distance, 28) || distance % 4 != 0) return far();
      return field(distance / 4, 26, 0);
    case R_AARCH64_CONDBR19:
    case R_AARCH64_LD_PREL_LO19:
      if (!fits(distance, 21) || distance % 4 != 0) return far();
      return field(distance / 4, 19, 5);
    case R_AARCH64_ADR_PREL_LO21:
      if (!fits(distance, 21)) return far();
      return split21(distance);
    case R_AARCH64_ADR_PREL_PG_HI21: {
      const auto pages =
          static_cast<std::int64_t>((s_plus_a & ~std::uint64_t{0xfff}) - (p & ~std::uint64_t{0xfff}));
      if (!fits(pages, 33)) return far();
      return split21(pages >> 12);
    }
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return low12(0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return low12(1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return low12(2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return low12(3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return low12(4);
    default: return damaged_object("unknown relocation " + std::to_string(type));
  }
}
#else
Result<Patch> patch_of(std::uint32_t type, std::uint64_t s_plus_a, std::uint64_t p) {
  const auto distance = static_cast<std::int64_t>(s_plus_a - p);
  switch (type) {
    case R_X86_64_64: return Patch{s_plus_a, ~std::uint64_t{0}, 8};
    case R_X86_64_PC64: return Patch{static_cast<std::uint64_t>(distance), ~std::uint64_t{0}, 8};
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      if (!fits(distance, 32)) return damaged_object("a relocation out of reach");
      return Patch{static_cast<std::uint32_t>(distance), 0xffffffff, 4};
    default: return damaged_object("unknown relocation " + std::to_string(type));
  }
}
#endif

// Code first, constants on pages of their own behind it.
struct Layout {
  std::vector<std::uint64_t> offsets;  // of each section
  std::uint64_t code_bytes = 0, total_bytes = 0;  // whole pages
};

Layout layout_of(const ObjectFile& object, std::uint64_t page) {
  Layout layout;
  layout.offsets.resize(object.sections.size());
  std::uint64_t end = 0;
  for (bool executable : {true, false}) {
    for (std::size_t i = 0; i < object.sections.size(); ++i) {
      const ObjectSection& section = object.sections[i];
      if (section.executable != executable) continue;
      layout.offsets[i] = rounded_up(end, section.alignment);
      end = layout.offsets[i] + section.size;
    }
    end = rounded_up(end, page);
    if (executable) layout.code_bytes = end;
  }
  layout.total_bytes = end;
  return layout;
}

Status relocate(const ObjectFile& object, const Layout& layout, std::byte* memory) {
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  for (const ObjectRelocation& relocation : object.relocations) {
    const ObjectSymbol& symbol = *object.symbols[relocation.symbol];
    const std::uint64_t target = start + layout.offsets[symbol.section] + symbol.offset;
    const std::uint64_t place = start + layout.offsets[relocation.section] + relocation.offset;
    XYNTRA_TRY(Patch patch,
               patch_of(relocation.type, target + static_cast<std::uint64_t>(relocation.addend), place));
    const std::uint64_t size = object.sections[relocation.section].size;
    if (relocation.offset > size || patch.size > size - relocation.offset)
      return damaged_object("a relocation outside");
    std::byte* at = memory + layout.offsets[relocation.section] + relocation.offset;
    std::uint64_t word = 0;
    std::memcpy(&word, at, patch.size);
    word = (word & ~patch.mask) | patch.bits;
    std::memcpy(at, &word, patch.size);
  }
  return {};
}

tl::unexpected<Error> refused(const char* what) {
  Error error;
  error.error_class = ErrorClass::Device;
  error.message =
      std::string("the system refuses memory for machine code: ") + what + ": " + std::strerror(errno);
  error.hint = "the interpreter runs without it: --backend reference";
  return failure(std::move(error));
}

}  // namespace

Result<CodeImage> CodeImage::load(std::span<const std::byte> bytes) {
  XYNTRA_TRY(ObjectFile object, ObjectFile::read(bytes));
  const Layout layout = layout_of(object, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  if (layout.code_bytes == 0) return damaged_object("no code");
  const std::size_t size = layout.total_bytes;
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return refused("mmap");
  std::shared_ptr<std::byte> memory(static_cast<std::byte*>(mapped),
                                    [size](std::byte* address) { ::munmap(address, size); });
  for (std::size_t i = 0; i < object.sections.size(); ++i) {
    std::span<const std::byte> content = object.sections[i].content;
    std::copy(content.begin(), content.end(), memory.get() + layout.offsets[i]);
  }
  XYNTRA_CHECK_OK(relocate(object, layout, memory.get()));

  std::byte* constants = memory.get() + layout.code_bytes;
  const std::size_t constant_bytes = layout.total_bytes - layout.code_bytes;
  if (constant_bytes != 0 && ::mprotect(constants, constant_bytes, PROT_READ) != 0)
    return refused("mprotect");
  if (::mprotect(memory.get(), layout.code_bytes, PROT_READ | PROT_EXEC) != 0) return refused("mprotect");
#if defined(__aarch64__)
  __builtin___clear_cache(reinterpret_cast<char*>(memory.get()), reinterpret_cast<char*>(constants));
#endif

  CodeImage image;
  for (const auto& symbol : object.symbols) {
    if (!symbol || !symbol->is_function) continue;
    image.functions_.emplace(symbol->name, memory.get() + layout.offsets[symbol->section] + symbol->offset);
  }
  image.memory_ = std::move(memory);
  image.size_ = size;
  return image;
}

PhaseFunction CodeImage::phase_function(std::string_view symbol) const {
  auto found = functions_.find(symbol);
  if (found == functions_.end()) return nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in mapped code
  return reinterpret_cast<PhaseFunction>(reinterpret_cast<std::uintptr_t>(found->second));
}

}  // namespace xyntra
