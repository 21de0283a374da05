// xyntra explain of an artifact: what it holds, and what explain said of the model when it was compiled.
#pragma once

#include "cli/verb.h"

namespace xyntra {

Result<ExitCode> explain_artifact(const std::string& path, Session& session);

}  // namespace xyntra
