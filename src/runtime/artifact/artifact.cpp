#include "runtime/artifact/artifact.h"

#include <algorithm>
#include <set>

#include "runtime/code/image.h"
#include "support/files/file.h"
#include "support/files/stored_zip.h"
#include "support/hash/sha256.h"
#include "support/text/text.h"
#include "target/target.h"
#include "target/tiles.h"

namespace xyntra {
namespace {

constexpr std::string_view kManifest = "manifest", kWeights = "weights", kBlocks = "blocks";
constexpr std::size_t kLongestManifest = 1 << 20;
constexpr std::size_t kMostLevels = 16;
constexpr std::size_t kHashDigits = 64;
// Weights of this many bytes are hashed in half a millisecond: less than a twentieth of starting a process that loads them.
constexpr std::size_t kCheckedWhenLoaded = 4 << 20;

tl::unexpected<Error> bad_line(std::size_t number, const std::string& what) {
  return bad_model("manifest, line " + std::to_string(number) + ": " + what);
}

bool is_digest(std::string_view text) {
  return text.size() == kHashDigits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::optional<std::string> from_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const auto value = parse_hexadecimal(digits.substr(i, 2));
    if (!value) return std::nullopt;
    text += static_cast<char>(*value);
  }
  return text;
}

bool is_level_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// "level NAME ARCHITECTURE needs FEATURE…", "level NAME ARCHITECTURE cpu HASH"
Result<ArtifactLevel> parse_level(const std::vector<std::string_view>& words, std::size_t number) {
  if (words.size() < 4 || !is_level_name(words[1])) return bad_line(number, "expected a level");
  ArtifactLevel level{std::string(words[1]), std::string(words[2]), {}, {}};
  if (words[3] == "needs") {
    level.features.assign(words.begin() + 4, words.end());
  } else if (words[3] == "cpu" && words.size() == 5 && is_digest(words[4])) {
    level.cpu = words[4];
  } else {
    return bad_line(number, "expected what the level needs");
  }
  return level;
}

bool runs_here(const ArtifactLevel& level, std::span<const std::string_view> has) {
  if (level.architecture != host_architecture()) return false;
  if (!level.cpu.empty()) return level.cpu == host_cpu();
  return std::ranges::all_of(
      level.features, [&has](const std::string& need) { return std::ranges::find(has, need) != has.end(); });
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string print_manifest(const ArtifactManifest& manifest) {
  std::string text = "xyn " + std::to_string(kArtifactFormat) + "\nversion " + manifest.version + "\n";
  for (const ArtifactLevel& level : manifest.levels) {
    text += "level " + level.name + " " + level.architecture;
    if (level.cpu.empty()) {
      text += " needs";
      for (const std::string& feature : level.features) text += " " + feature;
    } else {
      text += " cpu " + level.cpu;
    }
    text += "\n";
  }
  // Names of inputs are the model's: as hexadecimal digits they cannot be mistaken for anything.
  for (const auto& [name, bound] : manifest.index_bounds)
    text += "input " + to_hex(std::as_bytes(std::span(name))) + " below " + std::to_string(bound) + "\n";
  for (const auto& [name, hash] : manifest.hashes) text += "file " + name + " " + hash + "\n";
  return text;
}

Result<ArtifactManifest> parse_manifest(std::string_view text) {
  if (text.size() > kLongestManifest) return bad_model("the manifest is too long");
  ArtifactManifest manifest;
  std::set<std::string> names;
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    const std::vector<std::string_view> words = split(line, ' ');
    if (number == 1) {
      const auto format = words.size() == 2 && words[0] == "xyn" ? parse_i64(words[1]) : std::nullopt;
      if (!format || *format < 1) return bad_line(number, "expected 'xyn' and the number of the format");
      if (*format > kArtifactFormat) {
        return unsupported("the artifact has format " + std::to_string(*format) +
                           "; this version reads up to " + std::to_string(kArtifactFormat));
      }
    } else if (words[0] == "version" && words.size() == 2) {
      manifest.version = words[1];
    } else if (words[0] == "level") {
      XYNTRA_TRY(ArtifactLevel level, parse_level(words, number));
      if (!names.insert(level.name).second) return bad_line(number, "the level is there twice");
      manifest.levels.push_back(std::move(level));
    } else if (words[0] == "input" && words.size() == 4 && words[2] == "below") {
      const auto bound = parse_i64(words[3]);
      const auto name = from_hex(words[1]);
      if (!bound || *bound < 1 || !name) return bad_line(number, "expected an input and its bound");
      manifest.index_bounds.emplace(*name, *bound);
    } else if (words[0] == "file" && words.size() == 3 && is_digest(words[2])) {
      if (!manifest.hashes.emplace(words[1], words[2]).second)
        return bad_line(number, "the file is there twice");
    } else if (!line.empty()) {
      return bad_line(number, "it says what nobody knows");
    }
  }
  if (manifest.levels.empty() || manifest.levels.size() > kMostLevels)
    return bad_model("the manifest has no levels, or too many");
  return manifest;
}

std::string entry_of_level(const ArtifactLevel& level, std::string_view what) {
  return "levels/" + level.name + "/" + std::string(what);
}

std::string host_cpu() { return sha256_hex(host_identity()); }

Result<std::shared_ptr<const Artifact>> Artifact::open(const std::string& path) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  return read(file->bytes(), file, path);
}

