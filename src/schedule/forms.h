// Which forms a kernel has. While a plan is made they are chosen: each lowering says what it tries, in the order of preference, and the
// first that works is noted. When the plan is carried out they are obeyed: what it does not name is not tried.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kir/kernel.h"
#include "plan/plan.h"

namespace xyntra {

enum class Form : std::uint8_t {
#define FORM(name, spelling, targets, summary) name,
#include "schedule/forms.def"
};
enum class FormTargets : std::uint8_t { Any, Cpu, Gpu };
const char* name_of(Form form);  // "register_tile"
const char* summary_of(Form form);
FormTargets targets_of(Form form);
const char* name_of(FormTargets targets);  // "cpu"
std::optional<Form> form_named(std::string_view name);
std::span<const Form> all_forms();
bool may_be_barred(Form form);  // whether there is always another one

// What a form may be made with. Kernels are right for every legal value; which is fastest is for whoever plans to choose.
struct FormKnob {
  Form form;
  const char* name;
  const char* summary;
  std::vector<std::int64_t> legal;  // in ascending order
};
std::span<const FormKnob> all_form_knobs();
const FormKnob* find_knob(Form form, std::string_view name);
std::string legal_text(const FormKnob& knob);  // "64, 128"

// A form as a plan names it: "loops", "warp_tiles(stages=4,tile_rows=128)".
struct NamedForm {
  Form form = Form::Loops;
  std::vector<Knob> knobs = {};
  bool operator==(const NamedForm&) const = default;
};
std::string text_of(const NamedForm& named);
Result<NamedForm> parse_form(std::string_view text);  // BadModel: what is wrong with it

// A plan's forms that cannot make its kernel.
struct CannotObey {
  std::string reason;
};

class Forms {
 public:
  Forms() = default;  // chooses
  explicit Forms(std::vector<NamedForm> given) : given_(std::move(given)), obeys_(true) {}
  static Forms without(std::span<const Form> barred);  // chooses among the others

  bool chooses() const { return !obeys_; }
  // Whether a form may come next.
  bool may_be(Form form) const {
    if (!obeys_) return std::ranges::find(barred_, form) == barred_.end();
    return taken_.size() < given_.size() && given_[taken_.size()].form == form;
  }
  std::size_t mark() const { return taken_.size(); }
  // What was taken since did not work. Throws CannotObey where it was not ours to choose.
  void take_back(std::size_t mark, std::string_view why);
  void take(Form form);  // throws CannotObey where another one is named
  // A knob of the form taken last that has it: what the plan says, or `otherwise` where that is ours to choose.
  std::int64_t knob(std::string_view name, std::int64_t otherwise);
  // Whether a knob of it may have its value here. Throws CannotObey, with what is legal, where it may not and the plan says so.
  bool allows(std::string_view knob, bool legal, std::string_view what_is_legal) const;

  // What `make` makes, if the form may be taken and something comes of it.
  template <class Make>
  auto attempt(Form form, Make make) -> decltype(make()) {
    if (!may_be(form)) return {};
    const std::size_t before = mark();
    take(form);
    auto made = make();
    if (!is_made(made)) take_back(before, "nothing can be made by it");
    return made;
  }

  const std::vector<NamedForm>& taken() const { return taken_; }
  bool all_taken() const { return !obeys_ || taken_ == given_; }

 private:
  static bool is_made(const kir::Stmt& made) { return made.defined(); }
  static bool is_made(const std::vector<kir::Stmt>& made) { return !made.empty(); }
  template <class T>
  static bool is_made(const std::optional<T>& made) {
    return made.has_value();
  }

  std::optional<std::size_t> last_with(std::string_view knob) const;

  std::vector<NamedForm> given_, taken_;
  std::vector<Form> barred_;
  bool obeys_ = false;
};

std::vector<std::string> without_knobs(std::span<const std::string> forms);
// "rows loops×2": as tables show them.
std::string text_of(std::span<const std::string> forms);

}  // namespace xyntra
