// Artifacts: what they compute is what the model computes; what is damaged, foreign or from the future is refused by kind.
#include "package/artifact.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "ir/text.h"
#include "ops/infer.h"
#include "support/files/stored_zip.h"
#include "support/hash/sha256.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::string_view kLinear = R"(xir 1
graph @linear(%x: f32[n, 3]) -> (%y, %x) {
  const %w: f32[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  const %b: f32[2] = [0.5, -0.5]
  %h: f32[n, 2] = MatMul(%x, %w)
  %z: f32[n, 2] = Add(%h, %b)
  %y: f32[n, 2] = Relu(%z)
})";

// Control flow, an operation without formula, and a size that only running tells.
constexpr std::string_view kHost = R"(xir 1
graph @host(%flag: bool[], %x: f32[n]) -> (%y, %where) {
  const %zero: f32[] = 0.0
  %c: f32[n] = If(%flag, %x) {
    then_branch = graph @double(%a: f32[n]) -> (%r) {
      %r: f32[n] = Add(%a, %a)
    },
    else_branch = graph @keep(%b: f32[n]) -> (%s) {
      %s: f32[n] = Identity(%b)
    }
  }
  %positive: bool[n] = Greater(%c, %zero)
  %where: i64[1, found] = NonZero(%positive)
  %exp: f32[n] = Exp(%c)
  %y: f32[n] = Neg(%exp)
})";

Module module_of(std::string_view text) {
  auto module = parse_xir(text);
  if (!module) internal_error(module.error().to_string());
  if (Status typed = infer_types(*module); !typed) internal_error(typed.error().to_string());
  return std::move(*module);
}

Datum floats(Dims dims, const std::vector<float>& values) {
  return Datum::of(Tensor::from<float>(DType::F32, std::move(dims), values));
}
Datum truth(bool value) {
  const std::uint8_t byte = value ? 1 : 0;
  return Datum::of(Tensor::from<std::uint8_t>(DType::Bool, {}, std::span(&byte, 1)));
}

class ArtifactTest : public testing::Test {
 protected:
  ArtifactTest() : path_(testing::TempDir() + "xyntra-" + std::to_string(::getpid()) + ".xyn") {}
  ~ArtifactTest() override { std::filesystem::remove(path_); }

  Result<ArtifactFigures> write(const Module& model, std::vector<std::string> cpus = {"native"},
                                SymbolRanges ranges = {}) {
    ArtifactOptions options;
    options.cpus = std::move(cpus);
    options.ranges = std::move(ranges);
    return write_artifact(model, path_, options);
  }

  Result<std::vector<Datum>> run(const std::vector<Datum>& inputs) const {
    XYNTRA_TRY(LoadedArtifact artifact, load_artifact(path_, 1));
    EvaluatorOptions options;
    options.threads = 1;
    return make_runner(std::move(artifact), options)->run(inputs);
  }

  void expect_same_as_reference(const Module& model, const std::vector<Datum>& inputs) const {
    auto made = run(inputs);
    ASSERT_TRUE(made) << made.error().to_string();
    auto evaluator = Evaluator::create(model.graph);
    ASSERT_TRUE(evaluator);
    auto expected = evaluator->run(inputs);
    ASSERT_TRUE(expected);
    ASSERT_EQ(expected->size(), made->size());
    for (std::size_t i = 0; i < made->size(); ++i)
      EXPECT_EQ((*expected)[i].tensor.content_hash(), (*made)[i].tensor.content_hash()) << i;
  }

