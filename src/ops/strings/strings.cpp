// StringConcat, StringSplit, StringNormalizer, RegexFullMatch: what is done to strings as text.
#include <algorithm>
#include <set>

#include "ops/rules.h"
#include "ops/strings/host_strings.h"
#include "support/text/letter_case.h"
#include "support/text/regex.h"

namespace xyntra {
namespace {

// For each element of a shape, the place of the element that is broadcast to it.
class BroadcastPlaces {
 public:
  BroadcastPlaces(const Dims& dims, const Dims& to) : index_(to.size(), 0), strides_(to.size(), 0), to_(to) {
    std::int64_t stride = 1;
    for (std::size_t back = 1; back <= dims.size(); ++back) {
      const std::int64_t extent = dims[dims.size() - back];
      strides_[to.size() - back] = extent == 1 ? 0 : stride;
      stride *= extent;
    }
  }
  std::int64_t place() const { return place_; }
  void next() {
    for (std::size_t axis = to_.size(); axis-- > 0;) {
      place_ += strides_[axis];
      if (++index_[axis] < to_[axis]) return;
      place_ -= strides_[axis] * to_[axis];
      index_[axis] = 0;
    }
  }

 private:
  Dims index_, strides_;
  const Dims& to_;
  std::int64_t place_ = 0;
};

using Pieces = std::vector<std::string_view>;

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

// At runs of white space, none of which is at either end of a piece.
Pieces split_at_space(std::string_view text, std::size_t most) {
  Pieces pieces;
  const std::size_t last = text.find_last_not_of(kWhiteSpace);
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
    if (text.empty()) return pieces;
    const std::size_t end =
        pieces.size() < most ? std::min(text.find_first_of(kWhiteSpace), text.size()) : text.size();
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// At each delimiter; there is no piece in nothing.
Pieces split_at(std::string_view text, std::string_view delimiter, std::size_t most) {
  Pieces pieces;
  if (text.empty()) return pieces;
  while (true) {
    const std::size_t end = pieces.size() < most ? text.find(delimiter) : std::string_view::npos;
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + delimiter.size());
  }
}

struct Normalization {
  std::optional<LetterCase> change;
  bool case_sensitive = false;
  std::set<std::string, std::less<>> stopwords;  // in lower case where the case is of no matter
};

Result<Normalization> read_normalization(const OpContext& c) {
  Normalization made;
  const std::string& action = c.text("case_change_action");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    return c.fail("case_change_action must be NONE, LOWER or UPPER");
  if (action != "NONE") made.change = action == "LOWER" ? LetterCase::Lower : LetterCase::Upper;
  made.case_sensitive = c.flag("is_case_sensitive");
  for (const std::string& word : c.texts("stopwords"))
    made.stopwords.insert(made.case_sensitive ? word : in_case(word, LetterCase::Lower));
  return made;
}

Status check_normalized_rank(const OpContext& c, std::size_t rank) {
  if (rank == 1 || rank == 2) return {};
  return c.fail("X must have rank 1 or 2");
}

}  // namespace

namespace rule {

Status string_split(InferenceContext& c) {
  Shape pieces = c.shape(0);
  pieces.push_back(c.unknown_dim(0, pieces.size()));
  c.set_shape(0, std::move(pieces));
  if (c.output_count() > 1) c.set_shape(1, c.shape(0));
  return {};
}

Status string_normalizer(InferenceContext& c) {
  XYNTRA_CHECK_OK(check_normalized_rank(c, c.rank(0)));
  XYNTRA_CHECK_OK(read_normalization(c));
  Shape shape(c.rank(0), Dim(1));
  shape.back() = c.unknown_dim(0, shape.size() - 1);
  c.set_shape(0, std::move(shape));
  return {};
}

Status regex_full_match(InferenceContext& c) {
  if (!c.has_attribute("pattern")) return c.fail("attribute 'pattern' is missing");
  c.set_shape(0, c.shape(0));
  return {};
}

}  // namespace rule

namespace host {

Status string_concat(HostContext& c) {
  const Tensor &x = c.input(0), &y = c.input(1);
  XYNTRA_TRY(const Shape shape, broadcast_shapes(c, shape_of(x.dims()), shape_of(y.dims())));
  const Dims dims = static_dims(shape).value();
  XYNTRA_TRY(const std::int64_t count, element_count(dims));
  BroadcastPlaces left(x.dims(), dims), right(y.dims(), dims);
  StringList made(c);
  for (std::int64_t i = 0; i < count; ++i, left.next(), right.next())
    XYNTRA_CHECK_OK(made.add(std::string(x.string_at(left.place())).append(y.string_at(right.place()))));
  return made.give(0, dims);
}

Status string_split(HostContext& c) {
  const Tensor& x = c.input(0);
  const std::string delimiter = c.has_attribute("delimiter") ? c.text("delimiter") : "";
  const std::int64_t splits = c.has_attribute("maxsplit") ? c.integer("maxsplit") : -1;
  const std::size_t most = splits < 0 ? SIZE_MAX : static_cast<std::size_t>(splits);
  XYNTRA_TRY(Tensor counts, c.allocate(DType::I64, x.dims()));
  Charge charge(c.budget());
  std::vector<Pieces> all;
  std::size_t widest = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::string_view text = x.string_at(i);
    XYNTRA_CHECK_OK(c.worked(1 + static_cast<std::int64_t>(text.size())));
    all.push_back(delimiter.empty() ? split_at_space(text, most) : split_at(text, delimiter, most));
    XYNTRA_CHECK_OK(charge.grow(
        static_cast<std::int64_t>(sizeof(Pieces) + all.back().size() * sizeof(std::string_view))));
    counts.set_element_i64(i, std::ssize(all.back()));
    widest = std::max(widest, all.back().size());
  }
  Dims dims = x.dims();
  dims.push_back(static_cast<std::int64_t>(widest));
  XYNTRA_TRY(const std::int64_t count, element_count(dims));
  XYNTRA_CHECK_OK(charge.grow(count * static_cast<std::int64_t>(sizeof(std::string_view))));
  Pieces padded(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) {
    XYNTRA_CHECK_OK(c.worked(static_cast<std::int64_t>(widest)));
    std::ranges::copy(all[i], padded.begin() + static_cast<std::ptrdiff_t>(i * widest));
  }
  XYNTRA_TRY(Tensor pieces, Tensor::of_strings(std::move(dims), padded, c.budget()));
  c.set_result(0, std::move(pieces));
  if (c.output_count() > 1) c.set_result(1, std::move(counts));
  return {};
}

Status string_normalizer(HostContext& c) {
  XYNTRA_TRY(const auto how, c.prepared<Normalization>([&] { return read_normalization(c); }));
  const Tensor& x = c.input(0);
  XYNTRA_CHECK_OK(check_normalized_rank(c, x.dims().size()));
  if (x.rank() == 2 && x.dims()[0] != 1) return c.fail("X of rank 2 must be one row");
  StringList kept(c);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::string_view text = x.string_at(i);
    const bool dropped = how->case_sensitive ? how->stopwords.contains(text)
                                             : !how->stopwords.empty() &&
                                                   how->stopwords.contains(in_case(text, LetterCase::Lower));
    if (!dropped) XYNTRA_CHECK_OK(kept.add(how->change ? in_case(text, *how->change) : std::string(text)));
  }
  if (kept.size() == 0) XYNTRA_CHECK_OK(kept.add(""));  // as ONNX has it: never an empty tensor
  const auto count = static_cast<std::int64_t>(kept.size());
  return kept.give(0, x.rank() == 2 ? Dims{1, count} : Dims{count});
}

Status regex_full_match(HostContext& c) {
  XYNTRA_TRY(const auto pattern, c.prepared<Regex>([&]() -> Result<Regex> {
    auto compiled = Regex::compile(c.text("pattern"));
    if (!compiled) return failure(std::move(compiled).error());
    return compiled;
  }));
  const Tensor& x = c.input(0);
  XYNTRA_TRY(Tensor y, c.allocate(DType::Bool, x.dims()));
  Regex::Matcher matcher(*pattern);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    XYNTRA_TRY(const bool matches,
               matcher.full_match(x.string_at(i), [&](std::int64_t steps) { return c.worked(steps); }));
    y.set_element_i64(i, matches ? 1 : 0);
  }
  c.set_result(0, std::move(y));
  return {};
}

}  // namespace host
}  // namespace xyntra
