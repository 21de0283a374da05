#include "codegen/llvm/object/merge_functions.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/Hashing.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

namespace xyntra::cpu_code {
namespace {

using llvm::BasicBlock;
using llvm::ConstantInt;
using llvm::Function;
using llvm::Instruction;
using llvm::Value;

constexpr std::size_t kMostNumbers = 12;  // each takes a register, or a load where it is used
constexpr std::size_t kMostOffsets = 4;  // that are part of an address for free where they are constants
constexpr std::size_t kMostTries = 8;  // groups that a function is compared with

bool is_before_loops(const Instruction& at) {
  const Function& function = *at.getFunction();
  const BasicBlock* block = at.getParent();
  return block == &function.getEntryBlock() || block == function.getEntryBlock().getNextNode();
}

// Whether an integer may become a variable, as far as its place tells.
bool may_vary(const Instruction& at, unsigned operand) {
  const auto* number = llvm::dyn_cast<ConstantInt>(at.getOperand(operand));
  if (number == nullptr || !number->getType()->isIntegerTy(64)) return false;
  switch (at.getOpcode()) {
    case Instruction::Add:
    case Instruction::Sub:
    case Instruction::Mul:
    case Instruction::ICmp:
    case Instruction::Select:
    case Instruction::PHI: return true;
    case Instruction::UDiv:
    case Instruction::URem: return is_before_loops(at);
    case Instruction::GetElementPtr:
      return operand > 0 && !llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(at.getOperand(0), 0));
    case Instruction::Call: return llvm::isa<llvm::MinMaxIntrinsic>(at) && is_before_loops(at);
    default: return false;
  }
}

bool is_offset(const Instruction& at) {
  const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&at);
  return address != nullptr && address->hasAllConstantIndices() && !is_before_loops(at);
}

struct Site {
  Instruction* at = nullptr;
  unsigned operand = 0;
  std::int64_t number = 0;
  bool offset = false;
};

std::vector<Site> sites_of(Function& function) {
  std::vector<Site> sites;
  for (BasicBlock& block : function) {
    for (Instruction& at : block) {
      for (unsigned operand = 0; operand < at.getNumOperands(); ++operand) {
        if (!may_vary(at, operand)) continue;
        const auto* number = llvm::cast<ConstantInt>(at.getOperand(operand));
        sites.push_back({&at, operand, number->getSExtValue(), is_offset(at)});
      }
    }
  }
  return sites;
}

// Equal for functions that are alike.
std::size_t hash_of(const Function& function) {
  llvm::hash_code hash = llvm::hash_value(function.size());
  for (const BasicBlock& block : function) {
    hash = llvm::hash_combine(hash, block.size());
    for (const Instruction& at : block)
      hash = llvm::hash_combine(hash, at.getOpcode(), at.getType(), at.getNumOperands());
  }
  return hash;
}

// Compares two functions: they are alike when they differ in integers that may vary, and in how often loops are said to go
// round.
class Alike {
 public:
  Alike(const Function& a, const Function& b) : a_(a), b_(b) {}

  bool holds() {
    if (a_.getFunctionType() != b_.getFunctionType() || a_.getAttributes() != b_.getAttributes())
      return false;
    return pair_up() && operands_match();
  }

 private:
  bool pair_up() {
    if (a_.size() != b_.size()) return false;
    for (unsigned i = 0; i < a_.arg_size(); ++i) pairs_[a_.getArg(i)] = b_.getArg(i);
    for (auto [block, other] : llvm::zip_equal(a_, b_)) {
      if (block.size() != other.size()) return false;
      pairs_[&block] = &other;
      for (auto [at, twin] : llvm::zip_equal(block, other)) {
        if (!at.isSameOperationAs(&twin) || !at.hasSameSubclassOptionalData(&twin)) return false;
        if (!metadata_matches(at, twin)) return false;
        pairs_[&at] = &twin;
      }
    }
    return true;
  }