Result<std::shared_ptr<const Artifact>> Artifact::read(std::span<const std::byte> bytes,
                                                       std::shared_ptr<const void> owner,
                                                       const std::string& file) {
  auto artifact = std::make_shared<Artifact>();
  artifact->owner_ = std::move(owner);
  XYNTRA_TRY(const std::vector<ZipEntry> entries, read_stored_zip(bytes));
  for (const ZipEntry& entry : entries) {
    if (entry.name == kManifest && crc32(entry.bytes) != entry.checksum)
      return bad_model("the manifest is damaged: its checksum is another");
    artifact->entries_.emplace(entry.name, entry.bytes);
  }
  const auto manifest = artifact->entries_.find(std::string(kManifest));
  if (manifest == artifact->entries_.end())
    return bad_model("it is not an artifact: there is no manifest in it");
  XYNTRA_TRY(artifact->manifest_, parse_manifest(as_text(manifest->second)));
  for (const auto& [name, hash] : artifact->manifest_.hashes) {
    if (!artifact->has(name)) return bad_model("'" + name + "' is missing from the artifact");
  }
  const auto weights = artifact->entries_.find(std::string(kWeights));
  if (weights == artifact->entries_.end()) return bad_model("the weights are missing from the artifact");
  if (artifact->has(std::string(kBlocks))) {
    XYNTRA_TRY(const auto hashes, artifact->entry(std::string(kBlocks)));
    XYNTRA_TRY(artifact->blocks_, WeightBlocks::read(hashes, weights->second, file));
  }
  return artifact;
}

std::size_t Artifact::weight_bytes() const { return entries_.at(std::string(kWeights)).size(); }

Result<const ArtifactLevel*> Artifact::level_for_this_machine() const {
  const std::vector<std::string_view> all = host_features();
  std::vector<std::string_view> fast = all;
  for (std::string_view slow : slow_host_features()) std::erase(fast, slow);
  for (const auto& features : {fast, all}) {
    for (const ArtifactLevel& level : manifest_.levels) {
      if (runs_here(level, features)) return &level;
    }
  }
  std::vector<std::string> levels;
  for (const ArtifactLevel& level : manifest_.levels) {
    levels.push_back(level.name + " (" + level.architecture +
                     (level.cpu.empty() ? "" : ", one kind of CPU only") + ")");
  }
  Error error;
  error.error_class = ErrorClass::Device;
  error.message = "the artifact has no code for this CPU; it has " + joined(levels, ", ");
  error.hint = "compile it again with --cpu generic, or for a list such as avx2,avx512";
  return failure(std::move(error));
}

