#include "package/artifact.h"

#include <algorithm>
#include <array>

#include "compiler/compiled/specialise.h"
#include "compiler/lock.h"
#include "package/artifact_weights.h"
#include "passes/assume.h"
#include "passes/index_bound.h"
#include "runtime/artifact/weight_blocks.h"
#include "support/files/stored_zip.h"
#include "support/hash/sha256.h"
#include "support/limits/background.h"
#include "support/limits/current_budget.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::string_view kArchitectures[] = {"x86_64", "aarch64"};

struct LevelRequest {
  ArtifactLevel level;
  const Target* target = nullptr;
};

std::string architecture_of(const Target& target) {
  for (std::string_view feature : split(target.required_features, ' ')) {
    if (feature == "neon") return std::string(kArchitectures[1]);
    if (feature == "avx2" || feature.starts_with("avx512")) return std::string(kArchitectures[0]);
  }
  return std::string(host_architecture());
}

Result<LevelRequest> level_named(const std::string& name) {
  LevelRequest request;
  if (name == "native") {
    request.target = &host_target();
    request.level = {name, std::string(host_architecture()), {}, host_cpu()};
    return request;
  }
  auto target = find_target(name);
  std::vector<std::string> names{"native"};
  for (const Target& known : targets()) {
    if (known.kind == TargetKind::Cpu) names.emplace_back(known.name);
  }
  if (!target || (*target)->kind != TargetKind::Cpu)
    return usage_error("--cpu: no CPU is called '" + name + "'; there are " + joined(names, ", "));
  request.target = *target;
  request.level = {name, architecture_of(**target), {}, {}};
  for (std::string_view feature : split((*target)->required_features, ' ')) {
    if (!feature.empty()) request.level.features.emplace_back(feature);
  }
  return request;
}

// Native first, for it is made for just this CPU; then in the order of the tables, which is best first.
Result<std::vector<LevelRequest>> levels_of(const std::vector<std::string>& cpus) {
  std::vector<LevelRequest> requests;
  for (const std::string& cpu : cpus) {
    XYNTRA_TRY(LevelRequest request, level_named(cpu));
    const bool known = std::ranges::any_of(
        requests, [&](const LevelRequest& other) { return other.level.name == request.level.name; });
    if (!known) requests.push_back(std::move(request));
  }
  if (requests.empty()) return usage_error("--cpu names no CPU");
  std::ranges::stable_sort(requests, {}, [](const LevelRequest& request) {
    const auto all = targets();
    const auto place = std::ranges::find(all, request.target->name, &Target::name);
    return std::pair(request.level.name != "native", place - all.begin());
  });
  return requests;
}

// Constants that some step or output reads, in the order of their first use; all others go.
std::vector<StoredConstant> store_constants(LaunchProgram& program, const std::vector<Layout>& packing,
                                            ArtifactWeights& weights) {
  std::vector<StoredConstant> stored;
  std::vector<bool> used(program.values.size(), false);
  auto use = [&](ProgramValueId id) {
    for (; id != kNoValue && !used[id]; id = program.values[id].of) {
      used[id] = true;
      ProgramValue& value = program.values[id];
      if (value.kind != ProgramValue::Kind::Constant) continue;
      PackedTensor tensor(program.constants[value.index], packing[value.index]);
      value.index = static_cast<std::uint32_t>(stored.size());
      StoredConstant& added = stored.emplace_back(StoredConstant{tensor.dtype(), tensor.dims(), 0});
      added.offset = weights.add(std::move(tensor));
    }
  };
  for (const ProgramStep& step : program.steps) {
    for (ProgramValueId input : step.inputs) use(input);
  }
  for (ProgramValueId output : program.outputs) use(output);
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    ProgramValue& value = program.values[v];
    if (used[v] || value.kind != ProgramValue::Kind::Constant) continue;
    value = ProgramValue{};
    value.kind = ProgramValue::Kind::Own;
  }
  return stored;
}

struct Entries {
  std::vector<std::pair<std::string, std::vector<std::byte>>> list;
  void add(std::string name, std::vector<std::byte> bytes) {
    list.emplace_back(std::move(name), std::move(bytes));
  }
  void add(std::string name, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    list.emplace_back(std::move(name), std::vector(bytes.begin(), bytes.end()));
  }
};

using Notes = Result<std::map<std::string, std::string>>;

