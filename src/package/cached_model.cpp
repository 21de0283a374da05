#include "package/cached_model.h"

#include <algorithm>
#include <tuple>

#include "compiler/lock.h"
#include "ir/read_graph.h"
#include "ops/infer.h"
#include "package/known_hashes.h"
#include "plan/text.h"
#include "runtime/artifact/program_bytes.h"
#include "schedule/layout/layouts.h"
#include "support/files/byte_stream.h"
#include "support/hash/build_id.h"
#include "types/tensor_layout.h"

namespace xyntra {
namespace {

constexpr std::size_t kMostWritten = std::size_t{16} << 20;  // bytes of constants in an entry

enum class Source : std::uint8_t { Weight, Derived, Written };
constexpr std::uint64_t kSources = 3;

// Tensors are shared on their way through rewriting: the same place is the same contents.
using Place = std::tuple<const std::byte*, DType, Dims>;
Place place_of(const Tensor& tensor) { return {tensor.bytes().data(), tensor.dtype(), tensor.dims()}; }

bool packs_otherwise(const Plan& plan) {
  return std::ranges::any_of(plan.groups, [](const Group& group) {
    return group.schedule.kind == ScheduleKind::Winograd || group.schedule.kind == ScheduleKind::Bf16x3;
  });
}

// Where each constant of a program comes from.
class SourceWriter {
 public:
  SourceWriter(const Plan& plan, const std::map<Place, std::string>& weights)
      : plan_(plan), weights_(weights), layouts_(layouts_of(plan.layouts)) {
    const std::vector<ValueId>& outputs = plan.derived_constants.outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      derived_.emplace(plan.derived_constants.value(outputs[i]).name, i);
  }

  // False where a constant cannot be had again.
  bool write(ByteWriter& writer, ValueId id, const Tensor& packed) {
    const Value& value = plan_.graph.value(id);
    const auto layout = layouts_.find(id);
    const bool laid = layout != layouts_.end();
    const auto weight = weights_.find(place_of(value.constant));
    const auto made = derived_.find(value.name);
    const bool is_long = value.constant.count() > kInlineElements && !(laid && bits_of(packed.dtype()) < 8);
    if (is_long && weight != weights_.end()) {
      begin(writer, Source::Weight);
      writer.text(weight->second);
    } else if (is_long && made != derived_.end()) {
      begin(writer, Source::Derived);
      writer.number(made->second);
    } else {
      written_ += packed.bytes().size();
      begin(writer, Source::Written);
      writer.text(name_of(packed.dtype()));
      writer.number(packed.dims().size());
      for (const std::int64_t size : packed.dims()) writer.signed_number(size);
      writer.part(packed.bytes());
      return written_ <= kMostWritten;
    }
    writer.text(laid ? to_string(layout->second) : "");
    return true;
  }

 private:
  static void begin(ByteWriter& writer, Source source) { writer.number(static_cast<std::uint64_t>(source)); }

  const Plan& plan_;
  const std::map<Place, std::string>& weights_;
  LayoutsByValue layouts_;
  std::map<std::string, std::size_t> derived_;  // outputs of the derived constants, by name
  std::size_t written_ = 0;
};

// What runs on the host reads its constants where they are.
void align_for_host(LaunchProgram& program) {
  for (const ProgramStep& step : program.steps) {
    if (step.kind == ProgramStep::Kind::Launch) continue;
    for (ProgramValueId id : step.inputs) {
      while (id != kNoValue && program.values.at(id).kind == ProgramValue::Kind::View)
        id = program.values.at(id).of;
      if (id == kNoValue || program.values.at(id).kind != ProgramValue::Kind::Constant) continue;
      Tensor& constant = program.constants.at(program.values.at(id).index);
      constant = constant.aligned();
    }
  }
}

Result<Tensor> written_constant(ByteReader& reader) {
  XYNTRA_TRY(const std::string name, reader.text());
  const auto dtype = dtype_named(name);
  if (!dtype) return reader.bad("there is no dtype of this name");
  XYNTRA_TRY(const std::size_t rank, reader.count());
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) {
    XYNTRA_TRY(const std::int64_t size, reader.signed_number());
    dims.push_back(size);
  }
  XYNTRA_TRY(const std::span<const std::byte> bytes, reader.part());
  XYNTRA_TRY(const Tensor there, Tensor::borrow(*dtype, std::move(dims), bytes, nullptr));
  return there.copied();
}

}  // namespace

void CachedModel::hash_weights(const std::string& device) {
  HashCache hashes;
  KnownHashes known(cache_);
  known.give(model_, hashes);
  for (const auto& [id, hash] : hashes_of_weights(model_, &hashes))
    weights_.emplace(hash, model_.value(id).constant);
  known.keep(model_, hashes);
  Module module;
  module.graph = model_;
  const std::string content =
      content_hash(module, [&hashes](const Tensor& tensor) { return hashes.of(tensor); });
  key_ = "xyntra " XYNTRA_VERSION ", compiled model 1, build " + build_id() + "\n" + device + "\ntarget " +
         std::string(options_.target->name) + " " + options_.target->hash() + "\n" +
         configuration_text(options_);
  for (const auto& [symbol, size] : options_.fusion.choose.nominal)
    key_ += "nominal " + symbol + " = " + std::to_string(size) + "\n";
  key_ += "model " + content + "\n";
}

std::optional<CachedModel::Found> CachedModel::find(const std::string& device, int threads) {
  if (!cache_.is_on() || build_id().empty()) return std::nullopt;
  if (key_.empty()) hash_weights(device);
  const auto entry = cache_.find(key_);
  if (!entry) return std::nullopt;
  auto found = read(*entry, threads);
  return found ? std::optional(std::move(*found)) : std::nullopt;
}

