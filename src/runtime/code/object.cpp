#include "runtime/code/object.h"

namespace xyntra {
namespace {

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_NONE;
#endif

constexpr std::uint64_t kMostCodeBytes = std::uint64_t{1} << 30;  // relative addresses reach twice as far
constexpr std::uint64_t kMostAlignment = 4096;
constexpr std::uint64_t kBundleMark = 0x314a424f4e595800;  // "\0XYNOBJ1"

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  Result<T> at(std::uint64_t offset) const {
    XYNTRA_TRY(auto part, within(offset, sizeof(T)));
    T value;
    std::memcpy(&value, part.data(), sizeof(T));
    return value;
  }

  Result<std::span<const std::byte>> within(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) return damaged_object("a part lies outside");
    return bytes_.subspan(offset, size);
  }

 private:
  std::span<const std::byte> bytes_;
};

class ObjectReader {
 public:
  explicit ObjectReader(std::span<const std::byte> bytes) : file_(bytes) {}

  Result<ObjectFile> read() {
    XYNTRA_CHECK_OK(read_headers());
    XYNTRA_CHECK_OK(read_sections());
    for (const Elf64_Shdr& header : headers_) {
      if (header.sh_type == SHT_SYMTAB) XYNTRA_CHECK_OK(read_symbols(header));
    }
    for (const Elf64_Shdr& header : headers_) {
      if (header.sh_type == SHT_RELA) XYNTRA_CHECK_OK(read_relocations(header));
      if (header.sh_type == SHT_REL) return damaged_object("relocations without addends");
    }
    return std::move(object_);
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  Status read_headers() {
    XYNTRA_TRY(auto header, file_.at<Elf64_Ehdr>(0));
    const unsigned char* id = header.e_ident;
    if (std::memcmp(id, ELFMAG, SELFMAG) != 0) return damaged_object("not an ELF file");
    if (id[EI_CLASS] != ELFCLASS64 || id[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL) {
      return damaged_object("not a 64-bit little-endian relocatable file");
    }
    if (header.e_machine != kMachine) return damaged_object("made for another architecture");
    if (header.e_shentsize != sizeof(Elf64_Shdr)) return damaged_object("section headers of an unknown size");
    for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
      XYNTRA_CHECK_OK(file_.within(header.e_shoff, 0));
      XYNTRA_TRY(auto section, file_.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
      headers_.push_back(section);
    }
    return {};
  }

  Status read_sections() {
    std::uint64_t total = 0;
    for (const Elf64_Shdr& header : headers_) {
      positions_.push_back(kNone);
      if ((header.sh_flags & SHF_ALLOC) == 0 || header.sh_size == 0) continue;
      if ((header.sh_flags & (SHF_WRITE | SHF_TLS)) != 0) return damaged_object("writable data");
      if (header.sh_type != SHT_PROGBITS) return damaged_object("a section of an unknown kind");
      ObjectSection section;
      section.size = header.sh_size;
      section.alignment = header.sh_addralign == 0 ? 1 : header.sh_addralign;
      section.executable = (header.sh_flags & SHF_EXECINSTR) != 0;
      const bool power_of_two = (section.alignment & (section.alignment - 1)) == 0;
      if (!power_of_two || section.alignment > kMostAlignment) return damaged_object("an odd alignment");
      XYNTRA_TRY(section.content, file_.within(header.sh_offset, header.sh_size));
      total += header.sh_size;
      if (total > kMostCodeBytes) return damaged_object("too large");
      positions_.back() = object_.sections.size();
      object_.sections.push_back(section);
    }
    return {};
  }

  Result<std::string_view> name(const Elf64_Shdr& strings, std::uint32_t offset) const {
    XYNTRA_TRY(auto table, file_.within(strings.sh_offset, strings.sh_size));
    if (offset >= table.size()) return damaged_object("a name lies outside its table");
    std::string_view rest(reinterpret_cast<const char*>(table.data()), table.size());
    rest.remove_prefix(offset);
    const std::size_t end = rest.find('\0');
    if (end == std::string_view::npos) return damaged_object("a name without an end");
    return rest.substr(0, end);
  }

  Status read_symbols(const Elf64_Shdr& header) {
    if (!object_.symbols.empty()) return damaged_object("two symbol tables");
    if (header.sh_entsize != sizeof(Elf64_Sym) || header.sh_link >= headers_.size())
      return damaged_object("a bad symbol table");
    XYNTRA_CHECK_OK(file_.within(header.sh_offset, header.sh_size));
    const Elf64_Shdr& strings = headers_[header.sh_link];
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= header.sh_size; at += sizeof(Elf64_Sym)) {
      XYNTRA_TRY(auto entry, file_.at<Elf64_Sym>(header.sh_offset + at));
      object_.symbols.emplace_back();
      if (at == 0 || ELF64_ST_TYPE(entry.st_info) == STT_FILE) continue;
      XYNTRA_TRY(auto text, name(strings, entry.st_name));
      if (entry.st_shndx == SHN_UNDEF)
        return damaged_object("undefined symbol '" + std::string(text.substr(0, 100)) + "'");
      if (entry.st_shndx >= headers_.size()) return damaged_object("a symbol outside all sections");
      const std::size_t section = positions_[entry.st_shndx];
      if (section == kNone) continue;
      if (entry.st_value > object_.sections[section].size)
        return damaged_object("a symbol outside its section");
      ObjectSymbol symbol;
      symbol.name = text;
      symbol.section = section;
      symbol.offset = entry.st_value;
      symbol.is_function =
          ELF64_ST_TYPE(entry.st_info) == STT_FUNC && ELF64_ST_BIND(entry.st_info) == STB_GLOBAL &&
          object_.sections[section].executable && symbol.offset < object_.sections[section].size;
      object_.symbols.back() = symbol;
    }
    return {};
  }

  Status read_relocations(const Elf64_Shdr& header) {
    if (header.sh_info >= headers_.size() || positions_[header.sh_info] == kNone) return {};
    if (header.sh_entsize != sizeof(Elf64_Rela)) return damaged_object("a bad relocation table");
    XYNTRA_CHECK_OK(file_.within(header.sh_offset, header.sh_size));
    for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= header.sh_size; at += sizeof(Elf64_Rela)) {
      XYNTRA_TRY(auto entry, file_.at<Elf64_Rela>(header.sh_offset + at));
      ObjectRelocation relocation;
      relocation.section = positions_[header.sh_info];
      relocation.offset = entry.r_offset;
      relocation.type = static_cast<std::uint32_t>(ELF64_R_TYPE(entry.r_info));
      relocation.symbol = ELF64_R_SYM(entry.r_info);
      relocation.addend = entry.r_addend;
      if (relocation.symbol >= object_.symbols.size() || !object_.symbols[relocation.symbol]) {
        return damaged_object("a relocation to nothing");
      }
      object_.relocations.push_back(relocation);
    }
    return {};
  }

