// What a verb of the command is: its flags, and what it does with them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/flags/flags.h"
#include "rewrite/rewrite.h"
#include "support/config/config.h"
#include "support/limits/limits.h"
#include "support/result.h"

namespace xyntra {

struct Backend;

enum class ExitCode : int {
  Done = 0,
  No = 1,  // differs, contract broken, something is missing
  Usage = 2,
  Internal = 3,
  Model = 4,   // bad or unsupported
  Device = 5,  // device or limit
  Interrupted = 130,
};
ExitCode exit_code_of(const Error& error);

// What all verbs share: the settings in effect, and the way to stop it.
struct Session {
  std::shared_ptr<CancelToken> cancel = std::make_shared<CancelToken>();
  std::optional<std::string> config_path;  // --config
  struct FlagValue {
    std::string flag;
    std::string value;  // as given; empty when it was not
  };
  std::map<std::string, FlagValue> flags;  // by the setting they win over
  std::optional<Config> config;            // there once the flags are parsed
  // What the configuration says of rewriting, its rules checked.
  std::shared_ptr<const RewriteOptions> rewrite;
  bool json = false;
  std::string out;  // what goes to stdout when the verb is done

  std::shared_ptr<Budget> work;  // what the verb may use, from when its settings are known
  const std::shared_ptr<Budget>& budget() const { return work; }
  int threads() const;
  // The backend in effect; Usage error when there is none of this name, Device error when it is not
  // part of this version.
  Result<const Backend*> backend() const;
};

using VerbAction = std::function<Result<ExitCode>(Session&)>;

// A flag that wins over a setting of the configuration.
void declare_setting(Flags& syntax, Session& session, const char* flag, const char* setting,
                     const char* type_name, const std::string& help);

// The same for a flag without a value, which sets it to true.
void declare_switch(Flags& syntax, Session& session, const char* flag, const char* setting,
                    const std::string& help);

// Adds the flags of the verb, and returns what runs once they are parsed.
VerbAction declare_run(Flags& syntax, Session& session);
VerbAction declare_bench(Flags& syntax, Session& session);
VerbAction declare_compile(Flags& syntax, Session& session);
VerbAction declare_cache(Flags& syntax, Session& session);
VerbAction declare_check(Flags& syntax, Session& session);
VerbAction declare_export(Flags& syntax, Session& session);
VerbAction declare_conformance(Flags& syntax, Session& session);
VerbAction declare_ops(Flags& syntax, Session& session);
VerbAction declare_rules(Flags& syntax, Session& session);
VerbAction declare_config(Flags& syntax, Session& session);
VerbAction declare_lock(Flags& syntax, Session& session);
VerbAction declare_verify(Flags& syntax, Session& session);
VerbAction declare_devices(Flags& syntax, Session& session);
VerbAction declare_explain(Flags& syntax, Session& session);
VerbAction declare_kernel(Flags& syntax, Session& session);
VerbAction declare_passes(Flags& syntax, Session& session);

void declare_backend(Flags& syntax, Session& session);

}  // namespace xyntra
