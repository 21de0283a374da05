// A formula reads operands at the indices it needs, so a bias that is too long would be read in part and a batch
// that is too large would be cut, both silently. This table says which sizes must agree.
//
// A pattern lists the operands in order. `c` is a size, the same wherever the letter stands; `_` any size; `...`
// any number of sizes; `*x` a list of sizes that is the same everywhere; `<x` a shape that broadcasts to that
// list, `~x` that list again or a single element for a single one; `scalar` a single element; `-` anything. `|` separates alternatives, of which the first that fits is
// taken:
//
//   BatchNormalization "n c ..., c, c, c, c"      x: f32[2, 8, 4, 4], then four operands f32[8]
#include "ops/operand_shapes.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace xyntra {
namespace {

const std::unordered_map<std::string_view, std::string_view>& patterns() {
  static const std::unordered_map<std::string_view, std::string_view> table = {
      {"AffineGrid", "n 2 3|n 3 4"},
      {"Attention", "b h q d|b q _, b g k d|b k _, b g k v|b k _, -, b g j d, b g j v, b"},
      {"BatchNormalization", "n c ...|n, c, c, c, c"},
      {"CausalConvWithState", "b c s, c 1 k, c, b c _"},
      {"Conv", "n ..., m ..., m"},
      {"ConvInteger", "n ..., m ..., scalar, scalar|m"},
      {"DequantizeLinear", "-, *s, ~s"},
      {"Dropout", "-, scalar, scalar"},
      {"GridSample", "n ..., n ..."},
      {"GroupNormalization", "n c ..., c, c"},
      {"InstanceNormalization", "n c ..., c, c"},
      {"LayerNormalization", "*x, <x, <x"},
      {"MaxRoiPool", "n c h w, r 5"},
      {"MaxUnpool", "*x, *x"},
      {"NegativeLogLikelihoodLoss", "n c *d, n *d, c"},
      {"OneHot", "-, scalar, 2"},
      {"QLinearConv", "n ..., scalar, scalar, m ..., scalar|m, scalar|m, scalar, scalar, m"},
      {"QuantizeLinear", "-, *s, ~s"},
      {"ReverseSequence", "-, _"},
      {"RMSNormalization", "*x, <x"},
      {"RoiAlign", "n c h w, r 4, r"},
      {"RotaryEmbedding", "b h s d|b s _, *t, *t, b s"},
      {"ScatterElements", "-, *u, *u"},
      {"SimplifiedLayerNormalization", "*x, <x"},
      {"SoftmaxCrossEntropyLoss", "n c *d, n *d, c"},
      {"TensorScatter", "b ..., b ..., b"},
      {"Trilu", "-, scalar"},
      {"com.microsoft.Attention", "b s i, i w, w, -, 2 b ..."},
      {"com.microsoft.BiasAdd", "n s c, c, n s c"},
      {"com.microsoft.BiasGelu", "... h, h"},
      {"com.microsoft.BiasSplitGelu", "... h, h"},
      {"com.microsoft.CDist", "m k, n k"},
      {"com.microsoft.DequantizeLinear", "-, *s, ~s"},
      {"com.microsoft.EmbedLayerNormalization", "b s, b s, _ h, _ h, _ h, h, h, b s, b s|1 s"},
      {"com.microsoft.FastGelu", "... h, h"},
      {"com.microsoft.FusedConv", "n ..., m ..., m"},
      {"com.microsoft.GroupQueryAttention", "-, -, -, -, -, b|b 1, scalar, *c, *c"},
      {"com.microsoft.MultiHeadAttention",
       "b q w|b q h 3 d, b k w|b h k d|b k h 2 d, b k _|b h k _, _, -, -, b h j _, b h j _"},
      {"com.microsoft.QAttention", "b s i, i w, w, scalar, scalar|w, -, scalar, scalar|w, 2 b ..."},
      {"com.microsoft.QLinearAdd", "-, scalar, scalar, -, scalar, scalar, scalar, scalar"},
      {"com.microsoft.QLinearAveragePool", "-, scalar, scalar, scalar, scalar"},
      {"com.microsoft.QLinearGlobalAveragePool", "-, scalar, scalar, scalar, scalar"},
      {"com.microsoft.QLinearLeakyRelu", "-, scalar, scalar, scalar, scalar"},
      {"com.microsoft.QLinearMul", "-, scalar, scalar, -, scalar, scalar, scalar, scalar"},
      {"com.microsoft.QLinearReduceMean", "-, scalar, scalar, scalar, scalar"},
      {"com.microsoft.QLinearSigmoid", "-, scalar, scalar, scalar, scalar"},
      {"com.microsoft.QLinearSoftmax", "-, scalar, scalar, scalar, scalar"},
      {"com.microsoft.QLinearWhere", "-, -, scalar, scalar, -, scalar, scalar, scalar, scalar"},
      {"com.microsoft.QuantizeLinear", "-, *s, ~s"},
      {"com.microsoft.RotaryEmbedding", "b _ s _|b s _, b s|1, *t, *t"},
      {"com.microsoft.SkipLayerNormalization", "... h, ... h, h, h, h"},
      {"com.microsoft.SkipSimplifiedLayerNormalization", "... h, ... h, h, h"},
  };
  return table;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t at = text.find(separator); at != text.npos; at = text.find(separator)) {
    pieces.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  pieces.push_back(text);
  return pieces;
}

// What the letters stand for so far.
struct Sizes {
  std::map<std::string_view, Dim> one;
  std::map<std::string_view, Shape> several;