  Reader file_;
  std::vector<Elf64_Shdr> headers_;
  std::vector<std::size_t> positions_;  // of each section among those that take memory
  ObjectFile object_;
};

}  // namespace

tl::unexpected<Error> damaged_object(const std::string& what) {
  return bad_model("machine code object: " + what);
}

void ObjectFile::append(ObjectFile other) {
  const std::size_t section_count = sections.size(), symbol_count = symbols.size();
  sections.insert(sections.end(), other.sections.begin(), other.sections.end());
  for (std::optional<ObjectSymbol>& symbol : other.symbols) {
    if (symbol) symbol->section += section_count;
    symbols.push_back(symbol);
  }
  for (ObjectRelocation& relocation : other.relocations) {
    relocation.section += section_count;
    relocation.symbol += symbol_count;
    relocations.push_back(relocation);
  }
}

Result<ObjectFile> ObjectFile::read(std::span<const std::byte> bytes) {
  const Reader file(bytes);
  auto mark = file.at<std::uint64_t>(0);
  if (!mark || *mark != kBundleMark) return ObjectReader(bytes).read();
  XYNTRA_TRY(auto count, file.at<std::uint64_t>(8));
  if (count > bytes.size() / 8) return damaged_object("a bundle of too many objects");
  ObjectFile all;
  std::uint64_t at = (2 + count) * 8, total = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    XYNTRA_TRY(auto size, file.at<std::uint64_t>((2 + i) * 8));
    at = (at + 15) / 16 * 16;
    XYNTRA_TRY(auto part, file.within(at, size));
    at += size;
    XYNTRA_TRY(ObjectFile object, ObjectReader(part).read());
    for (const ObjectSection& section : object.sections) total += section.size;
    if (total > kMostCodeBytes) return damaged_object("too large");
    all.append(std::move(object));
  }
  return all;
}

std::vector<std::byte> bundle_of(std::span<const std::vector<std::byte>> objects) {
  if (objects.size() == 1) return objects[0];
  std::vector<std::byte> bundle;
  auto add = [&bundle](std::uint64_t number) {
    for (int i = 0; i < 8; ++i) bundle.push_back(static_cast<std::byte>(number >> (8 * i)));
  };
  add(kBundleMark);
  add(objects.size());
  for (const std::vector<std::byte>& object : objects) add(object.size());
  for (const std::vector<std::byte>& object : objects) {
    bundle.resize((bundle.size() + 15) / 16 * 16);
    bundle.insert(bundle.end(), object.begin(), object.end());
  }
  return bundle;
}

}  // namespace xyntra