  // Which accesses cannot overlap is said by scopes, one for each buffer: the same accesses have to share one.
  bool metadata_matches(const Instruction& at, const Instruction& twin) {
    if (at.hasMetadata() != twin.hasMetadata()) return false;
    llvm::SmallVector<std::pair<unsigned, llvm::MDNode*>, 4> of_a, of_b;
    at.getAllMetadata(of_a);
    twin.getAllMetadata(of_b);
    if (of_a.size() != of_b.size()) return false;
    for (auto [one, other] : llvm::zip_equal(of_a, of_b)) {
      if (one.first != other.first) return false;
      switch (one.first) {
        case llvm::LLVMContext::MD_prof:
        case llvm::LLVMContext::MD_noalias: break;  // of all other scopes
        case llvm::LLVMContext::MD_alias_scope:
          if (scopes_.try_emplace(one.second, other.second).first->second != other.second) return false;
          if (twins_.try_emplace(other.second, one.second).first->second != one.second) return false;
          break;
        default:
          if (one.second != other.second) return false;
      }
    }
    return true;
  }

  bool operands_match() const {
    for (auto [block, other] : llvm::zip_equal(a_, b_)) {
      for (auto [at, twin] : llvm::zip_equal(block, other)) {
        for (unsigned i = 0; i < at.getNumOperands(); ++i) {
          const Value *one = at.getOperand(i), *two = twin.getOperand(i);
          if (const auto pair = pairs_.find(one); pair != pairs_.end()) {
            if (pair->second != two) return false;
          } else if (one != two && !(may_vary(at, i) && may_vary(twin, i))) {
            return false;
          }
        }
        const auto* phi = llvm::dyn_cast<llvm::PHINode>(&at);
        for (unsigned i = 0; phi != nullptr && i < phi->getNumIncomingValues(); ++i) {
          if (pairs_.at(phi->getIncomingBlock(i)) != llvm::cast<llvm::PHINode>(twin).getIncomingBlock(i))
            return false;
        }
      }
    }
    return true;
  }

  const Function &a_, &b_;
  llvm::DenseMap<const Value*, const Value*> pairs_;
  llvm::DenseMap<const llvm::MDNode*, const llvm::MDNode*> scopes_, twins_;
};

// Functions that are alike. Sites that have the same integers in every one of them are one variable, or stay a constant.
class Group {
 public:
  explicit Group(Function& first) : sites_(sites_of(first)) {
    take(first, sites_, std::vector<int>(sites_.size()));
  }

  bool add(Function& function) {
    if (!Alike(*members_.front().function, function).holds()) return false;
    return take(function, sites_of(function), variables_);
  }

  void merge(llvm::Module& module) {
    if (members_.size() < 2) return;
    Function& first = *members_.front().function;
    auto* pointer = llvm::PointerType::getUnqual(module.getContext());
    std::vector<llvm::Type*> types(first.getFunctionType()->params());
    types.push_back(pointer);
    auto* type = llvm::FunctionType::get(first.getReturnType(), types, false);
    auto* shared = Function::Create(type, Function::InternalLinkage, first.getName() + "_shared", module);
    shared->copyAttributesFrom(&first);
    shared->setLinkage(Function::InternalLinkage);
    shared->splice(shared->begin(), &first);
    for (unsigned i = 0; i < first.arg_size(); ++i) first.getArg(i)->replaceAllUsesWith(shared->getArg(i));
    const std::vector<std::size_t> loaded = load_numbers(*shared);
    for (Member& member : members_) call_shared(module, member, *shared, loaded);
  }

 private:
  struct Member {
    Function* function = nullptr;
    std::vector<std::int64_t> numbers;  // by site
  };

  // Numbers the variables anew, now that they must agree in one more function.
  bool take(Function& function, const std::vector<Site>& sites, const std::vector<int>& before) {
    std::map<std::pair<int, std::int64_t>, int> known;
    std::vector<int> variables;
    std::vector<bool> varies, addresses;
    for (std::size_t s = 0; s < sites.size(); ++s) {
      const auto [place, fresh] =
          known.try_emplace({before[s], sites[s].number}, static_cast<int>(known.size()));
      const auto variable = static_cast<std::size_t>(place->second);
      if (fresh) {
        varies.push_back(!members_.empty() && varies_[static_cast<std::size_t>(before[s])]);
        addresses.push_back(false);
      }
      if (sites[s].number != sites_[s].number) varies[variable] = true;
      if (sites[s].offset) addresses[variable] = true;
      variables.push_back(place->second);
    }
    std::size_t numbers = 0, offsets = 0;
    for (std::size_t v = 0; v < varies.size(); ++v) {
      numbers += varies[v] ? 1 : 0;
      offsets += varies[v] && addresses[v] ? 1 : 0;
    }
    if (numbers > kMostNumbers || offsets > kMostOffsets) return false;
    variables_ = std::move(variables);
    varies_ = std::move(varies);
    Member& member = members_.emplace_back(Member{&function, {}});
    for (const Site& site : sites) member.numbers.push_back(site.number);
    return true;
  }