  std::vector<std::byte> content() const {
    std::ifstream file(path_, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }

  // The archive again, with one entry's content replaced, and its hash in the manifest too where `rehash` says so.
  void replace(const std::string& name, std::string_view with, bool rehash = false) {
    const std::vector<std::byte> archive = content();
    auto entries = read_stored_zip(archive);
    ASSERT_TRUE(entries);
    std::string manifest;
    std::vector<ZipPart> parts;
    for (const ZipEntry& entry : *entries) {
      const bool here = entry.name == name;
      parts.push_back({entry.name, {here ? std::as_bytes(std::span(with)) : entry.bytes}});
      if (entry.name != "manifest" || !rehash) continue;
      manifest.assign(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size());
      const std::size_t at = manifest.find(name + " ") + name.size() + 1;
      manifest.replace(at, 64, sha256_hex(with));
      parts.back().pieces = {std::as_bytes(std::span(std::string_view(manifest)))};
    }
    ASSERT_TRUE(write_stored_zip(path_, parts, kArtifactAlignment));
  }

  std::string manifest() const {
    auto artifact = Artifact::open(path_);
    return artifact ? print_manifest((*artifact)->manifest()) : "";
  }

  Error load_error() const {
    auto loaded = load_artifact(path_, 1);
    return loaded ? Error{} : loaded.error();
  }

  std::string path_;
};

TEST_F(ArtifactTest, ComputesWhatTheModelComputes) {
  const Module model = module_of(kLinear);
  auto figures = write(model);
  ASSERT_TRUE(figures) << figures.error().to_string();
  EXPECT_EQ(0u, figures->levels.at(0).host_calls);
  for (std::int64_t n : {1, 2, 7}) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < 3 * n; ++i) x.push_back(static_cast<float>(i) - 4);
    expect_same_as_reference(model, {floats({n, 3}, x)});
  }
}

TEST_F(ArtifactTest, CarriesHostOperationsAndControlFlow) {
  const Module model = module_of(kHost);
  auto figures = write(model);
  ASSERT_TRUE(figures) << figures.error().to_string();
  EXPECT_GE(figures->levels.at(0).host_calls, 2u);
  for (bool flag : {false, true}) {
    expect_same_as_reference(model, {truth(flag), floats({4}, {1, -2, 0, 3})});
    expect_same_as_reference(model, {truth(flag), floats({2}, {-1, -2})});
  }
}

TEST_F(ArtifactTest, SharesWeightsBetweenLevelsAndTakesTheBest) {
  const Module model = module_of(kLinear);
  auto one = write(model, {"generic"});
  ASSERT_TRUE(one) << one.error().to_string();
  auto two = write(model, {"generic", "native", "generic"});
  ASSERT_TRUE(two) << two.error().to_string();
  ASSERT_EQ(2u, two->levels.size());
  EXPECT_EQ("native", two->levels[0].name);
  auto loaded = load_artifact(path_, 1);
  ASSERT_TRUE(loaded);
  EXPECT_EQ("native", loaded->level->name);
  expect_same_as_reference(model, {floats({1, 3}, {1, 2, 3})});
}

TEST_F(ArtifactTest, TheSameModelGivesTheSameBytes) {
  const Module model = module_of(kLinear);
  ASSERT_TRUE(write(model));
  const std::vector<std::byte> first = content();
  ASSERT_TRUE(write(model));
  EXPECT_EQ(first, content());
}

TEST_F(ArtifactTest, RefusesSizesBeyondItsRanges) {
  ASSERT_TRUE(write(module_of(kLinear), {"native"}, {{"n", {1, 2}}}));
  EXPECT_TRUE(run({floats({2, 3}, {1, 2, 3, 4, 5, 6})}));
  auto refused = run({floats({3, 3}, std::vector<float>(9, 1))});
  ASSERT_FALSE(refused);
  EXPECT_EQ(ErrorClass::Usage, refused.error().error_class);
  EXPECT_EQ("the size 'n' is 3; the model was compiled for 1 to 2", refused.error().message);
}

TEST_F(ArtifactTest, RefusesUnknownCpus) {
  auto figures = write(module_of(kLinear), {"z80"});
  ASSERT_FALSE(figures);
  EXPECT_EQ(ErrorClass::Usage, figures.error().error_class);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ArtifactTest, EveryCutIsAnError) {
  ASSERT_TRUE(write(module_of(kLinear)));
  const std::vector<std::byte> whole = content();
  for (std::size_t size = 0; size < whole.size(); size += 211) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(whole.data()), static_cast<std::streamsize>(size));
    EXPECT_EQ(ErrorClass::BadModel, load_error().error_class) << size;
  }
}

TEST_F(ArtifactTest, EveryChangedByteIsAnErrorOrHarmless) {
  ASSERT_TRUE(write(module_of(kHost)));
  const std::vector<std::byte> whole = content();
  for (std::size_t at = 0; at < whole.size(); at += 37) {
    auto changed = std::make_shared<std::vector<std::byte>>(whole);
    (*changed)[at] ^= std::byte{0x5a};
    auto artifact = Artifact::read(*changed, changed);
    if (!artifact) continue;
    auto level = (*artifact)->level_for_this_machine();
    if (!level) continue;
    auto loaded = (*artifact)->load(**level);  // padding is not looked at
    if (!loaded) {
      EXPECT_NE(ErrorClass::Internal, loaded.error().error_class);
    }
  }
}

