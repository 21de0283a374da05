// LLVM as a whole: CPUs, the list of passes, objects out of modules.
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/DCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/library/module.h"
#include "codegen/llvm/object/merge_functions.h"
#include "codegen/llvm/object/wide_comparisons.h"
#include "support/limits/current_budget.h"

namespace xyntra {
namespace {

using cpu_code::MachineTraits;

void start_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

using Machine = std::unique_ptr<llvm::TargetMachine>;

Result<Machine> machine_for(const CpuTarget& cpu, bool optimize) {
  start_llvm();
  std::string problem;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(cpu.triple, problem);
  if (target == nullptr) return unsupported("no code generator for " + cpu.triple);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.NoTrappingFPMath = true;
  options.UniqueSectionNames = false;
  Machine machine(target->createTargetMachine(
      cpu.triple, cpu.cpu, cpu.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      optimize ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::None));
  if (machine == nullptr) return unsupported("no code generator for " + cpu.cpu);
  return machine;
}

MachineTraits traits_of(const llvm::TargetMachine& machine) {
  MachineTraits traits;
  traits.machine = &machine;
  if (machine.getTargetTriple().isAArch64()) {
    traits.rounds = traits.saturates = traits.fuses = traits.converts_f16 = true;
    traits.mmla_bf16 = machine.getMCSubtargetInfo()->checkFeatures("+bf16");
    traits.mmla_i8 = machine.getMCSubtargetInfo()->checkFeatures("+i8mm");
    return traits;
  }
  const llvm::MCSubtargetInfo& machine_has = *machine.getMCSubtargetInfo();
  traits.rounds = machine_has.checkFeatures("+sse4.1");
  traits.fuses = machine_has.checkFeatures("+fma");
  traits.converts_f16 = machine_has.checkFeatures("+f16c");
  traits.streams = true;
  traits.wide_functions = machine_has.checkFeatures("+avx512f,+avx512dq");
  traits.tiles = machine_has.checkFeatures("+amx-tile,+amx-bf16");
  traits.dot2_bf16 = machine_has.checkFeatures("+avx512bf16");
  traits.i8_tiles = machine_has.checkFeatures("+amx-tile,+amx-int8");
  traits.dot4_i8 = machine_has.checkFeatures("+avx512f,+avx512vnni");
  return traits;
}

// What LLVM's passes spend on each kernel. A pass cannot be stopped, but after one that went beyond the limit no other is
// begun for that kernel, nor any once the budget is used up.
class KernelClock {
 public:
  KernelClock(std::span<const NumberedKernel> kernels, const CodeOptions& options)
      : kernels_(kernels), limit_(options.kernel_seconds), budget_(options.budget), spent_(kernels.size()) {
    for (std::size_t k = 0; k < kernels.size(); ++k) positions_.emplace(kernels[k].number, k);
  }

  // Runs the passes one by one on a function of a kernel.
  void run(std::span<llvm::FunctionPassManager> passes, llvm::Function& function,
           llvm::FunctionAnalysisManager& analyses) {
    const auto kernel = position_of(function);
    for (llvm::FunctionPassManager& pass : passes) {
      if (kernel && spent_[*kernel].count() > limit_) return;
      if (budget_ != nullptr && budget_->stopped()) return;
      const auto began = Clock::now();
      analyses.invalidate(function, pass.run(function, analyses));
      if (kernel) spent_[*kernel] += Clock::now() - began;
    }
  }

  // After the passes: whether there is time left to emit instructions, too.
  Status check(const llvm::Module& module) const {
    if (budget_ != nullptr) XYNTRA_CHECK_OK(budget_->check_time());
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      if (spent_[k].count() > limit_) return late(k);
    }
    for (const llvm::Function& function : module) {
      const auto kernel = position_of(function);
      if (kernel && function.getInstructionCount() > kMostInstructions) return late(*kernel);
    }
    return {};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr unsigned kMostInstructions = 1'000'000;  // emitting more takes minutes

  Status late(std::size_t kernel) const {
    return limit_error("kernel " + kernels_[kernel].kernel->name +
                       ": making its machine code takes longer than limits.kernel_seconds allows");
  }

  // Functions are called k12_p0: emitter.cpp. What several kernels share counts for the one that it is named after.
  std::optional<std::size_t> position_of(const llvm::Function& function) const {
    llvm::StringRef name = function.getName();
    std::size_t number = 0;
    if (!name.consume_front("k") || name.consumeInteger(10, number)) return std::nullopt;
    const auto known = positions_.find(number);
    return known == positions_.end() ? std::nullopt : std::optional(known->second);
  }

  std::span<const NumberedKernel> kernels_;
  std::map<std::size_t, std::size_t> positions_;  // by number
  double limit_;
  const Budget* budget_;  // may be null
  std::vector<std::chrono::duration<double>> spent_;  // by position
};

// Few passes: the emitter writes what it means, and what is left are constants of unrolled loops, registers in memory,
// and what does not change inside a loop.
void optimize(llvm::Module& module, llvm::TargetMachine& machine, KernelClock& clock) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library(machine.getTargetTriple());
  library.disableAllFunctions();  // a kernel calls none
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);