Result<ArtifactFigures::Level> add_level(const Module& model, const LevelRequest& request,
                                         const ArtifactOptions& options, ArtifactWeights& weights,
                                         Entries& entries) {
  CompileOptions compile = options.compile;
  compile.target = request.target;
  const auto show = [&](const char* phase) {
    if (options.progress) options.progress(request.level.name + ": " + phase);
  };
  show("planning");
  XYNTRA_TRY(MadeLock lock, make_lock(model, compile));
  const std::vector<Fallback> fallbacks = fallbacks_of(lock.plan, lock.lowered);
  CpuOptions cpu;
  cpu.cpu = request.level.name;
  cpu.threads = options.threads;
  cpu.budget = compile.budget;
  cpu.cache = options.cache;
  cpu.kernel_seconds = options.kernel_seconds;
  const std::vector<Layout> packing = std::move(lock.lowered.packing);
  show("machine code");
  auto notes = in_background([&] { return options.notes ? options.notes(lock.plan, compile) : Notes(); });
  XYNTRA_TRY(CompiledProgram made, compile_program(std::move(lock.lowered), cpu));
  made.program.ranges = options.ranges;
  ArtifactFigures::Level figures{request.level.name, made.program.kernels.size(),    0,
                                 made.object.size(), Specialiser::wanted(lock.plan), fallbacks};
  for (const ProgramStep& step : made.program.steps)
    figures.host_calls += step.kind == ProgramStep::Kind::Host ? 1 : 0;
  const BudgetScope scope(compile.budget.get(), "packing weights");
  const auto constants = store_constants(made.program, packing, weights);
  entries.add(entry_of_level(request.level, "program"), to_bytes(made.program, constants));
  if (!made.object.empty()) entries.add(entry_of_level(request.level, "code"), std::move(made.object));
  if (figures.host_calls > 0) entries.add(entry_of_level(request.level, "host"), made.host->to_bytes());
  entries.add(entry_of_level(request.level, "plan"), lock.text);
  XYNTRA_TRY(const auto texts, notes.get());
  for (const auto& [name, text] : texts) entries.add(entry_of_level(request.level, name), text);
  return figures;
}

// Weights first, then the hashes of their blocks, the manifest, which has hashes of all, last: so each is read once, while it is written.
Status write_entries(const std::string& path, ArtifactManifest& manifest, const Entries& entries,
                     const ArtifactWeights& weights) {
  std::vector<std::uint64_t> block_hashes(weights.blocks());
  const auto write_weights = [&](const WriteAt& write_at) -> Result<std::uint32_t> {
    XYNTRA_TRY(ArtifactWeights::Sums sums, weights.write(write_at));
    block_hashes = std::move(sums.block_hashes);
    return sums.checksum;
  };
  const auto write_all = [](std::span<const std::byte> bytes,
                            const WriteAt& write_at) -> Result<std::uint32_t> {
    XYNTRA_CHECK_OK(write_at(0, bytes));
    return crc32(bytes);
  };
  const auto write_blocks = [&](const WriteAt& write_at) -> Result<std::uint32_t> {
    const std::vector<std::byte> bytes = to_bytes(block_hashes);
    manifest.hashes["blocks"] = sha256_hex(bytes);
    return write_all(bytes, write_at);
  };
  const auto write_manifest = [&](const WriteAt& write_at) {
    const std::string text = print_manifest(manifest);
    return write_all(std::as_bytes(std::span(text)), write_at);
  };
  for (const auto& [name, bytes] : entries.list) manifest.hashes[name] = sha256_hex(bytes);
  manifest.hashes["blocks"] = sha256_hex("");  // as long as what comes in its place
  std::vector<ZipPart> parts{{"manifest", {}, ZipContent{print_manifest(manifest).size(), write_manifest}}};
  for (const auto& [name, bytes] : entries.list) parts.push_back({name, {bytes}});
  parts.push_back({"blocks", {}, ZipContent{to_bytes(block_hashes).size(), write_blocks}});
  parts.push_back({"weights", {}, ZipContent{weights.size(), write_weights}});
  return write_stored_zip(path, parts, kArtifactAlignment);
}

// Compiled code that runs as it is: no graph to fall back to.
class FromArtifact : public ModelRunner {
 public:
  FromArtifact(LoadedArtifact artifact, EvaluatorOptions options)
      : artifact_(std::move(artifact)),
        options_(std::move(options)),
        context_(artifact_.model.program, artifact_.model.host,
                 {options_.threads, options_.budget, options_.progress, options_.counts}) {}

  std::unique_ptr<ModelRunner> another() const override {
    return std::make_unique<FromArtifact>(artifact_, options_);
  }
  Result<std::vector<Datum>> run(std::span<const Datum> inputs) override { return run_into(inputs, {}); }
  Result<std::vector<Datum>> run_into(std::span<const Datum> inputs,
                                      std::span<const std::span<std::byte>> memory) override {
    XYNTRA_CHECK_OK(takes(inputs));
    return context_.run(inputs, nullptr, memory);
  }
  Result<std::vector<Datum>> run_donating(std::span<const Datum> inputs,
                                          std::span<DonatedInput> donated) override {
    XYNTRA_CHECK_OK(takes(inputs));
    return context_.run(inputs, nullptr, {}, donated);
  }
  std::vector<ExtendedInput> extended_inputs() const override {
    return extended_inputs_of(*artifact_.model.program);
  }

