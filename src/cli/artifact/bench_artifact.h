// xyntra bench of an artifact: how long it takes to load and to run, and what memory it takes.
#pragma once

#include <span>

#include "cli/inputs/inputs.h"
#include "cli/verb.h"
#include "report/measure.h"

namespace xyntra {

Result<ExitCode> bench_artifact(const std::string& path, const InputRequest& inputs,
                                std::span<const std::string> dims, const MeasureOptions& measuring,
                                Session& session);

}  // namespace xyntra
