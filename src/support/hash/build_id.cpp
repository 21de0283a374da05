#include "support/hash/build_id.h"

#if defined(__linux__)
#include <link.h>

#include <cstdint>
#include <cstring>
#include <span>
#endif

namespace xyntra {
namespace {

#if defined(__linux__)

constexpr std::uint32_t kBuildId = 3;  // NT_GNU_BUILD_ID
constexpr std::size_t kWord = 4;

std::size_t padded(std::size_t bytes) { return (bytes + kWord - 1) / kWord * kWord; }

std::string hexadecimal(std::span<const unsigned char> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) text += {kDigits[byte / 16], kDigits[byte % 16]};
  return text;
}

// Of notes one after another: sizes of name and content, a type, both padded to words.
std::string id_among(std::span<const unsigned char> notes) {
  while (notes.size() >= 3 * kWord) {
    std::uint32_t head[3];
    std::memcpy(head, notes.data(), sizeof head);
    const std::size_t name = padded(head[0]), content = padded(head[1]);
    notes = notes.subspan(sizeof head);
    if (notes.size() < name || notes.size() - name < content) return "";
    if (head[2] == kBuildId && head[0] == kWord && std::memcmp(notes.data(), "GNU", kWord) == 0)
      return hexadecimal(notes.subspan(name, head[1]));
    notes = notes.subspan(name + content);
  }
  return "";
}

struct Search {
  std::uintptr_t code = 0;  // an address of ours
  std::string found = {};
};

int look(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::span<const ElfW(Phdr)> segments(object->dlpi_phdr, object->dlpi_phnum);
  bool ours = false;
  for (const auto& segment : segments) {
    const std::uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    ours =
        ours || (segment.p_type == PT_LOAD && search.code >= begin && search.code - begin < segment.p_memsz);
  }
  if (!ours) return 0;
  for (const auto& segment : segments) {
    if (segment.p_type != PT_NOTE || !search.found.empty()) continue;
    const auto* begin = reinterpret_cast<const unsigned char*>(object->dlpi_addr + segment.p_vaddr);
    search.found = id_among({begin, segment.p_memsz});
  }
  return 1;
}

std::string find_id() {
  Search search{reinterpret_cast<std::uintptr_t>(&look)};
  ::dl_iterate_phdr(look, &search);
  return search.found;
}

#else

std::string find_id() { return ""; }

#endif

}  // namespace

const std::string& build_id() {
  static const std::string id = find_id();
  return id;
}

}  // namespace xyntra