Result<std::span<const std::byte>> Artifact::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  const auto hash = manifest_.hashes.find(name);
  if (found == entries_.end() || hash == manifest_.hashes.end())
    return bad_model("'" + name + "' is missing from the artifact");
  if (sha256_hex(found->second) != hash->second)
    return bad_model("'" + name + "' is damaged: its hash is another");
  return found->second;
}

std::vector<std::string> Artifact::damages(ThreadPool& pool) const {
  std::vector<std::string> found;
  for (const auto& [name, hash] : manifest_.hashes) {
    if (const auto bytes = entry(name); !bytes) found.push_back(bytes.error().message);
  }
  if (!blocks_) return found;
  std::map<std::size_t, std::set<std::string>> damaged;  // names of weights by block
  for (std::size_t block : blocks_->damaged(pool)) damaged[block] = {};
  for (const ArtifactLevel& level : manifest_.levels) {
    const auto bytes = entry(entry_of_level(level, "program"));
    if (!bytes || damaged.empty()) continue;
    const auto stored = program_from(*bytes, entries_.at(std::string(kWeights)), owner_);
    if (!stored) continue;
    for (const ProgramValue& value : stored->program.values) {
      if (value.kind != ProgramValue::Kind::Constant) continue;
      const auto [first, after] = blocks_->of(stored->program.constants[value.index].bytes());
      for (auto block = damaged.lower_bound(first); block != damaged.end() && block->first < after; ++block)
        block->second.insert(value.name);
    }
  }
  for (const auto& [block, names] : damaged) {
    const std::vector<std::string> list(names.begin(), names.end());
    found.push_back("block " + std::to_string(block) + " of " + std::to_string(blocks_->count()) +
                    " of the weights is damaged: its hash is another; in it: " +
                    (list.empty() ? "padding" : joined(list, ", ")));
  }
  return found;
}

Result<Artifact::Loaded> Artifact::load(const ArtifactLevel& level) const {
  XYNTRA_TRY(const auto bytes, entry(entry_of_level(level, "program")));
  XYNTRA_TRY(StoredProgram stored, program_from(bytes, entries_.at(std::string(kWeights)), owner_));
  XYNTRA_CHECK_OK(check_weights(stored.program));
  Loaded loaded;
  loaded.host_calls = stored.host_calls;
  if (!stored.program.kernels.empty()) {
    XYNTRA_TRY(const auto object, entry(entry_of_level(level, "code")));
    XYNTRA_CHECK_OK(link_program(stored.program, object, loaded.code_bytes));
  }
  loaded.program = std::make_shared<const LaunchProgram>(std::move(stored.program));
  return loaded;
}

// Now, where that takes no time to speak of; else the program has its blocks, for who runs it.
Status Artifact::check_weights(LaunchProgram& program) const {
  if (!blocks_) {
    XYNTRA_TRY(const auto weights, entry(std::string(kWeights)));
    static_cast<void>(weights);
    return {};
  }
  std::size_t size = 0;
  for (const Tensor& constant : program.constants) size += constant.bytes().size();
  if (size > kCheckedWhenLoaded) {
    program.weight_blocks = blocks_;
    return {};
  }
  ThreadPool alone(1);
  for (const ProgramValue& value : program.values) {
    if (value.kind != ProgramValue::Kind::Constant) continue;
    XYNTRA_CHECK_OK(blocks_->check(program.constants[value.index].bytes(), value.name, alone));
  }
  return {};
}

Status link_program(LaunchProgram& program, std::span<const std::byte> object, std::size_t& code_bytes) {
  XYNTRA_TRY(CodeImage loaded, CodeImage::load(object));
  auto code = std::make_shared<CodeImage>(std::move(loaded));
  for (ProgramKernel& kernel : program.kernels) {
    if (kernel.uses_tiles) XYNTRA_CHECK_OK(allow_tiles());
    for (ProgramKernel::Phase& phase : kernel.phases) {
      phase.function = code->phase_function(phase.symbol);
      if (phase.function == nullptr) return bad_model("the code has no function for a kernel");
    }
  }
  code_bytes = code->bytes();
  program.code = std::move(code);
  return {};
}

}  // namespace xyntra