 private:
  Status takes(std::span<const Datum> inputs) const {
    const auto& assumptions = artifact_.model.program->assumptions;
    if (Status fits = context_.takes(inputs); !fits && !assumptions.empty()) {
      std::vector<std::string> equal;
      for (const ProgramAssumption& one : assumptions)
        equal.push_back(one.symbol + " = " + one.equals.to_string());
      return failure(std::move(fits).error().with_hint("the artifact was compiled for " +
                                                       joined(equal, ", ") +
                                                       "; the model itself can be run at other sizes"));
    }
    return {};
  }

  LoadedArtifact artifact_;
  EvaluatorOptions options_;
  RunContext context_;
};

}  // namespace

namespace {

Result<ArtifactFigures> write_levels(const Module& model, const std::string& path,
                                     const ArtifactOptions& options) {
  XYNTRA_TRY(const std::vector<LevelRequest> requests, levels_of(options.cpus));
  ArtifactOptions others = options;
  if (const SymbolBindings fixed = take_fixed(others.ranges); !fixed.empty()) {
    Module special = model;
    XYNTRA_TRY(special.graph, with_sizes(model.graph, fixed, options.compile.budget.get()));
    return write_levels(special, path, others);
  }
  ArtifactManifest manifest;
  manifest.version = XYNTRA_VERSION;
  ArtifactWeights weights;
  Entries entries;
  ArtifactFigures figures;
  for (const LevelRequest& request : requests) {
    XYNTRA_TRY(ArtifactFigures::Level level, add_level(model, request, options, weights, entries));
    figures.levels.push_back(std::move(level));
    manifest.levels.push_back(request.level);
  }
  const BudgetScope scope(options.compile.budget.get(), "writing the artifact");
  for (ValueId input : model.graph.inputs) {
    const auto bound = index_bound(model.graph, input, options.compile.fusion.choose.nominal);
    if (bound && *bound > 0) manifest.index_bounds[model.graph.value(input).name] = *bound;
  }
  XYNTRA_CHECK_OK(write_entries(path, manifest, entries, weights));
  figures.constants = weights.count();
  figures.weight_bytes = weights.size();
  return figures;
}

}  // namespace

Result<ArtifactFigures> write_artifact(const Module& model, const std::string& path,
                                       const ArtifactOptions& options) {
  return within(options.compile.budget.get(), nullptr, [&] { return write_levels(model, path, options); });
}

Result<LoadedArtifact> load_artifact(std::shared_ptr<const Artifact> file, int threads) {
  LoadedArtifact made;
  made.file = std::move(file);
  XYNTRA_TRY(made.level, made.file->level_for_this_machine());
  XYNTRA_TRY(const Artifact::Loaded loaded, made.file->load(*made.level));
  made.model.program = loaded.program;
  made.model.code_bytes = loaded.code_bytes;
  made.model.kernels = loaded.program->kernels.size();
  if (loaded.host_calls == 0) {
    made.model.host = std::make_shared<NodesOnHost>(threads);
    return made;
  }
  XYNTRA_TRY(const auto bytes, made.file->entry(entry_of_level(*made.level, "host")));
  XYNTRA_TRY(made.model.host, NodesOnHost::from(bytes, *loaded.program, threads));
  return made;
}

Result<LoadedArtifact> load_artifact(const std::string& path, int threads) {
  auto load = [&]() -> Result<LoadedArtifact> {
    XYNTRA_TRY(auto file, Artifact::open(path));
    return load_artifact(std::move(file), threads);
  };
  auto loaded = load();
  if (!loaded) return failure(std::move(loaded).error().in_file(path));
  return loaded;
}

bool is_artifact(std::span<const std::byte> content) {
  constexpr std::size_t kNameSize = 26, kName = 30;  // of the first entry's header
  constexpr std::string_view kStart("PK\x03\x04"), kFirst = "manifest";
  const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  return text.starts_with(kStart) && text.size() > kName && text[kNameSize] == char{kFirst.size()} &&
         text.substr(kName).starts_with(kFirst);
}

Module signature_of(const LaunchProgram& program) {
  Module module;
  module.symbols = program.ranges;
  auto type_of = [](const ProgramValue& value) {
    Type type = Type::tensor(value.dtype, value.shape);
    if (!value.has_shape) type.shape.reset();
    return type;
  };
  for (ProgramValueId input : program.inputs) {
    const ProgramValue& value = program.values[input];
    module.graph.add_input(value.name, type_of(value));
  }
  std::vector<std::string> names;
  for (ProgramValueId output : program.outputs) names.push_back(program.values[output].name);
  for (std::size_t i = 0; i < names.size(); ++i) {  // an input may be an output as well
    ValueId output = module.graph.find(names[i]);
    if (!output.valid()) {
      output = module.graph.output_of(module.graph.add_node("Artifact", {}, {names[i]}));
      module.graph.value(output).type = type_of(program.values[program.outputs[i]]);
    }
    module.graph.outputs.push_back(output);
  }
  return module;
}

std::unique_ptr<ModelRunner> make_runner(LoadedArtifact artifact, EvaluatorOptions options) {
  return std::make_unique<FromArtifact>(std::move(artifact), std::move(options));
}

}  // namespace xyntra
