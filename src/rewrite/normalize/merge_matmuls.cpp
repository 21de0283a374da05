#include "rewrite/normalize/merge_matmuls.h"

#include <map>

#include "support/copy_bytes.h"

namespace xyntra {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;  // of one merged matrix

// One matmul: its node, the constant matrix, and the bias that is added to it and nothing else, if there is one.
struct Matmul {
  DraftNode matmul;
  DraftNode biased;  // the Add; invalid: none
  DraftValue matrix;
  DraftValue bias;
  bool transposed = false;  // the matrix is [n, k], through a Transpose
  DraftNode last() const { return biased.valid() ? biased : matmul; }
};

// Matmuls may be merged when all of this is the same.
struct Kind {
  std::uint32_t operand;
  bool transposed;
  bool biased;
  std::int64_t depth;
  DType dtype;
  auto operator<=>(const Kind&) const = default;
};

class Merging {
 public:
  Merging(const Draft& from, std::span<const DraftValue> outputs, Normalizer& to, Draft& into)
      : from_(from), outputs_(outputs), to_(to), into_(into), order_(from.live_nodes(outputs)) {
    users_.resize(from.value_count());
    for (DraftNode node : order_) {
      for (DraftValue input : from.node(node).inputs) {
        if (input.valid()) users_[input.index].push_back(node);
      }
    }
    placed_.resize(from.value_count());
    is_output_.resize(from.value_count(), false);
    for (DraftValue output : outputs) is_output_[output.index] = true;
    for (std::size_t i = 0; i < from.inputs().size(); ++i) placed_[from.inputs()[i].index] = into.inputs()[i];
  }

  Result<Merged> run() {
    find_groups();
    Merged merged;
    for (DraftNode node : order_) {
      if (auto group = starts_.find(node); group != starts_.end()) {
        XYNTRA_CHECK_OK(add_merged(groups_[group->second], merged.uses));
      }
      if (!covered_.contains(node)) XYNTRA_CHECK_OK(add_copy(node));
    }
    for (DraftValue output : outputs_) merged.outputs.push_back(place(output));
    return merged;
  }

 private:
  const Tensor& constant(DraftValue value) const { return from_.constant(value); }

  std::optional<Matmul> matmul_at(DraftNode id) const {
    const Draft::NodeEntry& node = from_.node(id);
    if (node.def->name != "MatMul") return std::nullopt;
    Matmul found;
    found.matmul = id;
    found.matrix = node.inputs[1];
    const DraftNode maker = from_.value(found.matrix).producer;
    if (maker.valid() && from_.node(maker).def->name == "Transpose") {
      found.transposed = true;
      found.matrix = from_.node(maker).inputs[0];
    }
    const Tensor& matrix = constant(found.matrix);
    const bool usable =
        matrix.defined() && matrix.rank() == 2 && bits_of(matrix.dtype()) >= 8 && matrix.count() > 0;
    if (!usable || !from_.facts(node.inputs[0]).type.shape ||
        from_.facts(node.inputs[0]).type.shape->size() < 2) {
      return std::nullopt;
    }
    take_bias(found);
    return found;
  }

  std::int64_t width(const Matmul& matmul) const {
    return constant(matmul.matrix).dims()[matmul.transposed ? 0 : 1];
  }
  std::int64_t depth(const Matmul& matmul) const {
    return constant(matmul.matrix).dims()[matmul.transposed ? 1 : 0];
  }

  // A constant vector that is added to the matmul, when nobody else looks at the matmul.
  void take_bias(Matmul& matmul) const {
    const DraftValue result = from_.node(matmul.matmul).outputs[0];
    if (users_[result.index].size() != 1 || is_output_[result.index]) return;
    const DraftNode user = users_[result.index][0];
    const Draft::NodeEntry& add = from_.node(user);
    if (add.def->name != "Add") return;
    const DraftValue bias = add.inputs[0] == result ? add.inputs[1] : add.inputs[0];
    const Tensor& contents = constant(bias);
    if (!contents.defined() || contents.rank() != 1 || contents.dims()[0] != width(matmul)) return;
    matmul.biased = user;
    matmul.bias = bias;
  }

  void find_groups() {
    std::map<Kind, std::vector<Matmul>> kinds;
    for (DraftNode id : order_) {
      const auto matmul = matmul_at(id);
      if (!matmul) continue;
      kinds[{from_.node(id).inputs[0].index, matmul->transposed, matmul->biased.valid(), depth(*matmul),
             constant(matmul->matrix).dtype()}]
          .push_back(*matmul);
    }
    for (auto& [kind, matmuls] : kinds) {
      std::int64_t bytes = 0;
      for (const Matmul& matmul : matmuls)
        bytes += static_cast<std::int64_t>(constant(matmul.matrix).bytes().size());
      if (matmuls.size() < 2 || bytes > kMostBytes) continue;
      for (const Matmul& matmul : matmuls) {
        covered_.emplace(matmul.matmul, true);
        if (matmul.biased.valid()) covered_.emplace(matmul.biased, true);
      }
      starts_[matmuls.front().matmul] = groups_.size();
      groups_.push_back(std::move(matmuls));
    }
  }

