// One kernel as one shader module, an entry point per phase.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "codegen/analysis.h"
#include "codegen/statements.h"
#include "codegen/wgsl/operations.h"
#include "codegen/wgsl/passes/joined.h"
#include "codegen/wgsl/storage.h"

namespace xyntra::wgsl {

inline constexpr std::size_t kLongText = 72;  // longer expressions are cut into lines
inline bool is_word(const std::string& text) { return text.find_first_of(" (") == std::string::npos; }

// x + 0 or 0 - x: which operand is the zero.
std::optional<std::size_t> zero_of_sum(const te::ExprNode& node);

inline char component_name(std::size_t number) { return std::string_view("xyzw")[number % 4]; }

// What a natural number divided by a positive one gives, and what is left over.
std::string quotient_text(const std::string& natural, const std::string& divisor);
std::string rest_text(const std::string& natural, const std::string& divisor);

std::set<DType> dtypes_of(const kir::Kernel& kernel);  // that it holds or computes with
bool shuffles(const kir::Kernel& kernel);  // whether its threads exchange values

inline bool is_private(kir::Scope scope) {
  return scope == kir::Scope::Register || scope == kir::Scope::Shared;
}

class KernelEmitter : codegen::StatementEmitter {
 public:
  // A kernel in words that shaders have.
  KernelEmitter(const kir::Kernel& kernel, const WgslFeatures& features)
      : analysis_(kernel, true),
        kernel_(analysis_.kernel()),
        features_(features),
        operations_(features),
        forms_(forms_of(analysis_, operations_)) {}
  Result<ShaderKernel> emit(std::span<const ArgumentPack> packs);

 private:
  // ---- module
  Status supported() const;
  Status bind_buffers();
  Result<ShaderPhase> phase(const kir::Phase& phase, const std::string& entry);
  std::vector<std::uint32_t> bindings_of(const kir::Stmt& body) const;
  Status own_buffers(const kir::Stmt& body, bool threads);
  std::string element_type(kir::BufferId id) const;
  // Words of 0 and 1: what a driver of NVIDIA reads of bools in memory that threads share is not what was written.
  bool is_shared_bool(kir::BufferId id) const {
    return kernel_.buffer(id).scope == kir::Scope::Shared && kernel_.buffer(id).dtype == DType::Bool;
  }
  std::string array_type(kir::BufferId id) const;
  std::string array_count(kir::BufferId id, const Dim& elements) const;  // ", 12", or nothing

  // ---- statements: lines of the function's body
  Status loop(const kir::StmtNode& node) override;
  Status call(const kir::StmtNode& node) override;
  Status shuffle(const kir::StmtNode& node);
  Status serial(const kir::StmtNode& node);
  Status unrolled(const kir::StmtNode& node);
  Status lanes(const kir::StmtNode& loop);
  bool vector_store(const kir::StmtNode& node, kir::VarId lane);
  bool packed_store(const kir::StmtNode& node, kir::VarId lane);
  void assemble(const kir::StmtNode& node, kir::VarId lane);
  std::size_t fixed_lane(const te::ExprNode& load);
  Status branch(const kir::StmtNode& node) override;
  void store(const kir::StmtNode& node) override;
  Status check(const kir::StmtNode& node) override;
  void begin_statement(const kir::StmtNode& node);
  void line(const std::string& text);
  template <class Body>
  Status block(const std::string& head, Body body);

