// One kernel as one shader module, an entry point per phase.
#pragma once

#include <map>
#include <unordered_map>

#include "codegen/analysis.h"
#include "codegen/wgsl/operations.h"

namespace xyntra::wgsl {

class KernelEmitter {
 public:
  KernelEmitter(const kir::Kernel& kernel, const WgslFeatures& features)
      : analysis_(kernel), kernel_(analysis_.kernel()), operations_(features) {}
  Result<ShaderKernel> emit();

 private:
  // ---- module
  Status bind_buffers();
  Status phase(const kir::Phase& phase, const std::string& entry);
  void private_buffers(const kir::Stmt& body);

  // ---- statements: lines of the function's body
  Status statement(const kir::Stmt& statement);
  Status loop(const kir::StmtNode& node);
  Status branch(const kir::StmtNode& node);
  void store(const kir::StmtNode& node);
  void check(const kir::StmtNode& node);
  void begin_statement(const kir::StmtNode& node);
  void line(const std::string& text);
  template <class Body>
  Status block(const std::string& head, Body body);

  // ---- expressions: text that stands for a value; what is used twice gets a name
  std::string value(const te::Expr& expr);
  std::string node_text(const te::Expr& expr);
  std::string named(const te::Expr& expr);  // a value as a word, whatever it takes
  std::string position(const te::Expr& index);  // a 64-bit index as i32
  std::string position_text(const te::Expr& index);
  std::string position(const te::LinearIndex& index);
  std::string compare(const te::ExprNode& node);
  std::string select(const te::ExprNode& node);
  std::string load(const te::ExprNode& node);
  std::string load_or(const te::ExprNode& node);
  std::string either(const std::string& type, const std::string& condition,
                     const std::function<std::string()>& when_true,
                     const std::function<std::string()>& when_false);
  std::string word_at(kir::BufferId buffer, const std::string& word) const;
  std::string size(const Dim& dim);
  std::string variable(kir::VarId id) const;
  std::string buffer_name(kir::BufferId id) const;
  std::string fresh_name() { return "t" + std::to_string(names_++); }

  struct Key {
    const te::ExprNode* node;
    bool as_position;
    auto operator<=>(const Key&) const = default;
  };

  codegen::KernelAnalysis analysis_;
  const kir::Kernel& kernel_;
  Operations operations_;
  ShaderKernel made_;
  std::string bindings_, body_;
  std::map<Key, std::string> known_;  // of the statement and the blocks around
  std::unordered_map<const te::ExprNode*, int> uses_;
  const std::unordered_set<const te::ExprNode*>* settled_ = nullptr;
  std::vector<bool> atomic_;  // per buffer: packed and written
  int depth_ = 1, names_ = 0, binding_count_ = 0;
};

}  // namespace xyntra::wgsl