// Behind the hashes, where a changed file does not get: the readers of the parts by themselves.
TEST_F(ArtifactTest, EveryChangedByteOfAPartIsAnErrorOrHarmless) {
  ASSERT_TRUE(write(module_of(kHost)));
  auto artifact = Artifact::open(path_);
  ASSERT_TRUE(artifact);
  const ArtifactLevel& level = (*artifact)->manifest().levels.at(0);
  auto copy_of = [&](const char* what) {
    auto bytes = (*artifact)->entry(entry_of_level(level, what));
    return std::vector<std::byte>(bytes->begin(), bytes->end());
  };
  const std::vector<std::byte> program = copy_of("program"), host = copy_of("host");
  const std::vector<std::byte> weights((*artifact)->weight_bytes());
  auto sound = program_from(program, weights, nullptr);
  ASSERT_TRUE(sound) << sound.error().message;
  ASSERT_TRUE(NodesOnHost::from(host, sound->program, 1));
  for (std::byte change : {std::byte{0x01}, std::byte{0x80}, std::byte{0xff}}) {
    for (std::size_t at = 0; at < program.size(); ++at) {
      std::vector<std::byte> changed = program;
      changed[at] ^= change;
      auto read = program_from(changed, weights, nullptr);
      if (!read) {
        EXPECT_NE(ErrorClass::Internal, read.error().error_class);
        continue;
      }
      for (const Tensor& constant : read->program.constants)
        EXPECT_LE(constant.bytes().size(), weights.size());
      static_cast<void>(NodesOnHost::from(host, read->program, 1));
    }
    for (std::size_t at = 0; at < host.size(); ++at) {
      std::vector<std::byte> changed = host;
      changed[at] ^= change;
      static_cast<void>(NodesOnHost::from(changed, sound->program, 1));
    }
  }
}

TEST_F(ArtifactTest, LaterFormatsAreUnsupported) {
  ASSERT_TRUE(write(module_of(kLinear)));
  std::string text = manifest();
  text.replace(text.find("xyn 1"), 5, "xyn 2");
  replace("manifest", text);
  EXPECT_EQ(ErrorClass::Unsupported, load_error().error_class);
  EXPECT_EQ("the artifact has format 2; this version reads up to 1", load_error().message);
}

TEST_F(ArtifactTest, OtherCpusAreADeviceError) {
  ASSERT_TRUE(write(module_of(kLinear)));
  const std::string original = manifest();
  std::string text = original;
  text.replace(text.find(" cpu ") + 5, 64, std::string(64, '0'));
  replace("manifest", text);
  EXPECT_EQ(ErrorClass::Device, load_error().error_class);
  text = original;
  const std::size_t line = text.find("level native"), end = text.find('\n', line);
  text.replace(line, end - line, "level native sparc needs");
  replace("manifest", text);
  EXPECT_EQ("the artifact has no code for this CPU; it has native (sparc)", load_error().message);
}

TEST_F(ArtifactTest, DamagedPartsAreSeenByTheirHashes) {
  ASSERT_TRUE(write(module_of(kLinear)));
  replace("levels/native/code", "not code");
  EXPECT_EQ("'levels/native/code' is damaged: its hash is another", load_error().message);
  replace("levels/native/code", "not code", true);  // and where the hash was forged, by the loader
  EXPECT_EQ(ErrorClass::BadModel, load_error().error_class);
  replace("levels/native/program", "xx", true);
  EXPECT_EQ("the program: cut short", load_error().message);
  replace("weights", "");
  EXPECT_EQ("the hashes of the weights: they are not as many as the weights have blocks",
            load_error().message);
}

// Of the content of the artifact, as it is or with a flipped bit: outputs, or the error.
Result<std::vector<Datum>> run_content(const std::vector<std::byte>& content,
                                       const std::vector<Datum>& inputs) {
  auto bytes = std::make_shared<std::vector<std::byte>>(content);
  XYNTRA_TRY(auto file, Artifact::read(*bytes, bytes, "m.xyn"));
  XYNTRA_TRY(LoadedArtifact artifact, load_artifact(std::move(file), 2));
  EvaluatorOptions options;
  options.threads = 2;
  return make_runner(std::move(artifact), options)->run(inputs);
}

