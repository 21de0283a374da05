#include "schedule/forms.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "support/text/text.h"

namespace xyntra {
namespace {

struct Row {
  Form form;
  const char* name;
  FormTargets targets;
  const char* summary;
};
constexpr auto kFormRows = std::to_array<Row>({
#define FORM(name, spelling, targets, summary) {Form::name, spelling, FormTargets::targets, summary},
#include "schedule/forms.def"
});

}  // namespace

const char* name_of(Form form) { return kFormRows.at(static_cast<std::size_t>(form)).name; }
const char* summary_of(Form form) { return kFormRows.at(static_cast<std::size_t>(form)).summary; }

FormTargets targets_of(Form form) { return kFormRows.at(static_cast<std::size_t>(form)).targets; }

const char* name_of(FormTargets targets) {
  switch (targets) {
    case FormTargets::Any: return "any";
    case FormTargets::Cpu: return "cpu";
    case FormTargets::Gpu: return "gpu";
  }
  return "";
}

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
                     (taken_.size() < given_.size()
                          ? "'" + std::string(name_of(given_[taken_.size()].form)) + "'"
                          : "nothing") +
                     " is named"};
  taken_.push_back({form, {}});
}

std::optional<std::size_t> Forms::last_with(std::string_view knob) const {
  for (std::size_t place = taken_.size(); place-- > 0;) {
    if (find_knob(taken_[place].form, knob) != nullptr) return place;
  }
  return std::nullopt;
}

std::int64_t Forms::knob(std::string_view name, std::int64_t otherwise) {
  const auto place = last_with(name);
  if (!place) return otherwise;
  NamedForm& form = taken_[*place];
  if (obeys_) {
    const std::vector<Knob>& knobs = given_.at(*place).knobs;
    const auto given = std::ranges::find(knobs, name, &Knob::name);
    if (given == knobs.end())
      throw CannotObey{"the form '" + std::string(name_of(form.form)) + "' has to say its knob '" +
                       std::string(name) + "'; legal are " + legal_text(*find_knob(form.form, name))};
    otherwise = given->value;
  }
  const std::vector<std::int64_t>& legal = find_knob(form.form, name)->legal;
  if (std::ranges::find(legal, otherwise) == legal.end())
    internal_error(std::string(name_of(form.form)) + ": the knob '" + std::string(name) +
                   "' is chosen to be " + std::to_string(otherwise) + ", which is not legal");
  const auto after = std::ranges::lower_bound(form.knobs, name, {}, &Knob::name);
  if (after == form.knobs.end() || after->name != name)
    form.knobs.insert(after, Knob{std::string(name), otherwise});
  return otherwise;
}

bool Forms::allows(std::string_view knob, bool legal, std::string_view what_is_legal) const {
  const auto place = last_with(knob);
  if (legal || !obeys_ || !place) return legal;
  const NamedForm& form = taken_[*place];
  const auto given = std::ranges::find(form.knobs, knob, &Knob::name);
  throw CannotObey{"the knob '" + std::string(knob) + "' of the form '" + name_of(form.form) + "' is " +
                   (given == form.knobs.end() ? "missing" : std::to_string(given->value)) + ": " +
                   std::string(what_is_legal)};
}

void Forms::take_back(std::size_t mark, std::string_view why) {
  if (obeys_ && taken_.size() > mark)
    throw CannotObey{"the form '" + std::string(name_of(taken_[mark].form)) + "': " + std::string(why)};
  taken_.resize(mark);
}

std::span<const FormKnob> all_form_knobs() {
  static const std::vector<FormKnob> all{
#define FORM_KNOB(form, name, summary, ...) {Form::form, name, summary, {__VA_ARGS__}},
#include "schedule/forms.def"
  };
  return all;
}

const FormKnob* find_knob(Form form, std::string_view name) {
  for (const FormKnob& knob : all_form_knobs()) {
    if (knob.form == form && knob.name == name) return &knob;
  }
  return nullptr;
}

std::string legal_text(const FormKnob& knob) {
  std::vector<std::string> values;
  for (const std::int64_t value : knob.legal) values.push_back(std::to_string(value));
  return joined(values, ", ");
}

std::string text_of(const NamedForm& named) {
  std::string text = name_of(named.form);
  if (named.knobs.empty()) return text;
  std::vector<std::string> knobs;
  for (const Knob& knob : named.knobs) knobs.push_back(knob.name + "=" + std::to_string(knob.value));
  return text + "(" + joined(knobs, ",") + ")";
}

Result<NamedForm> parse_form(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::string name(text.substr(0, open));
  const auto form = form_named(name);
  if (!form) return bad_model("there is no form '" + printable(name) + "'; xyntra passes --forms lists them");
  NamedForm named{*form, {}};
  if (open == std::string_view::npos) return named;
  if (!text.ends_with(')')) return bad_model("the knobs of the form '" + name + "' do not end with )");
  for (std::string_view rest = text.substr(open + 1, text.size() - open - 2); !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::size_t equals = std::min(one.find('='), one.size());
    const FormKnob* knob = find_knob(*form, one.substr(0, equals));
    if (knob == nullptr)
      return bad_model("the form '" + name + "' has no knob '" + printable(one.substr(0, equals)) + "'");
    const std::string_view digits = one.substr(std::min(one.size(), equals + 1));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() ||
        std::ranges::find(knob->legal, value) == knob->legal.end())
      return bad_model("the knob '" + std::string(knob->name) + "' of the form '" + name + "' is " +
                       printable(digits) + "; legal are " + legal_text(*knob));
    named.knobs.push_back({knob->name, value});
  }
  return named;
}

std::vector<std::string> without_knobs(std::span<const std::string> forms) {
  std::vector<std::string> names;
  for (const std::string& form : forms) names.push_back(form.substr(0, form.find('(')));
  return names;
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
