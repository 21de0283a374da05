// Artifacts, `.xyn`: a model compiled, in one file that runs without the compiler.
//
// A stored zip (support/files/stored_zip.h), mapped:
//
//   manifest                     text, below
//   levels/NAME/program          the launch program (runtime/artifact/program_bytes.h)
//   levels/NAME/code             an object, or a bundle of them (runtime/code/object.h)
//   levels/NAME/host             operations that are no kernels, as the compiler's part reads them
//   levels/NAME/plan             the plan as a lock, for people; notes such as `explain` likewise
//   weights                      constants of all levels, laid out for their kernels, equal ones once
//   blocks                       hashes of the weights, block by block (runtime/artifact/weight_blocks.h)
//
//   xyn 1                                                      the format
//   version 0.1.0                                              who wrote it
//   level avx2 x86_64 needs avx2 fma f16c                      best first; the first that this CPU can run is taken
//   level native x86_64 cpu 7d5f…                              for just one kind of CPU: the hash of its identity
//   input ids below 30522                                      for who makes inputs up
//   file levels/avx2/program 9f86…                             SHA-256 of every entry but the weights
//
// Whoever opens an artifact runs its machine code: it is trusted as a shared library is. The checks here keep a damaged
// file from doing harm, not a forged one. Hashes are compared before use: those of blocks of weights when the file is loaded
// where they are few, else before the first step that reads them. Artifacts without blocks, from before there were any, have
// a SHA-256 of their weights, and all of them are read when one is loaded.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/artifact/program_bytes.h"
#include "runtime/artifact/weight_blocks.h"

namespace xyntra {

inline constexpr int kArtifactFormat = 1;
inline constexpr std::size_t kArtifactAlignment =
    4096;  // of entries: pages, so that what is not used is not read

struct ArtifactLevel {
  std::string name;  // "avx2"
  std::string architecture;  // "x86_64"
  std::vector<std::string> features;  // that it needs
  std::string cpu;  // where not empty: the hash of the only kind of CPU that it is for
};

struct ArtifactManifest {
  std::string version;
  std::vector<ArtifactLevel> levels;
  std::map<std::string, std::int64_t> index_bounds;  // of integer inputs, by name
  std::map<std::string, std::string> hashes;  // by entry
};

std::string print_manifest(const ArtifactManifest& manifest);
Result<ArtifactManifest> parse_manifest(std::string_view text);

std::string entry_of_level(const ArtifactLevel& level, std::string_view what);  // "levels/avx2/code"
std::string host_cpu();  // hash of host_identity()

class Artifact {
 public:
  // Usage error where the file cannot be opened, BadModel where it is damaged, Unsupported where it was written for a later
  // format.
  static Result<std::shared_ptr<const Artifact>> open(const std::string& path);
  static Result<std::shared_ptr<const Artifact>> read(std::span<const std::byte> bytes,
                                                      std::shared_ptr<const void> owner,
                                                      const std::string& file = "");  // for messages

  const ArtifactManifest& manifest() const { return manifest_; }
  std::size_t weight_bytes() const;

  // The first level that this machine can run; Device error that says what they are for where there is none.
  Result<const ArtifactLevel*> level_for_this_machine() const;
  bool has(const std::string& entry) const { return entries_.contains(entry); }
  // An entry, its hash compared; not for the weights.
  Result<std::span<const std::byte>> entry(const std::string& name) const;
  // Null where the artifact is from before there were blocks.
  const std::shared_ptr<const WeightBlocks>& weight_blocks() const { return blocks_; }
  // Everything that is damaged, as sentences: entries, weights of any level by their names. Reads all of the file.
  std::vector<std::string> damages(ThreadPool& pool) const;

  struct Loaded {
    std::shared_ptr<const LaunchProgram> program;
    std::size_t host_calls = 0, code_bytes = 0;
  };
  Result<Loaded> load(const ArtifactLevel& level) const;  // linked: ready to run

 private:
  Status check_weights(LaunchProgram& program) const;

  std::shared_ptr<const void> owner_;  // of the bytes
  ArtifactManifest manifest_;
  std::map<std::string, std::span<const std::byte>> entries_;
  std::shared_ptr<const WeightBlocks> blocks_;
};

// Gives the kernels of a program their functions, and asks for leave where they need it.
Status link_program(LaunchProgram& program, std::span<const std::byte> object, std::size_t& code_bytes);

}  // namespace xyntra
