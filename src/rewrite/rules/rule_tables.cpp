// The rows of all tables, in the order in which rules are tried.
#include "rewrite/rules/rule_set.h"

namespace xyntra {
namespace {

struct ClassOf {
  RuleClass rule_class;
  bool also_narrow = false;
};
constexpr ClassOf Exact{RuleClass::Exact}, Reassociating{RuleClass::Reassociating},
    AlsoNarrow{RuleClass::Reassociating, true}, PrecisionChanging{RuleClass::PrecisionChanging};

RuleText row(const char* family, const char* name, const char* left, const char* right, const char* guard,
             ClassOf rule_class, const char* example = "") {
  return {name,
          left,
          right,
          guard,
          rule_class.rule_class,
          rule_class.also_narrow,
          example,
          family,
          std::string(family) + ".def"};
}

const std::vector<RuleText>& rows() {
  static const std::vector<RuleText> kRows = {
#define RULE(...) row("algebra", __VA_ARGS__),
#include "rewrite/rules/tables/algebra.def"
#undef RULE
#define RULE(...) row("select", __VA_ARGS__),
#include "rewrite/rules/tables/select.def"
#undef RULE
#define RULE(...) row("cast", __VA_ARGS__),
#include "rewrite/rules/tables/cast.def"
#undef RULE
#define RULE(...) row("shape", __VA_ARGS__),
#include "rewrite/rules/tables/shape.def"
#undef RULE
#define RULE(...) row("reduction", __VA_ARGS__),
#include "rewrite/rules/tables/reduction.def"
#undef RULE
#define RULE(...) row("matmul", __VA_ARGS__),
#include "rewrite/rules/tables/matmul.def"
#undef RULE
#define RULE(...) row("lookup", __VA_ARGS__),
#include "rewrite/rules/tables/lookup.def"
#undef RULE
#define RULE(...) row("convolution", __VA_ARGS__),
#include "rewrite/rules/tables/convolution.def"
#undef RULE
#define RULE(...) row("quantized", __VA_ARGS__),
#include "rewrite/rules/tables/quantized.def"
#undef RULE
#define RULE(...) row("activation", __VA_ARGS__),
#include "rewrite/rules/tables/activation.def"
#undef RULE
#define RULE(...) row("normalization", __VA_ARGS__),
#include "rewrite/rules/tables/normalization.def"
#undef RULE
  };
  return kRows;
}

}  // namespace

std::span<const RuleText> built_in_rules() { return rows(); }

}  // namespace xyntra
