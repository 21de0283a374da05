#include "cli/artifact/check_artifact.h"

#include "package/artifact.h"
#include "support/text/json.h"
#include "support/text/text.h"

namespace xyntra {

Result<ExitCode> check_artifact(const std::string& path, Session& session) {
  auto opened = Artifact::open(path);
  if (!opened) return failure(std::move(opened).error().in_file(path));
  const Artifact& artifact = **opened;
  ThreadPool pool(session.threads() > 0 ? session.threads() : available_threads());
  const std::vector<std::string> damages = artifact.damages(pool);
  const std::size_t blocks = artifact.weight_blocks() ? artifact.weight_blocks()->count() : 0;
  if (session.json) {
    session.out = Json{{"model", path},
                       {"entries", artifact.manifest().hashes.size()},
                       {"weight_bytes", artifact.weight_bytes()},
                       {"blocks", blocks},
                       {"sound", damages.empty()},
                       {"damaged", damages}}
                      .dump(2) +
                  "\n";
  } else {
    session.out = printable(path) + ": " + std::to_string(artifact.manifest().hashes.size()) +
                  " entries, weights of " + human_bytes(static_cast<std::int64_t>(artifact.weight_bytes())) +
                  " in " + std::to_string(blocks) + (blocks == 1 ? " block\n" : " blocks\n") +
                  (damages.empty() ? "everything is as it was written\n"
                                   : std::to_string(damages.size()) + " damaged\n");
    for (const std::string& damage : damages) session.out += "  " + printable(damage) + "\n";
  }
  return damages.empty() ? ExitCode::Done : ExitCode::No;
}

}  // namespace xyntra
