// xyntra check of an artifact: whether every byte of it is as it was written.
#pragma once

#include "cli/verb.h"

namespace xyntra {

Result<ExitCode> check_artifact(const std::string& path, Session& session);

}  // namespace xyntra
