// From a formula to a kernel: what every schedule needs to turn indices and bodies into statements.
#pragma once

#include <map>
#include <optional>

#include "kir/kernel.h"
#include "schedule/analysis/access_analysis.h"
#include "schedule/forms.h"

namespace xyntra {

// A kernel under construction for one formula.
class Lowering : public AccessAnalysis {
 public:
  // `forms`: those of the kernel, chosen or obeyed; null: whoever asks chooses for itself.
  Lowering(const te::Formula& formula, const Target& target, const SymbolBindings& nominal, std::string name,
           Forms* forms = nullptr);

  Forms& forms() { return forms_ != nullptr ? *forms_ : own_forms_; }
  // As Forms::attempt; what comes to nothing leaves nothing behind.
  template <class Make>
  auto attempt(Form form, Make make) -> decltype(make()) {
    const Mark before = mark();
    const std::size_t taken = forms().mark();
    auto made = forms().attempt(form, make);
    if (forms().mark() == taken) back_to(before);
    return made;
  }
  // Neighbouring threads that exchange values without waiting, of the device that this is for; 0 where that is not known.
  std::int64_t subgroup_lanes() const { return subgroup_lanes_; }
  void exchange_in_subgroups(std::int64_t lanes) { subgroup_lanes_ = lanes; }
  kir::Kernel& kernel() { return kernel_; }

  // ---- buffers. Inputs and outputs are arguments; a temporary must be placed before it is used.
  // Dimensions not kept are those that one work item sees one turn of.
  void place(te::BufferId temporary, kir::Scope scope, const std::vector<bool>& kept = {});
  // One work item sees `count` turns of a dimension, from `first` on.
  struct Window {
    std::size_t dimension = 0;
    te::Expr first;
    std::int64_t count = 1;
  };
  void place_window(te::BufferId temporary, kir::Scope scope, const std::vector<bool>& kept,
                    const Window& window);
  // Threads take turns at a dimension, `lanes` elements at a time, and each keeps what is its own.
  struct Turns {
    std::size_t dimension = 0;
    std::int64_t threads = 1, lanes = 1;
  };
  void place_in_turns(te::BufferId temporary, const std::vector<bool>& kept, const Turns& turns);
  // Parts of a dimension, `length` elements each, lie in a ring: those in use from part `first` on.
  struct Ring {
    std::size_t dimension = 0;
    te::Expr first;
    std::int64_t parts = 1, length = 1;
  };
  void place_in_ring(te::BufferId argument, kir::Scope scope, const std::vector<bool>& kept, Ring ring);
  // An element of an argument, at an index of the kernel's, brought to where its buffer was placed since.
  kir::Stmt bring(te::BufferId argument, kir::BufferId from, std::vector<te::Expr> index);
  void place_temporaries(kir::Scope scope);  // those that are not placed yet
  bool is_placed(te::BufferId buffer) const override { return places_.count(buffer) != 0; }
  kir::BufferId placed(te::BufferId buffer) const { return places_.at(buffer).buffer; }
  kir::BufferId scratch(std::string name, DType dtype, Shape shape, kir::Scope scope);

  // Where temporaries are; another set of places may be put in its stead, and back.
  struct Place {
    kir::BufferId buffer;
    std::vector<bool> kept;
    std::optional<Window> window;
    std::optional<Turns> turns;
    std::optional<Ring> ring = {};
  };
  using Places = std::map<te::BufferId, Place>;
  const Places& places() const { return places_; }
  void put(Places places) { places_ = std::move(places); }

  // ---- variables
  te::VarId loop(const std::string& name, Dim extent) {
    return kir::add_variable(kernel_, name, std::move(extent));
  }
  std::int64_t loop_size(te::VarId loop) const { return size(kernel_.variable(loop).extent); }

  // ---- expressions: those of the formula, over the kernel's variables and buffers.
  struct Body {
    std::vector<kir::Stmt> checks;  // of indices that nothing else keeps inside; they come before its use
    te::Expr value;
  };
  using Loads =
      std::function<te::Expr(const te::ExprNode& load)>;  // what stands for a load, or an undefined Expr
  Body body(const te::Expr& expr, const te::Substitution& variables, const te::Expr& accumulator = {},
            const Loads& instead = {});
  te::Expr at(const te::Expr& index, const te::Substitution& variables);  // of an index that reads no data
  // Writes to where a stage stores, converted to the target's dtype.
  kir::Stmt store(const te::Stage& stage, const te::Substitution& variables, te::Expr value);
  kir::Stmt store(const te::Stage& stage, const te::Substitution& variables, Body value,
                  te::Expr stream = {});
  // Stages that are no more in the formula: whoever stores an element that one of them copies does that, too
  // (repeated_parts.h).
  void repeat(std::vector<te::Stage> parts);
  bool repeats_all() const;  // each of them was stored with something
  te::Expr load_target(const te::Stage& stage, const te::Substitution& variables);

  // The body where an axis has turns at all: sizes may be differences that nothing keeps from being negative.
  static kir::Stmt where_any(const Dim& extent, kir::Stmt body);

  // What was made, undefined where a form is chosen and it is not shown to stay in bounds: another form serves then.
  kir::Stmt shown_to_be_inside(kir::Stmt made);

  kir::Kernel finish(kir::Stmt body) &&;

 private:
  bool keeps(te::BufferId buffer, std::size_t dimension) const override;
  std::vector<te::Expr> kept_index(const Place& place, std::vector<te::Expr> index) const;
  kir::Stmt repeated(std::size_t part, const std::vector<te::Expr>& index, const te::Expr& value);
  te::Expr undivided(const te::Expr& index) const;
  struct Mark {
    std::size_t buffers = 0, variables = 0;
    Places places;
    std::vector<bool> done;
  };
  Mark mark() const { return {kernel_.buffers.size(), kernel_.variables.size(), places_, done_}; }
  void back_to(const Mark& mark);
  static std::size_t kept_position(const Place& place, std::size_t dimension);
  te::Expr folded(const te::Expr& expr) const;

  kir::Kernel kernel_;
  Places places_;
  std::int64_t subgroup_lanes_ = 0;
  Forms* forms_ = nullptr;
  Forms own_forms_;
  std::vector<te::Stage> repeated_;
  std::vector<bool> done_;  // by stage that is repeated
};

// The value that a reduction starts from.
te::Expr identity_of(te::Reducer reducer, DType dtype);
te::Expr combined(te::Reducer reducer, te::Expr so_far, te::Expr next);
// Neighbours with neighbours, then what comes of them: a chain would wait for each.
te::Expr combined_in_pairs(te::Reducer reducer, std::vector<te::Expr> terms);

}  // namespace xyntra
