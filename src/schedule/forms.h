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

namespace xyntra {

enum class Form : std::uint8_t {
#define FORM(name, spelling, summary) name,
#include "schedule/forms.def"
#undef FORM
};
const char* name_of(Form form);  // "register_tile"
const char* summary_of(Form form);
std::optional<Form> form_named(std::string_view name);
std::span<const Form> all_forms();
bool may_be_barred(Form form);  // whether there is always another one

// A plan's forms that cannot make its kernel.
struct CannotObey {
  std::string reason;
};

class Forms {
 public:
  Forms() = default;  // chooses
  explicit Forms(std::vector<Form> given) : given_(std::move(given)), obeys_(true) {}
  static Forms without(std::span<const Form> barred);  // chooses among the others

  bool chooses() const { return !obeys_; }
  // Whether a form may come next.
  bool may_be(Form form) const {
    if (!obeys_) return std::ranges::find(barred_, form) == barred_.end();
    return taken_.size() < given_.size() && given_[taken_.size()] == form;
  }
  std::size_t mark() const { return taken_.size(); }
  // What was taken since did not work. Throws CannotObey where it was not ours to choose.
  void take_back(std::size_t mark, std::string_view why);
  void take(Form form);  // throws CannotObey where another one is named

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

  const std::vector<Form>& taken() const { return taken_; }
  bool all_taken() const { return !obeys_ || taken_.size() == given_.size(); }

 private:
  static bool is_made(const kir::Stmt& made) { return made.defined(); }
  static bool is_made(const std::vector<kir::Stmt>& made) { return !made.empty(); }
  template <class T>
  static bool is_made(const std::optional<T>& made) {
    return made.has_value();
  }

  std::vector<Form> given_, taken_, barred_;
  bool obeys_ = false;
};

// "rows loops×2": as tables show them.
std::string text_of(std::span<const std::string> forms);

}  // namespace xyntra
