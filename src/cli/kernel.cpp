// xyntra kernel: kernel text on its own. Verifies it, shows what passes make of it, runs it on the simulator.
#include "cli/inputs/random_inputs.h"
#include "cli/verb.h"
#include "codegen/ptx/emit.h"
#include "kir/legalize/legalize.h"
#include "kir/passes.h"
#include "kir/sim/sim.h"
#include "passes/declared_sizes.h"
#include "support/files/file.h"
#include "support/text/json.h"
#include "support/text/text.h"
#include "support/text/unknown_name.h"

namespace xyntra {
namespace {

struct KernelFlags {
  std::string file;
  std::vector<std::string> passes, dims;
  bool text = false, ptx = false, simulate = false;
  int seed = 0;
};

struct Pass {
  const char* name;
  kir::Kernel (*run)(const kir::Kernel&);
};
constexpr Pass kPasses[] = {{"simplify", kir::simplify},
                            {"unroll", [](const kir::Kernel& kernel) { return kir::unroll(kernel); }},
                            {"hoist", kir::hoist},
                            {"legalize", [](const kir::Kernel& kernel) { return kir::legalize(kernel); }},
                            {"legalize_shader", [](const kir::Kernel& kernel) {
                               return kir::legalize(kernel, {.has_lanes = false, .keeps_specials = false});
                             }}};

Result<kir::Kernel> passed(kir::Kernel kernel, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const Pass* pass = std::find_if(std::begin(kPasses), std::end(kPasses),
                                    [&name](const Pass& known) { return name == known.name; });
    if (pass == std::end(kPasses)) {
      std::vector<std::string> known;
      for (const Pass& one : kPasses) known.emplace_back(one.name);
      return failure(unknown_name("pass", name, known));
    }
    kernel = pass->run(kernel);
  }
  return kernel;
}

Result<SymbolBindings> bound_sizes(const std::vector<std::string>& dims) {
  SymbolBindings sizes;
  for (const std::string& dim : dims) {
    XYNTRA_TRY(auto size, parse_size(dim, "--dim "));
    if (!sizes.insert(std::move(size)).second)
      return usage_error("--dim " + dim + ": the size was given already");
  }
  return sizes;
}

// Random inputs, outputs of zeros.
Result<std::vector<std::vector<std::byte>>> arguments_of(const kir::Kernel& kernel,
                                                         const SymbolBindings& sizes, int seed,
                                                         const std::shared_ptr<Budget>& budget) {
  std::vector<std::vector<std::byte>> arguments;
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.scope != kir::Scope::Global) continue;
    Dims dims;
    for (const Dim& dim : buffer.shape) {
      auto size = dim.evaluate(sizes);
      if (!size)
        return usage_error("the sizes of '" + buffer.name + "' are not known: give them by --dim NAME=SIZE");
      dims.push_back(*size);
    }
    if (buffer.written) {
      XYNTRA_TRY(std::int64_t bytes, byte_size(buffer.dtype, dims));
      arguments.emplace_back(static_cast<std::size_t>(bytes));
      continue;
    }
    XYNTRA_TRY(Tensor tensor, random_tensor(buffer.dtype, dims, static_cast<std::uint64_t>(seed), buffer.name,
                                            std::nullopt, budget));
    arguments.emplace_back(tensor.bytes().begin(), tensor.bytes().end());
  }
  return arguments;
}

Result<ExitCode> look_at(const KernelFlags& flags, Session& session) {
  XYNTRA_TRY(auto file, MappedFile::open(flags.file));
  XYNTRA_TRY(std::vector<kir::Kernel> kernels, kir::parse_kernels(file->text(), flags.file));
  XYNTRA_TRY(SymbolBindings sizes, bound_sizes(flags.dims));
  ExitCode code = ExitCode::Done;
  Json entries = Json::array();
  for (kir::Kernel& kernel : kernels) {
    XYNTRA_TRY(kernel, passed(std::move(kernel), flags.passes));
    Json entry{{"name", kernel.name}};
    std::string found;
    std::optional<kir::SimReport> report;
    if (Status verified = kir::verify(kernel); !verified) {
      found = verified.error().message;
    } else if (flags.simulate) {
      XYNTRA_TRY(auto arguments, arguments_of(kernel, sizes, flags.seed, session.budget()));
      std::vector<std::span<std::byte>> spans(arguments.begin(), arguments.end());
      auto simulated = kir::simulate(kernel, spans, sizes);
      if (simulated) {
        report = *simulated;
      } else if (simulated.error().error_class == ErrorClass::Internal) {
        found = simulated.error().message;
      } else {
        return failure(std::move(simulated).error());
      }
    }
    if (!found.empty()) code = ExitCode::No;
    if (flags.text) session.out += kir::to_string(kernel);
    if (flags.ptx && found.empty()) {
      XYNTRA_TRY(const PtxKernel made, emit_ptx(kernel, {}));
      session.out += made.text;
    }
    std::string line = found;
    entry["good"] = found.empty();
    if (!found.empty()) entry["message"] = found;
    if (report) {
      entry["simulated"] = {{"work_items", report->work_items},
                            {"statements", report->statements},
                            {"loads", report->loads},
                            {"stores", report->stores},
                            {"barriers", report->barriers}};
      line = kernel.name + ": simulated, " + std::to_string(report->work_items) + " work items, " +
             std::to_string(report->statements) + " statements, " + std::to_string(report->loads) +
             " loads, " + std::to_string(report->stores) + " stores, " + std::to_string(report->barriers) +
             " barriers";
    } else if (found.empty()) {
      line = kernel.name + ": verified";
    }
    if (!session.json && (!(flags.text || flags.ptx) || !found.empty() || report)) session.out += line + "\n";
    entries.push_back(std::move(entry));
  }
  if (session.json) session.out = Json{{"kernels", std::move(entries)}}.dump(1) + "\n";
  return code;
}

}  // namespace

VerbAction declare_kernel(Flags& syntax, Session&) {
  auto flags = std::make_shared<KernelFlags>();
  syntax.push_back({"FILE", &flags->file, "kernels as text, .kir", "FILE", Flag::Required});
  syntax.push_back({"--pass", &flags->passes,
                    "simplify, unroll, hoist, legalize or legalize_shader, in the order given; repeatable",
                    "NAME"});
  syntax.push_back({"--text", &flags->text, "print the kernels"});
  syntax.push_back({"--ptx", &flags->ptx, "print them as PTX, the assembly of NVIDIA GPUs"});
  syntax.push_back({"--simulate", &flags->simulate, "run them on random inputs"});
  syntax.push_back({"--dim", &flags->dims, "NAME=SIZE of a symbolic size; repeatable", "SIZE"});
  syntax.push_back({"--seed", &flags->seed, "of the random inputs", "N"});
  return [flags](Session& running) { return look_at(*flags, running); };
}

}  // namespace xyntra