  // Matrices concatenated: rows of one after the other, or whole ones when they are transposed.
  Result<Tensor> joined(const std::vector<Matmul>& matmuls, bool biases) const {
    const bool whole = biases || matmuls.front().transposed;
    std::vector<const Tensor*> parts;
    for (const Matmul& matmul : matmuls) parts.push_back(&constant(biases ? matmul.bias : matmul.matrix));
    Dims dims = parts.front()->dims();
    std::int64_t& grown = dims[whole ? 0 : 1];
    grown = 0;
    for (const Tensor* part : parts) grown += part->dims()[whole ? 0 : 1];
    XYNTRA_TRY(Tensor result, Tensor::allocate(parts.front()->dtype(), dims));
    const std::int64_t rows = whole ? 1 : dims[0];
    const auto target = result.mutable_bytes();
    std::size_t written = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (const Tensor* part : parts) {
        const std::size_t length = part->bytes().size() / static_cast<std::size_t>(rows);
        copy_bytes(part->bytes().subspan(static_cast<std::size_t>(row) * length, length),
                   target.subspan(written, length));
        written += length;
      }
    }
    FoldedNode made{find_op("Concat"), {}, {}, {result}};
    made.form.attributes["axis"] = std::int64_t{whole ? 0 : 1};
    for (const Tensor* part : parts) made.operands.push_back(*part);
    into_.record(std::move(made));
    return result;
  }

  Status add_merged(const std::vector<Matmul>& matmuls, std::vector<RuleUse>& uses) {
    RuleUse use;
    use.rule = "merge-matmuls";
    use.rule_class = RuleClass::Reassociating;  // a wider matmul may be summed in another order
    std::vector<std::int64_t> sizes;
    for (const Matmul& matmul : matmuls) {
      append_origins(use.origins, from_.node(matmul.matmul).origins);
      if (matmul.biased.valid()) append_origins(use.origins, from_.node(matmul.biased).origins);
      sizes.push_back(width(matmul));
    }
    XYNTRA_TRY(Tensor matrix, joined(matmuls, false));
    DraftValue weight = into_.add_constant(std::move(matrix));
    if (matmuls.front().transposed) {
      XYNTRA_TRY(weight,
                 add_one("Transpose", {weight}, {{"perm", std::vector<std::int64_t>{1, 0}}}, use.origins));
    }
    const DraftValue operand = place(from_.node(matmuls.front().matmul).inputs[0]);
    XYNTRA_TRY(DraftValue wide, add_one("MatMul", {operand, weight}, {}, use.origins));
    if (matmuls.front().biased.valid()) {
      XYNTRA_TRY(Tensor biases, joined(matmuls, true));
      XYNTRA_TRY(wide, add_one("Add", {wide, into_.add_constant(std::move(biases))}, {}, use.origins));
    }
    Draft::Addition cut;
    cut.def = find_op("Split");
    cut.inputs = {wide, into_.add_constant(Tensor::of_integers(sizes))};
    const auto rank = static_cast<std::int64_t>(into_.facts(wide).type.shape->size());
    cut.form.attributes["axis"] = rank - 1;
    cut.form.outputs.assign(matmuls.size(), true);
    cut.origins = use.origins;
    for (const Matmul& matmul : matmuls) {
      const DraftValue result = from_.node(matmul.last()).outputs[0];
      cut.names.push_back(from_.value(result).name);
      cut.facts.push_back(from_.facts(result));
      use.result += (use.result.empty() ? "" : ", ") + from_.value(result).name;
    }
    XYNTRA_TRY(const auto pieces, to_.add(std::move(cut)));
    for (std::size_t i = 0; i < matmuls.size(); ++i) {
      placed_[from_.node(matmuls[i].last()).outputs[0].index] = pieces[i];
    }
    uses.push_back(std::move(use));
    return {};
  }

  Result<DraftValue> add_one(const char* op, std::vector<DraftValue> inputs, Attributes attributes,
                             std::vector<std::string> origins) {
    Draft::Addition addition;
    addition.def = find_op(op);
    addition.inputs = std::move(inputs);
    addition.form.attributes = std::move(attributes);
    addition.origins = std::move(origins);
    XYNTRA_TRY(const auto made, to_.add(std::move(addition)));
    return made.at(0);
  }

  DraftValue place(DraftValue value) {
    if (!value.valid()) return {};
    DraftValue& placed = placed_[value.index];
    if (!placed.valid()) placed = into_.add_constant(constant(value), from_.value(value).name);
    return placed;
  }

  Status add_copy(DraftNode id) {
    const Draft::NodeEntry& node = from_.node(id);
    Draft::Addition addition;
    addition.def = node.def;
    addition.form = from_.form(id);
    addition.origins = node.origins;
    for (DraftValue input : node.inputs) addition.inputs.push_back(place(input));
    for (DraftValue output : node.outputs) {
      addition.facts.push_back(output.valid() ? from_.facts(output) : ValueFacts());
      addition.names.push_back(output.valid() ? from_.value(output).name : "");
    }
    XYNTRA_TRY(const auto made, to_.add(std::move(addition)));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) placed_[node.outputs[i].index] = made.at(i);
    }
    return {};
  }

  const Draft& from_;
  std::span<const DraftValue> outputs_;
  Normalizer& to_;
  Draft& into_;
  std::vector<DraftNode> order_;
  std::vector<std::vector<DraftNode>> users_;  // by value
  std::vector<bool> is_output_;  // by value
  std::vector<DraftValue> placed_;  // by value of `from`
  std::vector<std::vector<Matmul>> groups_;
  std::map<DraftNode, std::size_t> starts_;  // the first matmul of a group, in order of execution
  std::map<DraftNode, bool> covered_;  // nodes that groups stand for
};

}  // namespace

Result<Merged> merge_matmuls(const Draft& from, std::span<const DraftValue> outputs, Normalizer& to,
                             Draft& into) {
  return Merging(from, outputs, to, into).run();
}

}  // namespace xyntra