  std::vector<llvm::FunctionPassManager> passes;
  auto add = [&passes](auto pass) { passes.emplace_back().addPass(std::move(pass)); };
  add(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  add(llvm::EarlyCSEPass(true));
  add(llvm::SimplifyCFGPass());
  add(llvm::InstCombinePass());
  add(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true,
                                            /*UseBlockFrequencyInfo=*/false));
  add(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  add(llvm::GVNPass());
  add(llvm::InstCombinePass());
  add(llvm::SimplifyCFGPass());
  add(cpu_code::WideComparisonsPass());
  add(llvm::EarlyCSEPass());
  add(llvm::DCEPass());
  for (llvm::Function& function : module) {
    if (!function.isDeclaration() && !cpu_code::calls_shared(function))
      clock.run(passes, function, functions);
  }
  llvm::ModulePassManager whole;
  whole.addPass(llvm::GlobalDCEPass());
  whole.run(module, modules);
}

struct Emitted {
  std::unique_ptr<llvm::LLVMContext> context;
  Machine machine;
  std::unique_ptr<llvm::Module> module;
  std::vector<CompiledKernel> kernels;
};

// Phases of a kernel that another module has. They were emitted all the same: sizes are numbered in the order of their first use.
void leave_out_phases(llvm::Module& module, const CompiledKernel& kernel, const NumberedKernel& given) {
  for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
    if (p < given.first_phase || p >= given.phase_end)
      module.getFunction(kernel.phases[p].symbol)->eraseFromParent();
  }
}

// The kernels in one module, each with functions of its own where they are to be read.
Result<Emitted> emitted(std::span<const NumberedKernel> kernels, const CpuTarget& cpu,
                        const CodeOptions& options, bool merged) {
  Emitted made;
  XYNTRA_TRY(made.machine, machine_for(cpu, options.optimize));
  made.context = std::make_unique<llvm::LLVMContext>();
  made.module = std::make_unique<llvm::Module>("kernels", *made.context);
  made.module->setTargetTriple(cpu.triple);
  made.module->setDataLayout(made.machine->createDataLayout());
  made.module->setPICLevel(llvm::PICLevel::SmallPIC);
  const MachineTraits traits = traits_of(*made.machine);
  for (const NumberedKernel& given : kernels) {
    if (options.budget != nullptr) XYNTRA_CHECK_OK(options.budget->check_time());
    cpu_code::KernelEmitter emitter(*made.module, traits, *given.kernel, options);
    auto kernel = emitter.emit("k" + std::to_string(given.number));
    if (!kernel) {
      Error error = std::move(kernel).error();
      error.message = "kernel " + given.kernel->name + ": " + error.message;
      return failure(std::move(error));
    }
    leave_out_phases(*made.module, *kernel, given);
    made.kernels.push_back(std::move(*kernel));
  }
  if (merged) cpu_code::merge_functions(*made.module);
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(*made.module, &stream)) internal_error("codegen: " + stream.str());
  KernelClock clock(kernels, options);
  if (options.optimize) optimize(*made.module, *made.machine, clock);
  XYNTRA_CHECK_OK(clock.check(*made.module));
  return made;
}

// Selection of instructions is quadratic in the length of a block, so long ones, such as the sum of a thousand operands, are
// selected one instruction at a time; tiles need the other way.
constexpr std::size_t kLongBlock = 2000;

std::size_t longest_block(const llvm::Module& module) {
  std::size_t longest = 0;
  for (const llvm::Function& function : module) {
    for (const llvm::BasicBlock& block : function) longest = std::max(longest, block.size());
  }
  return longest;
}

Status emit_file(Emitted& made, llvm::CodeGenFileType type, llvm::raw_pwrite_stream& stream) {
  const bool tiles = std::ranges::any_of(made.kernels, &CompiledKernel::uses_tiles);
  if (!tiles && longest_block(*made.module) > kLongBlock)
    made.machine->setOptLevel(llvm::CodeGenOptLevel::None);
  llvm::legacy::PassManager passes;
  auto* library = new llvm::TargetLibraryInfoWrapperPass(made.machine->getTargetTriple());
  passes.add(library);
  if (made.machine->addPassesToEmitFile(passes, stream, nullptr, type)) {
    return unsupported("no objects for " + made.machine->getTargetTriple().str());
  }
  passes.run(*made.module);
  return {};
}

// A kernel that calls something would fail on the machine of whoever loads it; here it is our own mistake.
void require_no_undefined_symbols(std::span<const char> bytes) {
  auto object = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(bytes.data(), bytes.size()), "kernels"));
  if (!object) internal_error("codegen: LLVM made no object: " + llvm::toString(object.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*object)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) internal_error("codegen: LLVM made a bad symbol table");
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) != 0 && !name->empty()) {
      internal_error("codegen: a kernel calls '" + name->str() + "'");
    }
  }
}

