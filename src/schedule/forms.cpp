#include "schedule/forms.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace xyntra {
namespace {

struct Row {
  Form form;
  const char* name;
  const char* summary;
};
constexpr auto kFormRows = std::to_array<Row>({
#define FORM(name, spelling, summary) {Form::name, spelling, summary},
#include "schedule/forms.def"
#undef FORM
});

}  // namespace

const char* name_of(Form form) { return kFormRows.at(static_cast<std::size_t>(form)).name; }
const char* summary_of(Form form) { return kFormRows.at(static_cast<std::size_t>(form)).summary; }

std::optional<Form> form_named(std::string_view name) {
  const auto* found =
      std::ranges::find(kFormRows, name, [](const Row& row) { return std::string_view(row.name); });
  return found == kFormRows.end() ? std::nullopt : std::optional(found->form);
}

std::span<const Form> all_forms() {
  static const std::vector<Form> all = [] {
    std::vector<Form> made;
    for (const Row& row : kFormRows) made.push_back(row.form);
    return made;
  }();
  return all;
}

bool may_be_barred(Form form) {
  constexpr std::array kLast{Form::Loops, Form::Recurrence, Form::PlainLoops, Form::OwnLoops,
                             Form::GuardedLoops};
  return std::ranges::find(kLast, form) == kLast.end();
}

Forms Forms::without(std::span<const Form> barred) {
  Forms forms;
  std::ranges::copy_if(barred, std::back_inserter(forms.barred_), may_be_barred);
  return forms;
}

void Forms::take(Form form) {
  if (obeys_ && !may_be(form))
    throw CannotObey{"it has to have the form '" + std::string(name_of(form)) + "' where " +
                     (taken_.size() < given_.size() ? "'" + std::string(name_of(given_[taken_.size()])) + "'"
                                                    : "nothing") +
                     " is named"};
  taken_.push_back(form);
}

void Forms::take_back(std::size_t mark, std::string_view why) {
  if (obeys_ && taken_.size() > mark)
    throw CannotObey{"the form '" + std::string(name_of(taken_[mark])) + "': " + std::string(why)};
  taken_.resize(mark);
}

std::string text_of(std::span<const std::string> forms) {
  std::string text;
  for (std::size_t i = 0; i < forms.size();) {
    std::size_t next = i;
    while (next < forms.size() && forms[next] == forms[i]) ++next;
    text += (text.empty() ? "" : " ") + forms[i];
    if (next - i > 1) text += "×" + std::to_string(next - i);
    i = next;
  }
  return text;
}

}  // namespace xyntra