std::size_t offset_of(const std::vector<std::byte>& content, std::string_view entry) {
  auto entries = read_stored_zip(content);
  for (const ZipEntry& one : *entries) {
    if (one.name == entry) return static_cast<std::size_t>(one.bytes.data() - content.data());
  }
  internal_error("no entry");
}

// x[1, n] times a weight of n x n, and a second weight that is added.
Module square(std::int64_t n) {
  std::vector<float> elements(static_cast<std::size_t>(n * n)), row(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i % 13) - 6;
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 5);
  Module module;
  Graph& graph = module.graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, shape_of({1, n})));
  const ValueId w = graph.add_constant("w", Tensor::from<float>(DType::F32, {n, n}, elements));
  const ValueId b = graph.add_constant("b", Tensor::from<float>(DType::F32, {n}, row));
  const ValueId product = graph.output_of(graph.add_node("MatMul", {x, w}, {"product"}));
  graph.outputs = {graph.output_of(graph.add_node("Add", {product, b}, {"y"}))};
  if (Status typed = infer_types(module); !typed) internal_error(typed.error().to_string());
  return module;
}

Datum ones(std::int64_t n) { return floats({1, n}, std::vector<float>(static_cast<std::size_t>(n), 1)); }

// A few weights are checked when they are loaded, many by the first run.
TEST_F(ArtifactTest, DamagedWeightsAreRefusedByName) {
  for (std::int64_t n : {64, 1200}) {
    ASSERT_TRUE(write(square(n)));
    const std::vector<std::byte> whole = content();
    const std::size_t weights = offset_of(whole, "weights");
    auto sound = run_content(whole, {ones(n)});
    ASSERT_TRUE(sound) << sound.error().to_string();
    std::vector<std::byte> damaged = whole;
    damaged[weights + static_cast<std::size_t>(n * n * 4 / 2)] ^= std::byte{0x40};
    auto refused = run_content(damaged, {ones(n)});
    ASSERT_FALSE(refused);
    EXPECT_EQ(ErrorClass::BadModel, refused.error().error_class);
    const std::string block = n == 64 ? "block 0 of 1" : "block 43 of 88";
    EXPECT_EQ("the weight 'w' is damaged: " + block + " has another hash", refused.error().message);
    EXPECT_EQ("m.xyn", refused.error().file);
  }
}

TEST_F(ArtifactTest, OfManyWeightsOnlyThoseThatAreReadAreChecked) {
  const std::int64_t n = 1200;
  ASSERT_TRUE(write(square(n)));
  std::vector<std::byte> damaged = content();
  damaged[offset_of(damaged, "weights") + 5] ^= std::byte{1};
  auto bytes = std::make_shared<std::vector<std::byte>>(damaged);
  auto file = Artifact::read(*bytes, bytes);
  ASSERT_TRUE(file);
  EXPECT_TRUE((*file)->load((*file)->manifest().levels.at(0)));
  ThreadPool pool(2);
  EXPECT_EQ(
      std::vector<std::string>{"block 0 of 88 of the weights is damaged: its hash is another; in it: w"},
      (*file)->damages(pool));
}