Result<CompiledKernels> compile_module(std::span<const NumberedKernel> kernels, const CpuTarget& cpu,
                                       const CodeOptions& options) {
  XYNTRA_TRY(Emitted made, within(options.budget, nullptr, [&] {
               return emitted(kernels, cpu, options, /*merged=*/options.optimize);
             }));
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  XYNTRA_CHECK_OK(emit_file(made, llvm::CodeGenFileType::ObjectFile, stream));
  const std::span<const char> object(bytes);
  require_no_undefined_symbols(object);
  if (options.budget != nullptr) XYNTRA_CHECK_OK(options.budget->check_time());
  CompiledKernels compiled;
  auto as_bytes = std::as_bytes(object);
  compiled.object.assign(as_bytes.begin(), as_bytes.end());
  compiled.kernels = std::move(made.kernels);
  return compiled;
}

struct NamedCpu {
  std::string_view name, cpu, features;
};
// The tables of target/ in LLVM's words.
constexpr NamedCpu kX86Cpus[] = {
    {"generic", "x86-64", ""},
    {"avx2", "x86-64-v3", ""},
    {"avx512", "x86-64-v4", ""},
    {"avx512_vnni", "x86-64-v4", "+avx512vnni"},
    {"avx512_vnni_1m", "x86-64-v4", "+avx512vnni"},
    {"avx512_bf16", "x86-64-v4", "+avx512vnni,+avx512bf16"},
    {"amx", "x86-64-v4", "+amx-tile,+amx-bf16,+amx-int8,+avx512vnni,+avx512bf16"},
};
constexpr NamedCpu kArmCpus[] = {
    {"generic", "generic", "+neon"},
    {"neon", "generic", "+neon"},
    {"neon_bf16", "generic", "+neon,+v8.6a,+bf16,+i8mm"},
};

Result<CpuTarget> cpu_named(std::string_view name) {
  start_llvm();
  CpuTarget found;
  found.triple = llvm::sys::getDefaultTargetTriple();
  const llvm::Triple triple(found.triple);
  if (name == "native") {
    found.cpu = llvm::sys::getHostCPUName().str();
    llvm::SubtargetFeatures features;
    llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
    std::vector<std::string> names;
    for (const auto& feature : host) names.push_back((feature.second ? "+" : "-") + feature.first().str());
    std::sort(names.begin(), names.end());  // the map's order is no order
    for (const std::string& feature : names) features.AddFeature(feature);
    found.features = features.getString();
    return found;
  }
  const bool arm = triple.isAArch64();
  const std::span<const NamedCpu> known = arm ? std::span<const NamedCpu>(kArmCpus) : kX86Cpus;
  const std::span<const NamedCpu> foreign = arm ? std::span<const NamedCpu>(kX86Cpus) : kArmCpus;
  for (const auto& list : {known, foreign}) {  // an artifact may hold code for machines of another kind
    for (const NamedCpu& one : list) {
      if (one.name != name) continue;
      found.cpu = one.cpu;
      found.features = one.features;
      if (list.data() == foreign.data())
        found.triple = arm ? "x86_64-unknown-linux-gnu" : "aarch64-unknown-linux-gnu";
      return found;
    }
  }
  found.cpu = name;
  CpuTarget plain = found;
  plain.cpu.clear();
  XYNTRA_TRY(Machine machine, machine_for(plain, false));
  if (!machine->getMCSubtargetInfo()->isCPUStringValid(found.cpu)) {
    std::string names = "native";
    for (const NamedCpu& one : known) names += ", " + std::string(one.name);
    return usage_error("no CPU is called '" + std::string(name) + "'; known are " + names +
                       ", and those of LLVM such as " +
                       (triple.isAArch64() ? "neoverse-v1" : "sapphirerapids"));
  }
  return found;
}

Result<std::string> text_of(std::span<const NumberedKernel> kernels, const CpuTarget& cpu, CodeText form,
                            const CodeOptions& options) {
  XYNTRA_TRY(Emitted made, emitted(kernels, cpu, options, /*merged=*/false));
  std::string text;
  if (form == CodeText::Ir) {
    llvm::raw_string_ostream stream(text);
    made.module->print(stream, nullptr);
    return text;
  }
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  XYNTRA_CHECK_OK(emit_file(made, llvm::CodeGenFileType::AssemblyFile, stream));
  return std::string(bytes.data(), bytes.size());
}

}  // namespace
}  // namespace xyntra

extern "C" __attribute__((visibility("default"))) const xyntra::CodeGeneratorModule* xyntra_code_generator();
const xyntra::CodeGeneratorModule* xyntra_code_generator() {
  static constexpr xyntra::CodeGeneratorModule kModule{xyntra::cpu_named, xyntra::compile_module,
                                                       xyntra::text_of};
  return &kModule;
}