  // Puts loads where integers stood; returns a site of each that is loaded, in the order of their table.
  std::vector<std::size_t> load_numbers(Function& shared) {
    llvm::IRBuilder<> entry(&*shared.getEntryBlock().getFirstInsertionPt());
    Value* table = shared.getArg(static_cast<unsigned>(shared.arg_size()) - 1);
    std::vector<Value*> loads(varies_.size());
    std::vector<std::size_t> loaded;
    for (std::size_t s = 0; s < sites_.size(); ++s) {
      const auto variable = static_cast<std::size_t>(variables_[s]);
      if (!varies_[variable]) continue;
      if (loads[variable] == nullptr) {
        loads[variable] = load_number(entry, table, loaded.size(), s);
        loaded.push_back(s);
      }
      sites_[s].at->setOperand(sites_[s].operand, loads[variable]);
    }
    return loaded;
  }

  Value* load_number(llvm::IRBuilder<>& entry, Value* table, std::size_t position, std::size_t site) const {
    auto* type = entry.getInt64Ty();
    auto* load = entry.CreateLoad(type, entry.CreateConstGEP1_64(type, table, position));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(entry.getContext(), {}));
    std::int64_t least = INT64_MAX, most = INT64_MIN;
    for (const Member& member : members_) {
      least = std::min(least, member.numbers[site]);
      most = std::max(most, member.numbers[site]);
    }
    if (most < INT64_MAX) {
      const llvm::APInt from(64, static_cast<std::uint64_t>(least)),
          to(64, static_cast<std::uint64_t>(most) + 1);
      load->setMetadata(llvm::LLVMContext::MD_range,
                        llvm::MDBuilder(entry.getContext()).createRange(from, to));
    }
    return load;
  }

  static llvm::Constant* table_of(llvm::Module& module, const Member& member,
                                  const std::vector<std::size_t>& loaded) {
    if (loaded.empty())
      return llvm::ConstantPointerNull::get(llvm::PointerType::getUnqual(module.getContext()));
    std::vector<std::uint64_t> numbers;
    for (std::size_t site : loaded) numbers.push_back(static_cast<std::uint64_t>(member.numbers[site]));
    auto* content = llvm::ConstantDataArray::get(module.getContext(), numbers);
    return new llvm::GlobalVariable(module, content->getType(), /*isConstant=*/true,
                                    llvm::GlobalValue::PrivateLinkage, content);
  }

  static void call_shared(llvm::Module& module, Member& member, Function& shared,
                          const std::vector<std::size_t>& loaded) {
    Function& function = *member.function;
    const auto linkage = function.getLinkage();
    function.deleteBody();
    function.setLinkage(linkage);
    llvm::IRBuilder<> b(BasicBlock::Create(module.getContext(), "", &function));
    std::vector<Value*> arguments;
    for (llvm::Argument& argument : function.args()) arguments.push_back(&argument);
    arguments.push_back(table_of(module, member, loaded));
    llvm::CallInst* call = b.CreateCall(&shared, arguments);
    call->setTailCall();
    b.CreateRet(call);
  }

  std::vector<Site> sites_;  // of the first
  std::vector<int> variables_;  // by site
  std::vector<bool> varies_;  // by variable
  std::vector<Member> members_;
};

}  // namespace

bool calls_shared(const Function& function) {
  if (function.size() != 1) return false;
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&function.front().front());
  return call != nullptr && call->isTailCall();
}

void merge_functions(llvm::Module& module) {
  std::vector<Group> groups;
  std::unordered_map<std::size_t, std::vector<std::size_t>> by_hash;  // only looked up
  for (Function& function : module) {
    if (function.isDeclaration()) continue;
    std::vector<std::size_t>& similar = by_hash[hash_of(function)];
    bool added = false;
    for (std::size_t g = similar.size(); g-- > 0 && !added && similar.size() - g <= kMostTries;)
      added = groups[similar[g]].add(function);
    if (added) continue;
    similar.push_back(groups.size());
    groups.emplace_back(function);
  }
  for (Group& group : groups) group.merge(module);
}

}  // namespace xyntra::cpu_code