  bool fits_size(std::string_view token, const Dim& size) {
    if (token == "_") return true;
    if (token.front() >= '0' && token.front() <= '9') return may_be_equal(size, Dim(token.front() - '0'));
    return may_be_equal(one.try_emplace(token, size).first->second, size);
  }

  bool fits_list(std::string_view token, const Shape& sizes) {
    return token == "..." || may_be_equal(several.try_emplace(token.substr(1), sizes).first->second, sizes);
  }

  bool fits(std::string_view pattern, const Shape& shape) {
    if (pattern == "-") return true;
    if (pattern == "scalar") return may_be_single(shape);
    if (pattern.front() == '~') {
      const Shape& other = several.at(pattern.substr(1));
      return may_be_equal(shape, other) || (may_be_single(shape) && may_be_single(other));
    }
    if (pattern.front() == '<') return may_broadcast(shape, several.at(pattern.substr(1)));
    std::vector<std::string_view> tokens = split(pattern, " ");
    auto is_list = [](std::string_view token) { return token == "..." || token.front() == '*'; };
    const auto list = std::ranges::find_if(tokens, is_list) - tokens.begin();
    const auto count = static_cast<std::ptrdiff_t>(tokens.size());
    const auto listed = list == count ? 0 : static_cast<std::ptrdiff_t>(shape.size()) - (count - 1);
    if (listed < 0 || (list == count && tokens.size() != shape.size())) return false;
    auto size = shape.begin();
    for (std::string_view token : tokens) {
      if (is_list(token)) {
        if (!fits_list(token, Shape(size, size + listed))) return false;
        size += listed;
      } else if (!fits_size(token, *size++)) {
        return false;
      }
    }
    return true;
  }

  std::string to_string() const {
    std::string text;
    for (const auto& [letter, size] : one) {
      text += (text.empty() ? "" : ", ") + std::string(letter) + " = " + size.to_string();
    }
    for (const auto& [letter, sizes] : several) {
      text += (text.empty() ? "" : ", ") + std::string(letter) + " = " + xyntra::to_string(sizes);
    }
    return text;
  }
};

}  // namespace

std::string operand_label(const OpContext& context, std::size_t operand) {
  return "operand " + std::to_string(operand) + " (" + context.def().inputs[operand].name + ")";
}

bool may_be_equal(const Dim& a, const Dim& b) { return !a.is_constant() || !b.is_constant() || a == b; }

bool may_be_equal(const Shape& a, const Shape& b) {
  return std::ranges::equal(a, b, [](const Dim& x, const Dim& y) { return may_be_equal(x, y); });
}

bool may_broadcast(const Shape& from, const Shape& to) {
  return from.size() <= to.size() &&
         std::equal(from.rbegin(), from.rend(), to.rbegin(),
                    [](const Dim& x, const Dim& y) { return may_be_equal(x, Dim(1)) || may_be_equal(x, y); });
}

bool may_be_single(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& size) { return may_be_equal(size, Dim(1)); });
}

Status require_shape(const OpContext& context, std::size_t operand, const Shape& expected) {
  if (!context.has_input(operand) || may_be_equal(context.shape(operand), expected)) return {};
  return context.fail(operand_label(context, operand) + " is " + to_string(context.shape(operand)) +
                      ", must be " + to_string(expected));
}

Status require_multiple(const OpContext& context, const Dim& size, std::int64_t factor,
                        std::string_view what) {
  if (!size.is_constant() || size.constant() % factor == 0) return {};
  return context.fail(std::string(what) + " is " + size.to_string() + ", must be a multiple of " +
                      std::to_string(factor));
}

Status check_operand_shapes(const OpContext& context) {
  auto found = patterns().find(context.def().name);
  if (found == patterns().end()) return {};
  std::vector<std::string_view> operands = split(found->second, ", ");
  Sizes sizes;
  for (std::size_t i = 0; i < std::min(operands.size(), context.input_count()); ++i) {
    if (!context.has_input(i) || !context.type(i).is_tensor() || !context.type(i).shape) continue;
    const auto fit = [&](std::string_view pattern) {
      Sizes attempt = sizes;
      const bool does = attempt.fits(pattern, context.shape(i));
      if (does) sizes = std::move(attempt);
      return does;
    };
    if (std::ranges::any_of(split(operands[i], "|"), fit)) continue;
    std::string known = sizes.to_string();
    return context.fail(operand_label(context, i) + " is " + to_string(context.shape(i)) + ", must be [" +
                        std::string(operands[i]) + "]" + (known.empty() ? "" : " where " + known));
  }
  return {};
}

}  // namespace xyntra