  // ---- expressions: text that stands for a value; what is used twice gets a name
  std::string value(const te::Expr& expr);
  std::string node_text(const te::Expr& expr);
  std::string sum_with_zero(const te::ExprNode& node, std::size_t zero);
  std::string named(const te::Expr& expr);  // a value as a word, whatever it takes
  bool is_position(const te::Expr& index) { return analysis_.indices().is_position(index); }
  std::string position(const te::Expr& index);  // a 64-bit index as i32
  std::string position_text(const te::Expr& index);
  std::string position(const te::LinearIndex& index);
  te::LinearIndex whole_vectors_of(te::LinearIndex& index);
  std::string sum_of(std::span<const te::LinearIndex::Term> terms);
  bool is_loop_invariant(const te::Expr& atom) const;
  std::string before_loop(std::span<const te::LinearIndex::Term> terms);
  std::string place(kir::BufferId buffer, const te::LinearIndex& index,
                    const std::string& guard = "");  // an element, or a vector along lane_
  static std::string guarded(const std::string& position, const std::string& guard);
  bool is_cheap(const te::Expr& side);
  static bool is_minimum(const te::ExprNode& node);
  std::optional<std::string> bounded_float(const te::ExprNode& node);
  std::string chosen_without_branch(const te::ExprNode& node, const std::string& condition,
                                    const std::function<std::string(const te::Expr&)>& text_of);
  bool is_apart(const te::Expr& half) const;
  bool is_sum_of_halves(const te::ExprNode& node) const;
  bool is_vector(const te::Expr& expr);  // whether it can be computed for four lanes at once
  bool is_vector(const te::Expr& expr, te::Visited& seen);
  std::string vector_value(const te::Expr& expr);
  std::string vector_text(const te::Expr& expr);
  std::string compare(const te::ExprNode& node);
  std::string select(const te::ExprNode& node);
  std::string load(const te::ExprNode& node);
  std::string load_or(const te::ExprNode& node);
  std::string either(const std::string& type, const std::string& condition,
                     const std::function<std::string()>& when_true,
                     const std::function<std::string()>& when_false);
  std::string word_at(kir::BufferId buffer, const std::string& place) const;
  std::string size(const Dim& dim);
  std::string variable(kir::VarId id) const;
  std::string buffer_name(kir::BufferId id) const;
  std::string fresh_name() { return "t" + std::to_string(names_++); }

  struct Key {
    const te::ExprNode* node;
    bool as_position;
    auto operator<=>(const Key&) const = default;
  };

  // A loop whose body is being written, and what is said before it: loop-invariant sums. Not every
  // compiler of shaders finds them.
  struct OpenLoop {
    kir::VarId var;
    int depth = 0;
    std::string before;
    std::map<std::string, std::string> names;  // by what they stand for
  };

  codegen::KernelAnalysis analysis_;
  const kir::Kernel& kernel_;
  const WgslFeatures features_;
  Operations operations_;
  ShaderKernel made_;
  std::string bindings_, body_;
  std::map<Key, std::string> known_;  // of the statement and the blocks around
  std::unordered_map<const te::ExprNode*, std::string> vectors_;  // names of four lanes, of the statement
  std::unordered_map<const te::ExprNode*, int> uses_;
  const std::unordered_set<const te::ExprNode*>* settled_ = nullptr;
  std::unordered_set<const te::ExprNode*> rounded_;  // quotients of the statement
  const te::ExprNode* stored_half_ = nullptr;  // an f32 of the statement that memory alone has as an f16
  std::unordered_set<const te::ExprNode*> cancelling_;  // sums and products of it
  std::vector<bool> atomic_;  // per buffer: packed and written
  std::vector<BufferForm> forms_;  // per buffer
  std::vector<Joined> joined_;  // per buffer
  std::map<std::size_t, std::uint32_t> numbers_;  // of bindings, by buffer
  std::vector<bool> shared_declared_;
  std::unordered_map<std::uint32_t, std::int64_t> fixed_;  // variables of loops that are written out
  std::unordered_map<const te::ExprNode*, std::string> loaded_;  // vectors whose lanes are used one by one
  kir::VarId lane_;  // of the vector loop whose four lanes are computed at once
  std::string shared_;  // declarations
  bool shuffles_ = false;  // threads exchange values
  bool has_barriers_ = false;  // threads of the phase wait for one another
  bool reads_back_ = false;  // threads see in memory what others of the phase wrote there
  std::vector<OpenLoop> loops_;
  std::string guard_;  // a condition under which alone loads are in bounds
  int depth_ = 1, names_ = 0, binding_count_ = 0;
};

template <class Body>
Status KernelEmitter::block(const std::string& head, Body body) {
  line(head + " {");
  ++depth_;
  auto outside = known_;  // names of the block are gone after it
  Status done = body();
  known_ = std::move(outside);
  --depth_;
  line("}");
  return done;
}

}  // namespace xyntra::wgsl