void CachedModel::put(const Plan& plan, const LaunchProgram& program, const NodesOnHost& host,
                      std::span<const std::byte> code) const {
  if (key_.empty() || packs_otherwise(plan)) return;
  std::map<Place, std::string> by_place;
  for (const auto& [hash, tensor] : weights_) by_place.emplace(place_of(tensor), hash);
  for (std::size_t i = 0; i < model_.value_count(); ++i) {  // another tensor of the same contents
    const Tensor& constant = model_.value(ValueId(i)).constant;
    if (!constant.defined() || constant.count() <= kInlineElements || by_place.contains(place_of(constant)))
      continue;
    by_place.emplace(place_of(constant), constant.content_hash());
  }
  const Graph& derived = plan.derived_constants;
  WeightHashes named;
  for (std::size_t i = 0; i < derived.value_count(); ++i) {
    const Tensor& constant = derived.value(ValueId(i)).constant;
    if (!constant.defined() || constant.count() <= kInlineElements) continue;
    if (auto known = by_place.find(place_of(constant)); known != by_place.end())
      named.emplace(ValueId(i), known->second);
  }
  ByteWriter writer;
  writer.text(derived.outputs.empty() ? "" : print_graph(derived, named));
  SourceWriter sources(plan, by_place);
  std::vector<StoredConstant> stored;
  ByteWriter constants;
  for (std::size_t v = 0; v < plan.graph.value_count(); ++v) {  // in this order they have their numbers
    if (!plan.graph.value(ValueId(v)).is_constant() || !plan.graph.value(ValueId(v)).type.is_tensor())
      continue;
    const Tensor& packed = program.constants.at(stored.size());
    stored.push_back({packed.dtype(), packed.dims(), 0});
    if (!sources.write(constants, ValueId(v), packed)) return;
  }
  writer.number(stored.size());
  writer.part(constants.bytes);
  writer.part(to_bytes(program, stored));
  writer.part(host.to_bytes());
  writer.part(code);
  cache_.put(key_, writer.bytes);
}

Result<std::vector<Tensor>> CachedModel::derive(const std::string& text, int threads) const {
  std::vector<Tensor> made;
  if (text.empty()) return made;
  WeightHashes weights;
  XYNTRA_TRY(Graph graph, read_graph(text, weights, "what derives constants"));
  for (const auto& [id, hash] : weights) {
    const auto found = weights_.find(hash);
    if (found == weights_.end()) return bad_model("a derived constant needs a weight that the model lacks");
    graph.value(id).constant = found->second;
  }
  XYNTRA_CHECK_OK(verify(graph));
  XYNTRA_CHECK_OK(infer_types(graph, options_.budget.get()));
  EvaluatorOptions evaluating;
  evaluating.threads = threads;
  evaluating.budget = options_.budget;
  XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph, evaluating));
  XYNTRA_TRY(std::vector<Datum> results, evaluator.run({}));
  for (Datum& result : results) {
    if (result.kind != Datum::Kind::Tensor) return bad_model("a derived constant is no tensor");
    made.push_back(std::move(result.tensor));
  }
  return made;
}

Result<CachedModel::Found> CachedModel::read(std::span<const std::byte> entry, int threads) const {
  ByteReader reader(entry, "a compiled model");
  XYNTRA_TRY(const std::string text, reader.text());
  XYNTRA_TRY(const std::vector<Tensor> derived, derive(text, threads));
  XYNTRA_TRY(const std::size_t count, reader.count());
  XYNTRA_TRY(const std::span<const std::byte> sources, reader.part());
  ByteReader from(sources, "constants of a compiled model");
  std::vector<Tensor> constants;
  for (std::size_t i = 0; i < count; ++i) {
    XYNTRA_TRY(const std::uint64_t source, from.number_below(kSources));
    Tensor tensor;
    if (static_cast<Source>(source) == Source::Written) {
      XYNTRA_TRY(tensor, written_constant(from));
      constants.push_back(std::move(tensor));
      continue;
    }
    if (static_cast<Source>(source) == Source::Weight) {
      XYNTRA_TRY(const std::string hash, from.text());
      const auto found = weights_.find(hash);
      if (found == weights_.end()) return from.bad("the model lacks a weight");
      tensor = found->second;
    } else {
      XYNTRA_TRY(const std::uint64_t number, from.number_below(derived.size()));
      tensor = derived[number];
    }
    XYNTRA_TRY(const std::string layout, from.text());
    if (!layout.empty()) {
      XYNTRA_TRY(const Layout parsed, parse_layout(layout));
      XYNTRA_TRY(tensor, laid_out(tensor, parsed, options_.budget));
    }
    constants.push_back(std::move(tensor));  // in the file they may lie anywhere, which devices do not mind
  }
  XYNTRA_CHECK_OK(from.end());
  XYNTRA_TRY(const std::span<const std::byte> program, reader.part());
  XYNTRA_TRY(StoredProgram stored, program_from(program, std::move(constants)));
  align_for_host(stored.program);
  XYNTRA_TRY(const std::span<const std::byte> host, reader.part());
  Found found;
  XYNTRA_TRY(found.host, NodesOnHost::from(host, stored.program, threads));
  XYNTRA_TRY(const std::span<const std::byte> code, reader.part());
  XYNTRA_CHECK_OK(reader.end());
  found.program = std::move(stored.program);
  found.code.assign(code.begin(), code.end());
  return found;
}

}  // namespace xyntra