TEST_F(ArtifactTest, FlippedBitsAreRefusedOrChangeNothing) {
  const std::int64_t n = 1200;
  ASSERT_TRUE(write(square(n), {"native", "generic"}));
  std::vector<std::byte> bytes = content();
  const auto expected = run_content(bytes, {ones(n)});
  ASSERT_TRUE(expected);
  std::uint64_t state = 21;
  const auto draw = [&state](std::uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<std::size_t>((state >> 20) % below);
  };
  auto entries = read_stored_zip(bytes);
  ASSERT_TRUE(entries);
  std::vector<std::size_t> bits;
  for (const ZipEntry& entry : *entries) {  // every region, and the header and padding before it
    const auto begin = static_cast<std::size_t>(entry.bytes.data() - bytes.data());
    for (int i = 0; i < 3; ++i) bits.push_back(8 * (begin + draw(entry.bytes.size())) + draw(8));
    for (int i = 0; i < 2; ++i)
      bits.push_back(8 * (begin - 1 - draw(std::min<std::size_t>(begin, 60))) + draw(8));
  }
  for (int i = 0; i < 20; ++i) bits.push_back(8 * (bytes.size() - 1 - draw(800)) + draw(8));  // the directory
  for (std::size_t bit : bits) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    auto made = run_content(bytes, {ones(n)});
    if (made) {
      EXPECT_EQ((*expected)[0].tensor.content_hash(), (*made)[0].tensor.content_hash()) << bit;
    } else {
      EXPECT_NE(ErrorClass::Internal, made.error().error_class) << bit << ": " << made.error().to_string();
    }
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

// As artifacts were before there were blocks: their weights have a SHA-256.
TEST_F(ArtifactTest, WeightsWithoutBlocksAreCheckedWhole) {
  ASSERT_TRUE(write(square(64)));
  const std::vector<std::byte> whole = content();
  auto entries = read_stored_zip(whole);
  ASSERT_TRUE(entries);
  std::string text = manifest();
  const std::size_t line = text.find("file blocks ");
  text.erase(line, text.find('\n', line) + 1 - line);
  for (bool damaged : {false, true}) {
    std::vector<ZipPart> parts;
    std::vector<std::byte> weights;
    std::string changed = text;
    for (const ZipEntry& entry : *entries) {
      if (entry.name == "weights") {
        weights.assign(entry.bytes.begin(), entry.bytes.end());
        changed += "file weights " + sha256_hex(weights) + "\n";
        if (damaged) weights[9] ^= std::byte{2};
      }
    }
    for (const ZipEntry& entry : *entries) {
      if (entry.name == "blocks") continue;
      parts.push_back({entry.name,
                       {entry.name == "weights"    ? std::span<const std::byte>(weights)
                        : entry.name == "manifest" ? std::as_bytes(std::span(changed))
                                                   : entry.bytes}});
    }
    ASSERT_TRUE(write_stored_zip(path_, parts, kArtifactAlignment));
    auto made = run({ones(64)});
    EXPECT_EQ(!damaged, made.has_value());
    if (!made) {
      EXPECT_EQ("'weights' is damaged: its hash is another", made.error().message);
    }
  }
}

TEST_F(ArtifactTest, ProgramsThatMakeNoSenseAreRefused) {
  LaunchProgram program;
  program.values.resize(2);
  program.values[0].kind = ProgramValue::Kind::Input;
  program.values[1].kind = ProgramValue::Kind::View;
  program.values[1].of = 0;
  program.inputs = {0};
  program.outputs = {1};
  program.steps.push_back({ProgramStep::Kind::View, 0, {0}, {1}, 0, "", ""});
  auto problem = [](const LaunchProgram& given, std::vector<StoredConstant> constants = {}) {
    auto read = program_from(to_bytes(given, constants), {}, nullptr);
    return read ? std::string() : read.error().message;
  };
  EXPECT_EQ("", problem(program));
  LaunchProgram broken = program;
  broken.values[1].of = 1;
  EXPECT_NE("", problem(broken));  // a view of itself shows nothing
  broken = program;
  broken.values[0] = broken.values[1];
  broken.values[0].of = 1;
  EXPECT_EQ("the program: views show one another", problem(broken));
  broken = program;
  broken.outputs = {5};
  EXPECT_EQ("the program: there is no value of this number", problem(broken));
  broken = program;
  broken.steps[0].kind = ProgramStep::Kind::Launch;
  EXPECT_EQ("the program: there is no kernel of this number", problem(broken));
  broken = program;
  broken.steps.clear();
  EXPECT_EQ("the program: an output is never made", problem(broken));
  broken = program;
  broken.values[0].kind = ProgramValue::Kind::Arena;
  EXPECT_EQ("the program: there is no piece of the arena of this number", problem(broken));
  EXPECT_EQ("the program: a constant lies outside the weights", problem(program, {{DType::F32, {4}, 0}}));
  EXPECT_NE("", problem(program, {{DType::F32, {INT64_MAX, 2}, 0}}));
  broken = program;
  broken.slots.resize(2);
  broken.order = {1, 1};
  EXPECT_EQ("the program: the order of the arena is not one of its pieces", problem(broken));
}

}  // namespace
}  // namespace xyntra
